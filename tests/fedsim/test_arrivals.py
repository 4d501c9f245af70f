"""A recorded order of arrival, simulated again."""

from pathlib import Path
from typing import Any

import pytest

import fedsim
from fedcore.errors import ConfigError
from fedrun.config import parse_config
from fedrun.run import start_run
from tests.fedsim import toys
from tests.fedsim.test_run import EVENTFUL, ROUNDS
from tests.fedsim.toys import settings, toy

MIXED: dict[str, Any] = {"algorithm": {"kind": "fed_async", "buffer": 1}}


def simulate(folder: Path, changes: dict[str, Any], **simulate: Any) -> list[str]:
    """The versions of a run."""
    config = settings(**changes)
    config["simulate"] = {**config["simulate"], **simulate}
    fedsim.run(config, toy(), folder=folder)
    return toys.digests(toys.records(folder))


@pytest.mark.parametrize(
    "changes", [{}, EVENTFUL, ROUNDS, MIXED], ids=["buff", "eventful", "avg", "async"]
)
def test_the_same_arrivals_make_the_same_versions_bit_for_bit(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    first = simulate(tmp_path / "first", changes)
    again = simulate(tmp_path / "again", changes, arrivals=str(tmp_path / "first"))
    assert len(first) == 8
    assert again == first


def test_other_settings_on_the_same_arrivals_are_a_what_if(tmp_path: Path) -> None:
    first = simulate(tmp_path / "first", EVENTFUL)
    constant = {"kind": "latecomer", "buffer": 2, "staleness": {"kind": "constant"}}
    changes = {**EVENTFUL, "algorithm": constant}
    then = simulate(tmp_path / "then", changes, arrivals=str(tmp_path / "first"))
    assert len(then) == len(first)
    assert then != first


def test_another_buffer_cannot_follow_the_recorded_order(tmp_path: Path) -> None:
    simulate(tmp_path / "first", {})
    with pytest.raises(ConfigError, match="the buffer must be the same"):
        simulate(
            tmp_path / "again",
            {"algorithm": {"buffer": 4}},
            arrivals=str(tmp_path / "first"),
        )


def test_a_run_without_clients_records_no_order(tmp_path: Path) -> None:
    empty = parse_config(settings(server={"journal": str(tmp_path / "empty")}))
    model = toy().flat()
    run = start_run(empty, model.spec, model.initial(toys.KEY), 0.0, durable=False)
    run.journal.close()
    with pytest.raises(ConfigError, match=r"simulate\.arrivals: .*empty has no client"):
        simulate(tmp_path / "again", {}, arrivals=str(tmp_path / "empty"))
