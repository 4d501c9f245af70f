"""A federation that is quick to simulate: a line through each client's few points."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcore.coordinator.events import Decided, Stepped
from fedcore.model import Metrics
from fedcore.params import Tensors
from fedcore.rng import Key
from fedcore.workload import Client, Workload
from fedrun.journal import Journal

DIM = 6
KEY = Key.root(0)


def gradient(params: Tensors, x: Any, y: Any) -> tuple[float, Tensors]:
    error = x @ params["w"] - y
    return float((error**2).mean()), {"w": 2 * x.T @ error / len(y)}


def evaluate(params: Tensors, x: Any, y: Any) -> Metrics:
    return {"loss": gradient(params, x, y)[0]}


def points(seed: int, count: int = 8) -> tuple[Any, Any]:
    """Inputs, and targets near their sum."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((count, DIM)).astype(np.float32)
    return x, (x.sum(axis=1) + 0.1 * rng.standard_normal(count)).astype(np.float32)


def train_data(client: Client) -> tuple[Any, Any]:
    return points(client.index + 1)


def toy(**changes: Any) -> Workload:
    """The workload, some of its functions replaced."""
    given: dict[str, Any] = {
        "initial": lambda rng: {"w": np.zeros(DIM)},
        "gradient": gradient,
        "evaluate": evaluate,
        "train_data": train_data,
        "test_data": lambda: points(0),
    }
    return Workload(**{**given, **changes})


def linear(**changes: Any) -> Workload:
    """The same in torch, whose clients are computed in stacks."""
    nn = pytest.importorskip("torch").nn
    from fedtorch import TorchWorkload

    given: dict[str, Any] = {
        "model": lambda: nn.Sequential(nn.Linear(DIM, 1), nn.Flatten(0)),
        "loss": nn.functional.mse_loss,
        "train_data": train_data,
        "test_data": lambda: points(0),
    }
    return TorchWorkload(**{**given, **changes})


APP = """
from tests.fedsim.toys import points, toy
workload = toy()
"""


def write(app: str = APP, config: str = "") -> None:
    """A project of the toy, in the folder where we are."""
    Path("mine.py").write_text(app)
    Path("fed.yaml").write_text(
        "app: mine.py:workload\n"
        "algorithm: {kind: fed_buff, buffer: 2, client: {kind: local_sgd, steps: 2}}\n"
        "stop: {versions: 6}\n"
        "simulate: {clients: 4, dropout: 0.2}\n" + config
    )


def settings(**changes: Any) -> dict[str, Any]:
    """A small asynchronous federation; sections are merged into it."""
    given: dict[str, Any] = {
        "algorithm": {
            "kind": "fed_buff",
            "buffer": 2,
            "client": {"kind": "local_sgd", "lr": 0.05, "steps": 3, "batch": 4},
        },
        "evaluate": {"every_versions": 2},
        "stop": {"versions": 8},
        "simulate": {"clients": 4},
    }
    for section, fields in changes.items():
        known = given.get(section, {})
        given[section] = {**known, **fields} if isinstance(fields, dict) else fields
    return given


def records(folder: Path) -> list[Any]:
    """All records of a run."""
    journal = Journal.open(folder, read_only=True)
    try:
        return [entry.record for entry in journal.store.entries(payloads=False)]
    finally:
        journal.close()


def digests(records: Iterable[Any]) -> list[str]:
    """The digest of every version."""
    return [record.digest for record in records if isinstance(record, Stepped)]


def accepted(records: Iterable[Any]) -> list[Decided]:
    """The updates that count."""
    return [
        record
        for record in records
        if isinstance(record, Decided) and record.verdict.value == "accepted"
    ]
