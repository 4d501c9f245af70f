"""The federations that are run and predicted."""

from pathlib import Path
from typing import Any

APP = Path(__file__).with_name("app.py")
CLIENTS = 10
CLIENT = {"kind": "local_sgd", "lr": 0.05, "steps": 8, "batch": 16}
# A task takes 0.8 s on a usual device; the slowest of ten is some three times slower.
DEVICES = {
    "clients": CLIENTS,
    "step_seconds": 0.1,
    "speed": {"kind": "log_normal", "sigma": 0.6},
    "jitter": {"kind": "log_normal", "sigma": 0.3},
}
# Killed every 20 s or so, and started again 5 s later.
DROPOUT = {"kind": "on_off", "there_seconds": 20.0, "gone_seconds": 5.0}


def _federation(
    algorithm: dict[str, Any], versions: int, every: int, **simulate: Any
) -> dict[str, Any]:
    everyone = {} if simulate else {"min_clients": CLIENTS}
    return {
        "app": f"{APP}:workload",
        "algorithm": {"client": CLIENT, **everyone, **algorithm},
        "evaluate": {"every_versions": every},
        "stop": {"versions": versions},
        "simulate": {**DEVICES, **simulate},
    }


_ROUNDS = {"kind": "fed_avg", "buffer": 6, "over_selection": 1.3}
_BUFFER = {"kind": "fed_buff", "buffer": 3}

SETTINGS: dict[str, dict[str, Any]] = {
    "synchronous": _federation(_ROUNDS, 40, 1),
    "FedBuff": _federation(_BUFFER, 150, 2),
    "AdaSGD, one by one": _federation({"kind": "fleet", "client": CLIENT}, 450, 5),
    "AdaSGD, compressed": _federation({"kind": "latecomer"}, 110, 2),
    "FedBuff, dropout": _federation(_BUFFER, 120, 2, availability=DROPOUT),
    "synchronous, dropout": _federation(_ROUNDS, 30, 1, availability=DROPOUT),
}
