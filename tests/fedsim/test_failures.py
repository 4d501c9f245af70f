"""Clients whose data or updates are no use: told by name, and not for ever."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedcore.coordinator.records import Failed
from fedcore.errors import UserCodeError
from fedcore.workload import MOST_FAILURES, Client
from fedrun.report.lives import lives_of
from fedrun.report.lost import what_was_lost
from tests.fedsim import toys
from tests.fedsim.toys import points, toy

ENGINES = pytest.mark.parametrize("engine", ["exact", "stacked"])


def broken_data(client: Client) -> tuple[Any, Any]:
    """Client 2 has a sample that is no number."""
    x, y = points(client.index + 1)
    if client.index == 2:
        x[3, 1] = np.nan
    return x, y


def no_data(client: Client) -> tuple[Any, Any]:
    """Client 2 has no file."""
    if client.index == 2:
        raise FileNotFoundError("part-2.npz")
    return points(client.index + 1)


@ENGINES
@pytest.mark.parametrize(
    ("train_data", "error"),
    [(broken_data, "is not finite; it is not sent"), (no_data, "Error: part-2.npz")],
)
def test_a_client_that_is_no_use_is_named(
    tmp_path: Path, train_data: Any, error: str, engine: str
) -> None:
    settings = toys.settings(
        simulate={"engine": {"kind": engine}}, stop={"versions": 400}
    )
    results = fedsim.run(settings, toy(train_data=train_data), folder=tmp_path / "run")
    assert results.summary["versions"] == 400
    assert len(results.of(Failed)) == MOST_FAILURES
    [(name, told)] = results.summary["failed"].items()
    assert told.endswith(error)
    loss = what_was_lost(results, lives_of(results))
    assert loss.headline.endswith(f" 1 client failed: {name}.")
    assert not loss.nothing
    assert any(told in sentence for sentence in loss.sentences)


@ENGINES
def test_a_run_in_which_nothing_is_finite_ends(tmp_path: Path, engine: str) -> None:
    def nowhere(params: Any, x: Any, y: Any) -> Any:
        return 0.0, {"w": np.full_like(params["w"], np.inf)}

    settings = toys.settings(simulate={"engine": {"kind": engine}})
    with pytest.raises(UserCodeError, match=r"5 times in a row: the update .*finite"):
        fedsim.run(settings, toy(gradient=nowhere), folder=tmp_path / "run")


def test_a_run_without_anything_to_measure_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fedsim.run(toys.settings(), toy(test_data=None), folder=tmp_path / "run")
    assert "nothing is measured: the workload has no test_data=" in caplog.text
