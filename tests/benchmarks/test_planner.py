"""Predicted times of plans beside simulated ones, for workers with unlike data."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks import planner, unlike_app
from benchmarks.claims.parity_app import samples
from benchmarks.series import runs
from fedcore.partitions import shards
from fedcore.workload import Client
from fedrun.data import digits
from fedstudies.plan.outcome import CHOICE, HALF

CHECKS = {
    "plan": [CHOICE, HALF, "tried 1"],
    "seconds": [30.0, None, 90.0],
    "predicted_seconds": [20.0, 10.0, 10.0],
}


class Here:
    """A pool of processes that is this one."""

    def __init__(self, *given: Any) -> None: ...

    def __enter__(self) -> "Here":
        return self

    def __exit__(self, *raised: object) -> None: ...

    def map(self, of: Callable[[int], Any], seeds: Iterable[int]) -> Iterator[Any]:
        return map(of, seeds)


def test_ratios_are_of_the_plan_and_its_baselines_and_every_run_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = set()

    def planned(seed: int, job: Any, checks: int, prices: Any, app: str) -> Any:
        seen.add((seed, app))
        return SimpleNamespace(checks=CHECKS)

    monkeypatch.setattr(planner, "planned", planned)
    monkeypatch.setattr(planner, "ProcessPoolExecutor", Here)
    monkeypatch.setattr(planner, "RESULTS", tmp_path / "planner.json")
    for _ in range(2):
        planner.main(["--seeds", "2", "--save"])
    assert {seed for seed, _ in seen} == {200, 201}
    assert "two shards, recommended: 1.50 ± 0.00, 2 seeds" in capsys.readouterr().out
    earlier, last = runs(json.loads((tmp_path / "planner.json").read_text()))
    assert earlier["ratios"] == last["ratios"]
    assert last["ratios"]["two shards"][CHOICE]["mean"] == 1.5
    assert last["ratios"]["two shards"][HALF]["seeds"] == 0


@pytest.mark.parametrize("clients", [1, 3, 8])
def test_each_sample_is_dealt_to_one_worker(clients: int) -> None:
    count = len(samples()[1])
    for name in planner.APPS.values():
        made = getattr(unlike_app, name)
        dealt = [
            made.train_data(Client(str(index), index, clients))[1]
            for index in range(clients)
        ]
        assert sum(map(len, dealt)) == count
        assert min(map(len, dealt)) > 0


def test_two_shards_are_of_few_digits() -> None:
    labels = np.asarray(digits("train")[1])
    kinds = [len(np.unique(labels[rows])) for rows in unlike_app.parts(shards, 8)]
    assert max(kinds) <= 4
