"""The example app with our strategy, in this process, and runs of it."""

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

APP = Path(__file__).parents[3] / "examples" / "flower" / "with-latecomer"
CONFIG = {
    "slow-node": -1,
    "slow-seconds": 0.0,
    "local-steps": 3,
    "learning-rate": 0.2,
    "batch-size": 16,
}
NODES = [11, 12, 13, 14]


def client_app(*mods: Any) -> Any:
    """Returns the ClientApp with its mods, or with others.

    Args:
        mods: in place of its own; none: its own.
    """
    module = example("client_app")

    if not mods:
        return module.app
    from flwr.clientapp import ClientApp

    app = ClientApp(mods=[mod for mod in mods if mod is not None])
    app.train()(module.train)
    app.evaluate()(module.evaluate)
    return app


def initial_arrays(seed: int = 0) -> Any:
    """Returns version 0."""
    initial_model = example("task").initial_model

    flwr = pytest.importorskip("flwr.app")
    model = initial_model(seed)
    return flwr.ArrayRecord({name: flwr.Array(w) for name, w in model.items()})


def evaluate_fn() -> Callable[[int, Any], Any]:
    """Returns the ServerApp's evaluation."""
    found: Callable[[int, Any], Any] = example("server_app").global_evaluate
    return found


def example(name: str) -> Any:
    """Returns a module of the app."""
    if str(APP) not in sys.path:
        sys.path.insert(0, str(APP))
    return import_module(f"digits_app.{name}")
