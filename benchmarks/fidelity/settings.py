"""The federations that are run and predicted."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

APP = Path(__file__).with_name("app.py")
CLIENTS = 10
CLIENT = {"kind": "local_sgd", "lr": 0.1, "steps": 8, "batch": 16}
SLOWER = {**CLIENT, "lr": 0.05}  # so that the target is beyond the pilot
# A task takes 0.8 s on a usual device; the slowest of ten is some three times slower.
DEVICES = {
    "clients": CLIENTS,
    "step_seconds": 0.1,
    "speed": {"kind": "log_normal", "sigma": 0.6},
    "jitter": {"kind": "log_normal", "sigma": 0.3},
}
# Killed every 12 s or so, and started again 4 s later; then it takes some more seconds
# until Python and torch are there.
DROPOUT: dict[str, dict[str, Any]] = {
    "simulate": {
        "availability": {"kind": "on_off", "there_seconds": 12.0, "gone_seconds": 4.0}
    },
    "timeouts": {"heartbeat": 0.5, "lost": 2.0},
}
PILOT = 30.0  # seconds, where clients come and go: some must have; else a quarter


def _federation(
    algorithm: dict[str, Any], versions: int, every: int, **more: Mapping[str, Any]
) -> dict[str, Any]:
    everyone = {} if more else {"min_clients": CLIENTS}
    return {
        "app": f"{APP}:workload",
        "algorithm": {"client": CLIENT, **everyone, **algorithm},
        "evaluate": {"every_versions": every},
        "stop": {"versions": versions},
        **more,
        "simulate": {**DEVICES, **more.get("simulate", {})},
    }


_ROUNDS = {"kind": "fed_avg", "buffer": 6, "over_selection": 1.3}
_BUFFER = {"kind": "fed_buff", "buffer": 3}
_ADA_SGD = {"kind": "ada_sgd", "percentile": 90}
_FASTER = {"kind": "sgd", "lr": 2.0}  # late updates are dampened to half

SETTINGS: dict[str, dict[str, Any]] = {
    "synchronous": _federation(_ROUNDS, 40, 1),
    "FedBuff": _federation(_BUFFER, 150, 2),
    "AdaSGD, one by one": _federation({"kind": "fleet", "client": CLIENT}, 450, 5),
    "AdaSGD, compressed": _federation(
        {"kind": "latecomer", "staleness": _ADA_SGD, "server": _FASTER}, 110, 2
    ),
    "FedBuff, dropout": _federation({**_BUFFER, "client": SLOWER}, 120, 2, **DROPOUT),
    "synchronous, dropout": _federation(_ROUNDS, 40, 1, **DROPOUT),
}


def write_setting(name: str, folder: Path) -> Path:
    """Writes the YAML file of a setting into a folder of its own; returns its path."""
    path = folder / name.replace(", ", "-").replace(" ", "-") / "fed.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(SETTINGS[name], sort_keys=False))
    return path
