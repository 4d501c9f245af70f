"""Clients that compare their models with the public one, in both engines."""

from pathlib import Path
from typing import Any

import pytest

import latecomer
from fedcore.coordinator.events import Decided
from fedcore.errors import ConfigError
from fedrun.data import digits
from fedview.results import Results

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from fedtorch import TorchWorkload  # noqa: E402
from tests.fedsim.test_resume import InterruptAt  # noqa: E402
from tests.fedsim.test_resume import told as all_told  # noqa: E402
from tests.fedsim.test_stacked import model, told, train_data, valid_data  # noqa: E402

WORKLOAD = TorchWorkload(
    model=model,
    loss=nn.CrossEntropyLoss(),
    metrics=lambda output, target: {
        "accuracy": (output.argmax(1) == target).float().mean()
    },
    train_data=train_data,
    valid_data=valid_data,
    test_data=lambda: digits("test"),
)
SCOUT = {"kind": "skew_scout", "every": 2, "levels": [1, 0.5, 0.2], "tolerance": 0.02}
SENDS_LESS = {
    "uplink": {
        "kind": "error_feedback",
        "own_view": True,
        "inner": {"kind": "top_k", "ratio": 0.2},
    },
    "controllers": [SCOUT],
}


def config(**engine: Any) -> dict[str, Any]:
    client = {"kind": "local_sgd", "steps": 10}
    return {
        "algorithm": {"kind": "fed_buff", "buffer": 3, "client": client, **SENDS_LESS},
        "stop": {"versions": 40},
        "simulate": {
            "clients": 8,
            "dropout": 0.2,
            "upload_loss": 0.2,
            "away_seconds": 2.0,
            "engine": engine,
        },
    }


def run(settings: Any, folder: Path, **options: Any) -> Results:
    return latecomer.run(settings, WORKLOAD, folder=folder, **options)


def test_both_engines_find_the_same_levels(tmp_path: Path) -> None:
    exact = run(config(kind="exact"), tmp_path / "exact")
    stacked = run(config(kind="stacked"), tmp_path / "stacked")
    workers = run(config(kind="stacked", processes=2), tmp_path / "workers")
    assert told(stacked) == told(exact)
    assert told(workers) == told(exact)
    assert len({r.nbytes for r in exact.of(Decided)}) >= 3  # levels were tried


def test_an_interrupted_search_goes_on(tmp_path: Path) -> None:
    whole = run(config(kind="stacked"), tmp_path / "whole")
    settings, folder = config(kind="stacked"), tmp_path / "parts"
    with pytest.raises(KeyboardInterrupt):
        run(settings, folder, on_event=InterruptAt(15))
    parts = run(settings, folder, resume=True)
    assert all_told(parts) == all_told(whole)


def test_clients_need_data_to_compare_models_on(tmp_path: Path) -> None:
    blind = TorchWorkload(
        model=model, loss=nn.CrossEntropyLoss(), train_data=train_data
    )
    with pytest.raises(ConfigError, match="so do controllers that compare models"):
        latecomer.run(config(), blind, folder=tmp_path / "run")
