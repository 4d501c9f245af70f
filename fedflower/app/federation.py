"""The federation that a Flower app's folder describes, for use without YAML."""

import logging
from pathlib import Path
from typing import Any

from fedflower.app.app import FlowerApp
from fedflower.app.workload import load_app

_log = logging.getLogger("fedrun")
AVERAGING = ("FedAvg", "FedProx")  # the clients of FedProx add its term themselves


def federation_of(name: str) -> tuple[dict[str, Any], Path]:
    """Returns the federation that a Flower app describes, and the app's folder.

    Args:
        name: ``flower:FOLDER``, as it was typed.

    Raises:
        WorkloadError: it is no Flower app.
        ConfigError: flwr is not installed, or too old.
    """
    app = load_app(name).app
    return describe(app, name), app.folder.path


def describe(app: FlowerApp, name: str) -> dict[str, Any]:
    """Returns a config as plain data: synchronous FedAvg, as the ServerApp defines it.

    Rounds, the share of clients in each, and evaluations are those of the ServerApp's
    strategy; the number of clients is that of ``options.num-supernodes``.

    Args:
        app: the Flower app.
        name: ``flower:FOLDER``, as it was typed.
    """
    first, clients = app.first, app.folder.nodes
    if first.strategy and first.strategy not in AVERAGING:
        _log.warning(
            "the ServerApp's strategy %s is not used; fed_avg is, or what --set "
            "algorithm.kind=... says",
            first.strategy,
        )
    config: dict[str, Any] = {
        "app": name,
        "model": str(app.folder.path / "model.safetensors"),
        "server": {"journal": f"runs/{app.folder.name}"},
        "algorithm": {
            "kind": "fed_avg",
            "buffer": min(clients, max(1, first.fewest, int(first.fraction * clients))),
        },
        "evaluate": {"every_versions": 1, "clients": app.has("evaluate")},
        "simulate": {"clients": clients},
    }
    if first.rounds:
        config["stop"] = {"versions": first.rounds}
    return config
