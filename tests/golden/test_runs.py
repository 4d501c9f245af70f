"""Simulated federations come to what they came to before, on every processor."""

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from fedcore.aggregators import weighted_mean
from tests.golden.federations import FEDERATIONS, ROUNDED
from tests.golden.rounding import of_an_older_processor
from tests.golden.runs import (
    ENGINES,
    OTHER_BITS,
    Came,
    came_to,
    differences,
    matters,
    saved,
)

SAVED = saved()
SGD = {"kind": "local_sgd"}


def changed(settings: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with other ones in their places."""
    return {
        **settings,
        **{
            name: changed(settings.get(name, {}), value)
            if isinstance(value, Mapping) and "kind" not in value
            else value
            for name, value in change.items()
        },
    }


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", FEDERATIONS)
def test_a_federation_comes_to_what_it_came_to(name: str, engine: str) -> None:
    told = differences(SAVED[name], came_to(FEDERATIONS[name], engine))
    assert [each for each in told if matters(name, each)] == []


def test_nothing_is_saved_of_federations_that_are_gone() -> None:
    assert SAVED.keys() == FEDERATIONS.keys()
    assert ROUNDED.keys() <= FEDERATIONS.keys()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("codec_low_rank", {"client": SGD | {"lr": 0.101}}),
        ("codec_low_rank", {"uplink": {"kind": "low_rank", "rank": 1}}),
        ("codec_low_rank", {"uplink": {"inner": {"warm_start": False}}}),
        ("codec_low_rank", {"uplink": {"inner": {"iterations": 3}}}),
        ("codec_low_rank", {"staleness": {"kind": "polynomial", "exponent": 0.49}}),
        ("codec_semi_discrete", {"client": SGD | {"lr": 0.101}}),
        ("codec_semi_discrete", {"uplink": {"kind": "semi_discrete"}}),
        ("norms", {"client": {"clip_norm": 0.495}}),
        ("norms", {"uplink": {"cap": 0.49}}),
    ],
)
def test_what_may_be_rounded_may_not_be_computed_otherwise(
    name: str, change: Mapping[str, Any]
) -> None:
    wrong = changed(FEDERATIONS[name], {"algorithm": change})
    told = differences(SAVED[name], came_to(wrong, "exact"))
    assert any(matters(name, each) for each in told)


@pytest.mark.parametrize("name", ROUNDED)
def test_an_update_that_is_missed_shows(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    accumulate, calls = weighted_mean._accumulate, iter(range(1000))

    def all_but_the_fifth(sum_D: Any, update: Any) -> Any:
        return sum_D if next(calls) == 4 else accumulate(sum_D, update)

    monkeypatch.setattr(weighted_mean, "_accumulate", all_but_the_fifth)
    told = differences(SAVED[name], came_to(FEDERATIONS[name], "exact"))
    assert any(matters(name, each) for each in told)


def test_a_version_that_is_no_number_is_far_away() -> None:
    before = Came("a", "b", [0.0, 1.0])
    assert differences(before, before) == []
    assert differences(before, before._replace(bits="c")) == [OTHER_BITS]
    for places in ([0.0, float("nan")], [0.0], [0.0, 1.0001]):
        assert differences(before, before._replace(places=places))


@pytest.mark.processes
def test_another_processor_comes_to_the_same() -> None:
    names = ["latecomer", "fleet", "adam", "mifa", *ROUNDED]
    run = subprocess.run(
        [sys.executable, "-m", "tests.golden.runs", *names],
        env=of_an_older_processor(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    # It did round another way, and only where it may.
    assert f"codec_low_rank: {OTHER_BITS}" in run.stdout.splitlines()
