"""The protocol under fire: random schedules, composed disasters, wrong variants."""

from itertools import chain

import pytest

from tests.protocol.disasters import DISASTERS
from tests.protocol.mutants import MUTANTS, mutated
from tests.protocol.schedules import drawn, failure, shrink, story

SEEDS = 400
AT_ONCE = 20  # `make mutants` runs the first of these for each mutant
MUTANT_SEEDS = 80
FIRST = next(iter(MUTANTS))


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_no_random_schedule_breaks_an_invariant(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        setting, schedule = drawn(seed)
        if failure(setting, schedule) is not None:
            short = shrink(schedule, lambda s: failure(setting, s) is not None)  # noqa: B023
            pytest.fail(f"seed {seed}\n{story(setting, short)}")


@pytest.mark.parametrize("name", DISASTERS)
def test_no_composed_disaster_breaks_an_invariant(name: str) -> None:
    setting, schedule = DISASTERS[name]
    if failure(setting, schedule) is not None:
        pytest.fail(story(setting, schedule))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.quick if name == FIRST else ())
        for name in MUTANTS
    ],
)
def test_every_wrong_variant_is_caught(name: str) -> None:
    with mutated(name):
        cases = chain(DISASTERS.values(), map(drawn, range(MUTANT_SEEDS)))
        found = next(filter(None, (failure(*case) for case in cases)), None)
    assert found is not None
    assert "positional argument" not in found, "the variant fits the code no more"
