"""Settings of some clients in a simulation: how long they train, and what is told."""

import logging
from pathlib import Path
from typing import Any

import pytest

import latecomer
from fedcore.coordinator.events import Decided
from tests.fedsim.toys import settings, toy

CLIENT = {"kind": "local_sgd", "lr": 0.05, "steps": 6, "batch": 4}


def first_updates(folder: Path, *overrides: dict[str, Any]) -> dict[str, Decided]:
    """The first update of each client, when all begin at once."""
    algorithm = {"client": {**CLIENT, "overrides": overrides}}
    link = {"up_mbit": 1e9, "down_mbit": 1e9, "latency": 0.0}
    given = settings(
        algorithm=algorithm, simulate={"link": link, "engine": {"kind": "exact"}}
    )
    results = latecomer.run(given, toy(), folder=folder)
    return {r.cid: r for r in reversed(results.of(Decided))}


def test_fewer_steps_and_smaller_batches_take_less_time(tmp_path: Path) -> None:
    found = first_updates(
        tmp_path / "run",
        {"clients": "client-1", "steps": 3},
        {"clients": "client-2", "batch": 2},
    )
    assert [found[f"client-{i}"].steps for i in range(4)] == [6, 3, 6, 6]
    seconds = [found[f"client-{i}"].at for i in range(4)]
    assert seconds[1] == pytest.approx(seconds[0] / 2, rel=1e-3)
    assert seconds[2] == pytest.approx(seconds[0] / 2, rel=1e-3)
    assert seconds[3] == pytest.approx(seconds[0], rel=1e-3)


def test_entries_that_no_simulated_client_has_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        first_updates(
            tmp_path / "run",
            {"clients": "client-[01]", "lr": 0.1},
            {"clients": ["phone-*", "tablet"], "lr": 0.2},
        )
    told = [m for m in caplog.messages if "overrides" in m]
    assert told == [
        "algorithm.client.overrides: no simulated client has the settings of phone-*, "
        "tablet; their names are client-0 to client-3"
    ]
