"""Three rules for making a version, each as a user would write it."""

from pathlib import Path
from typing import Any

from benchmarks.hospitals.schedule import SITES

APP = Path(__file__).with_name("app.py")
QUORUM, STEPS = 5, 20
CLIENT = {"kind": "local_sgd", "lr": 0.2, "steps": STEPS, "batch": 16}
OURS, FIVE, STRICT = "latecomer", "quorum of five", "strict barrier"
_ROUNDS = {"kind": "fed_avg", "deadline": None}
WAYS: dict[str, dict[str, Any]] = {
    OURS: {"kind": "latecomer"},
    # All eight are asked; five make a version, and what comes later is refused.
    FIVE: {**_ROUNDS, "buffer": QUORUM, "over_selection": SITES / QUORUM},
    STRICT: {**_ROUNDS, "buffer": SITES},
}


def algorithm(way: str) -> dict[str, Any]:
    """The section ``algorithm`` of the YAML."""
    return {"client": CLIENT, **WAYS[way]}
