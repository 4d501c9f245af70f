"""Devices that measure no energy in a run that limits it: all hear of it once."""

import logging
from pathlib import Path
from typing import Any

import pytest

import latecomer
from fedclient.device import device
from fedcore.coordinator.events import Decided
from fedrun.journal.store import Row
from fedserver.serving import unmeasured
from fedview.results import Results
from tests.fedclient.check.test_check import APP, checked
from tests.fedsim import toys
from tests.integration.typed import desk, typed
from tests.served import alone_and_at_once as alone_and_at_once
from tests.served import served

SAID = "measured no energy of its task"


def limited(**limits: Any) -> dict[str, Any]:
    return {
        "client": {"kind": "local_sgd", "steps": 2},
        "controllers": [{"kind": "i_prof", "most": 20, **limits}],
    }


@pytest.mark.parametrize(
    ("limits", "joules", "warns"),
    [
        ({"joules": 5.0}, None, True),
        ({"joules": 5.0, "seconds": 1.0}, None, True),
        ({"joules": 5.0}, "1000000", False),
        ({"seconds": 1.0}, None, False),
    ],
)
def test_a_client_its_check_and_the_server_say_that_there_is_no_counter(
    limits: dict[str, float],
    joules: str | None,
    warns: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    counter = tmp_path / "energy_uj"
    monkeypatch.setattr(device, "_ENERGY", counter)
    if joules is not None:
        counter.write_text(joules)
    with (
        desk(tmp_path, monkeypatch),
        caplog.at_level(logging.WARNING),
        served(tmp_path, algorithm=limited(**limits), stop={"updates": 3}) as server,
    ):
        _, found = checked(server.address)
        server.progress.listeners.append(unmeasured(server.run))
        Path("mine.py").write_text(APP)
        ended = typed(
            "fedclient", "join", server.address, "--app", "mine.py:workload",
            "--state", "state", "--name", "ann", "--updates", 3,
        )  # fmt: skip
        assert ended.status == 0, ended.err
    assert ("energy" in found) is warns
    assert ended.err.count(device.NO_ENERGY) + caplog.text.count(device.NO_ENERGY) == (
        1 if warns else 0
    )
    assert [m for m in caplog.messages if SAID in m and "ann" in m][1:] == []
    assert any(SAID in message for message in caplog.messages) is warns


def test_a_core_has_the_power_of_the_last_task_that_tells_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = [device.Power(0.0, 0.0), device.Power(20.0, 2.0)]
    read = iter([*known, *[device.Power()] * 4])
    monkeypatch.setattr("fedclient.work.worker.read_power", lambda: next(read))
    found = list[Row]()
    with (
        desk(tmp_path, monkeypatch),
        served(tmp_path, algorithm=limited(joules=9.0), stop={"updates": 3}) as server,
    ):
        server.progress.listeners.append(found.append)
        Path("mine.py").write_text(APP)
        ended = typed(
            "fedclient", "join", server.address, "--app", "mine.py:workload",
            "--state", "state", "--name", "ann", "--updates", 3,
        )  # fmt: skip
        assert ended.status == 0, ended.err
    measured = [row.measured for row in found if isinstance(row, Decided)]
    assert [m.joules for m in measured if m] == [20.0, None, None]
    assert [m.device.core_watts for m in measured if m and m.device] == [
        None,
        10.0,
        10.0,
    ]


@pytest.mark.parametrize("engine", ["exact", "stacked"])
@pytest.mark.parametrize("watts", [None, 5.0])
def test_the_simulator_says_at_its_start_that_no_power_is_given(
    engine: str, watts: float | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    simulate = {"devices": {"watts": watts}, "engine": {"kind": engine}}
    config = toys.settings(algorithm=limited(joules=0.2), simulate=simulate)
    with caplog.at_level(logging.WARNING):
        done: Results = latecomer.run(config, toys.linear(), folder=tmp_path / "run")
    said = "simulated devices do not measure any"
    assert sum(said in message for message in caplog.messages) == (watts is None)
    for record in done.of(Decided):
        if engine == "exact":  # stacks keep no such records
            known = record.measured.joules, record.measured.device.core_watts
            assert [fact is None for fact in known] == [watts is None] * 2
