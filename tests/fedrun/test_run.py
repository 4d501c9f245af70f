"""A run begins, and goes on where its journal ends."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcore.coordinator.events import ClientEnrolled, Closed, RunResumed, StopRequested
from fedcore.errors import ConfigError, ModelError, SpecMismatchError
from fedrun.commit import GroupCommit
from fedrun.files import save_model
from fedrun.journal import Configured
from fedrun.run import Run, differences, open_run
from tests.served import settings, spec_of


def opened(folder: Path, at: float = 0.0, amend: bool = False, **changes: Any) -> Run:
    return open_run(settings(folder, **changes), at, amend=amend)


def lived(run: Run, *, end: bool = False) -> None:
    """A client enrols, and perhaps the run ends; the process too."""
    group = GroupCommit(run)
    group.feed(ClientEnrolled(at=1.0, cid="a", name="ann"))
    if end:
        group.feed(StopRequested(at=2.0, reason="enough"))
    group.commit(lazy_too=True)
    run.journal.close()


def records(run: Run) -> list[Any]:
    return [entry.record for entry in run.journal.store.entries(payloads=False)]


def test_a_fresh_run_has_names_of_its_own(tmp_path: Path) -> None:
    first, second = (opened(tmp_path / name) for name in _folders(tmp_path))
    assert first.recovered is None
    assert first.run_id != second.run_id
    assert first.coordinator.state.epoch != second.coordinator.state.epoch
    for run in (first, second):
        run.journal.close()


def _folders(root: Path) -> list[str]:
    for name in ("a", "b"):
        (root / name).mkdir()
    return ["a", "b"]


def test_a_run_goes_on_as_the_same_run(tmp_path: Path) -> None:
    first = opened(tmp_path)
    lived(first)
    again = opened(tmp_path, at=5.0)
    assert again.recovered == 2
    assert again.run_id == first.run_id
    assert again.coordinator.state.epoch == first.coordinator.state.epoch
    assert again.coordinator.state.clients["a"].name == "ann"
    again.journal.close()


def test_the_clock_of_a_run_does_not_go_back(tmp_path: Path) -> None:
    lived(opened(tmp_path), end=True)
    again = opened(tmp_path, at=0.5)
    assert again.coordinator.state.at >= 2.0
    again.journal.close()


def test_its_model_file_need_not_be_there_any_more(tmp_path: Path) -> None:
    lived(opened(tmp_path))
    config = settings(tmp_path)
    config.model.unlink()
    again = open_run(config, 5.0)
    again.journal.close()
    assert not config.model.exists()


def test_without_a_model_nothing_begins(tmp_path: Path) -> None:
    config = settings(tmp_path)
    config.model.unlink()
    with pytest.raises(ModelError, match=r"model\.safetensors: no such file"):
        open_run(config, 0.0)
    assert not config.server.journal.exists()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_first_model_that_is_not_finite_is_refused(
    tmp_path: Path, value: float
) -> None:
    config = settings(tmp_path)
    save_model(config.model, spec_of(100), np.full(100, value, np.float32))
    with pytest.raises(
        ModelError, match=r"version 0 of the model: tensor '.*' holds NaN"
    ):
        open_run(config, 0.0)
    assert not config.server.journal.exists()


def test_another_model_is_refused_and_the_folder_is_free_again(tmp_path: Path) -> None:
    lived(opened(tmp_path))
    model = settings(tmp_path).model
    save_model(model, spec_of(100), np.ones(100, np.float32))
    with pytest.raises(SpecMismatchError, match="is not the model that this run began"):
        opened(tmp_path)
    save_model(model, spec_of(99), np.zeros(99, np.float32))
    with pytest.raises(SpecMismatchError, match=r"should have shape \[100\], has \[99"):
        opened(tmp_path)
    model.unlink()
    opened(tmp_path).journal.close()


@pytest.mark.parametrize(
    "changes",
    [
        {"stop": {"versions": 5}},
        {"timeouts": {"lease": 3.0}},
        {"evaluate": {"every_versions": 2}},
        {"simulate": {"clients": 7}},
    ],
)
def test_what_is_not_the_algorithm_may_change_and_is_written_down(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    lived(opened(tmp_path))
    again = opened(tmp_path, at=5.0, **changes)
    configured = [r.config for r in records(again) if isinstance(r, Configured)]
    again.journal.close()
    assert len(configured) == 2
    (section,) = changes
    assert configured[0][section] != configured[1][section]
    assert configured[0]["algorithm"] == configured[1]["algorithm"]


def test_a_changed_algorithm_is_refused_unless_it_is_said(tmp_path: Path) -> None:
    lived(opened(tmp_path))
    changes: dict[str, Any] = {"algorithm": {"buffer": 3, "staleness_limit": 7}}
    with pytest.raises(
        ConfigError,
        match=r"algorithm\.buffer: 1 -> 3; algorithm\.staleness_limit: None -> 7; put",
    ):
        opened(tmp_path, **changes)
    again = opened(tmp_path, amend=True, **changes)
    assert again.coordinator.algorithm.config.buffer == 3
    again.journal.close()
    opened(tmp_path, **changes).journal.close()  # it was written down


def test_what_clients_remember_cannot_change_its_meaning(tmp_path: Path) -> None:
    lived(opened(tmp_path))
    pair = {role: {"kind": "ef21"} for role in ("uplink", "server")}
    changes: dict[str, Any] = {"algorithm": {**pair, "staleness": {"kind": "constant"}}}
    with pytest.raises(ConfigError, match="cannot go on with ef21: clients keep a"):
        opened(tmp_path, amend=True, **changes)
    opened(tmp_path).journal.close()  # nothing was written down


def test_an_ended_run_stays_ended_unless_its_end_lies_further_away(
    tmp_path: Path,
) -> None:
    lived(opened(tmp_path), end=True)
    same = opened(tmp_path, at=5.0)
    assert same.coordinator.state.closed == "enough"
    assert isinstance(records(same)[-1], Closed)
    same.journal.close()
    further = opened(tmp_path, at=6.0, stop={"versions": 9})
    assert not further.coordinator.state.closed
    assert isinstance(records(further)[-1], RunResumed)
    further.journal.close()


def test_differences_are_named_by_their_path() -> None:
    old = {"a": 1, "b": {"c": [1], "d": None}, "e": 5}
    new = {"a": 1, "b": {"c": [2], "d": {"x": 1}}, "f": 6}
    assert differences(old, new) == [
        "b.c: [1] -> [2]",
        "b.d: None -> {'x': 1}",
        "e: 5 -> None",
        "f: None -> 6",
    ]
    assert differences(new, new) == []
