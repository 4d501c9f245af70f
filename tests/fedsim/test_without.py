"""Leaving a client out of a replay, and training the others again without it.

The two are the same, bit for bit, where the updates of the others do not depend on the
model: what they send stays what it was.
"""

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import latecomer
from fedcore.coordinator.events import Stepped
from fedcore.params import Tensors
from fedcore.workload import Client, Workload
from fedrun.journal import Journal
from fedrun.journal.restored import Restored
from fedview.results import Results
from tests.fedsim import toys
from tests.fedsim.test_run import EVENTFUL
from tests.fedsim.toys import DIM, settings, toy

GONE = "client-1"
TOP_K = {"kind": "error_feedback", "inner": {"kind": "top_k", "ratio": 0.5}}


def constant(params: Tensors, x: Any, y: Any) -> tuple[float, Tensors]:
    """A gradient of the data alone; its sums are exact in single precision."""
    return 0.0, {"w": x.mean(0)}


def whole_numbers(client: Client) -> tuple[Any, Any]:
    """Multiples of three: a mean over three clients is exact, too."""
    rng = np.random.default_rng(client.index)
    x = 3 * rng.integers(-8, 8, (8, DIM))
    return x.astype(np.float32), np.zeros(8, np.float32)


def without_feedback() -> Workload:
    return toy(gradient=constant, train_data=whole_numbers)


def exact(**algorithm: Any) -> dict[str, Any]:
    """Settings under which every weight and every step is a power of two."""
    client = {"kind": "local_sgd", "lr": 0.5, "steps": 3, "batch": 4}
    given = {"client": client, "staleness": {"kind": "constant"}, **algorithm}
    return settings(algorithm=given, stop={"versions": 8})


def simulate(folder: Path, config: dict[str, Any], workload: Workload) -> Path:
    latecomer.run(config, workload, folder=folder)
    return folder


def replayed(run: Path) -> list[str]:
    """The digests of the versions of a replay without the client."""
    with closing(Journal.open(run, read_only=True)) as journal:
        replay = Restored(journal, [GONE])
        state, digests = replay.coordinator.state, []
        for _, record in journal.entries():
            if any(isinstance(each, Stepped) for each in replay.take(record)):
                digests.append(state.published.digest)
    return digests


def retrained(run: Path, config: dict[str, Any], workload: Workload) -> Path:
    """The run of the same arrivals, for which the others train without the client."""
    told = {**config["simulate"], "arrivals": str(run), "without": [GONE]}
    again = run.with_name("again")
    return simulate(again, {**config, "simulate": told}, workload)


@pytest.mark.parametrize(
    "config",
    [
        exact(),
        exact(buffer=4),
        exact(uplink=TOP_K),
        {**exact(), "simulate": {**EVENTFUL["simulate"], "clients": 4}},
    ],
    ids=["buff", "buffer of 4", "memory", "eventful"],
)
def test_without_feedback_the_replay_is_the_retrained_run_bit_for_bit(
    config: dict[str, Any], tmp_path: Path
) -> None:
    run = simulate(tmp_path / "run", config, without_feedback())
    again = retrained(run, config, without_feedback())
    expected = toys.digests(toys.records(again))
    assert replayed(run) == expected
    assert expected != toys.digests(toys.records(run))
    assert GONE not in Results(again).updates["client"]


def test_updates_of_version_0_alone_are_the_same_for_any_workload(
    tmp_path: Path,
) -> None:
    algorithm = {"kind": "fed_avg", "buffer": 4}
    config = settings(algorithm=algorithm, stop={"versions": 1})
    run = simulate(tmp_path / "run", config, toy())
    again = retrained(run, config, toy())
    assert set(Results(again).updates["base"]) == {0}
    assert replayed(run) == toys.digests(toys.records(again))


def test_the_places_of_a_client_that_is_left_out_stay_empty(tmp_path: Path) -> None:
    """No update of the next round fills them, so nobody is late."""
    algorithm = {"kind": "fed_avg", "buffer": 4}
    config = settings(algorithm=algorithm, stop={"versions": 8})
    run = simulate(tmp_path / "run", config, toy())
    again = Results(retrained(run, config, toy()))
    assert again.versions["updates"] == [3] * 8
    assert set(again.updates["staleness"]) == {0}


def test_where_clients_learn_from_the_model_the_replay_is_another_one(
    tmp_path: Path,
) -> None:
    config = settings()
    run = simulate(tmp_path / "run", config, toy())
    again = retrained(run, config, toy())
    expected = toys.digests(toys.records(again))
    found = replayed(run)
    assert len(found) == len(expected)
    assert found[-1] != expected[-1]
    ours, theirs = latecomer.replay(run, without=GONE), Results(again)
    assert ours.replayed.updates == len(theirs.updates["client"])
