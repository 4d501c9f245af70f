"""Actors of Ray come to what processes come to, whatever becomes of them."""

import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import latecomer
from fedcore.coordinator.events import Stepped
from fedcore.errors import ConfigError, UserCodeError
from fedcore.user_code import last_words
from fedtorch import TorchWorkload
from fedview.results import Results
from tests.fedsim.test_processes import INDEXED, family, named_memory, set_trap, trapped
from tests.fedsim.test_stacked import SETTINGS, WORKLOAD, told

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.needs("ray"),
    pytest.mark.processes,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore"),  # Ray's own
]
RAY = {"kind": "ray"}


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """A cluster of our own, whatever else runs on this machine."""
    ray = import_module("ray")
    ray.init("local", num_cpus=4, log_to_driver=False, include_dashboard=False)
    ours = [os.getpid(), *family(os.getpid())]
    names = {name for process in ours for name in named_memory(process)}
    yield
    ray.shutdown()
    assert not [name for name in names if Path(name).exists()]


def simulated(
    folder: Path, name: str, workload: Any = WORKLOAD, **engine: Any
) -> Results:
    settings = SETTINGS[name]
    simulate = {"clients": 12, **settings.get("simulate", {}), "engine": engine}
    config = {"stop": {"versions": 8}, **settings, "simulate": simulate}
    return latecomer.run(config, workload, folder=folder)


def digests(results: Results) -> list[str]:
    return [record.digest for record in results.of(Stepped)]


def trapped_in(folder: Path) -> TorchWorkload:
    """A workload that does what the files in a folder say."""
    return TorchWorkload(
        model=INDEXED.model,
        loss=lambda out, y: trapped(out, y, folder),
        train_data=INDEXED.train_data,
    )


@pytest.mark.parametrize("name", ["fed_avg", "momentum", "top_k", "fates"])
def test_actors_tell_the_story_of_processes(name: str, tmp_path: Path) -> None:
    one = simulated(tmp_path / "one", name)
    processes = simulated(tmp_path / "processes", name, processes=2)
    actors = simulated(tmp_path / "actors", name, **RAY)
    assert told(actors) == told(one)
    np.testing.assert_allclose(actors.central["loss"], one.central["loss"], rtol=1e-5)
    assert digests(actors) == digests(processes)  # the same shares


def test_data_by_index_and_what_cannot_be_pickled_travel(tmp_path: Path) -> None:
    one = simulated(tmp_path / "one", "fed_avg", INDEXED)
    actors = simulated(tmp_path / "ray", "fed_avg", INDEXED, **RAY, actors=3)
    assert told(actors) == told(one)
    # Ray moves functions of all kinds, which other processes could not find.
    hidden = TorchWorkload(
        model=lambda: INDEXED.model(),
        loss=INDEXED.loss,
        train_data=lambda client: INDEXED.train_data(client),
        test_data=INDEXED.test_data,
    )
    again = simulated(tmp_path / "hidden", "fed_avg", hidden, **RAY, actors=3)
    assert digests(again) == digests(actors)


def test_an_actor_that_dies_is_replaced_and_changes_no_bit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    workload = trapped_in(tmp_path)
    whole = simulated(tmp_path / "whole", "top_k", workload, **RAY)
    set_trap(tmp_path / "kills once")
    hurt = simulated(tmp_path / "hurt", "top_k", workload, **RAY)
    assert not (tmp_path / "kills once").exists()
    assert digests(hurt) == digests(whole)
    lost = [r.message for r in caplog.records if "computed again" in r.message]
    assert len(lost) == 1
    assert lost[0].startswith("an actor of Ray has died; its ")


def test_the_users_error_comes_back_with_its_traceback(tmp_path: Path) -> None:
    set_trap(tmp_path / "raises")
    with pytest.raises(UserCodeError, match="no such thing") as raised:
        simulated(tmp_path / "run", "fed_avg", trapped_in(tmp_path), **RAY)
    assert "in trapped" in last_words(raised.value)


def test_settings_of_processes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="processes belongs to kind stacked"):
        simulated(tmp_path / "run", "fed_avg", **RAY, processes=3)
