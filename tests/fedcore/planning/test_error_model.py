"""The fit of the error model, and the pilots that it refuses."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcore.errors import ConfigError
from fedcore.planning.error_curves import Pilot
from fedcore.planning.error_model import (
    ErrorModel,
    fit_error_model,
    fit_lowest_limit,
)

TRUE = ErrorModel(0.05, 0.6, 0.9, 0.4, 1.0, 0.1, 1.0, 100)


def exact(inverse: float, versions: int = 60, model: ErrorModel = TRUE) -> Pilot:
    at = list(range(0, versions + 1, 2))
    errors = [model.error(j, inverse) for j in at]
    return Pilot(at, errors, [inverse] * versions)


def test_the_numbers_of_exact_pilots_are_found() -> None:
    found = fit_error_model([exact(0.125), exact(0.5), exact(1.0)], 0.2)
    assert found.rho == pytest.approx(0.9, abs=0.005)
    assert found.b == pytest.approx(0.4, abs=0.01)
    assert found.limit == pytest.approx(0.05, abs=0.01)
    assert found.r_squared > 0.999


def test_workers_that_come_and_go_count_by_version() -> None:
    rng, errors, inverses, error = np.random.default_rng(1), [0.65], [], 0.6
    for _ in range(80):
        inverses.append(1 / rng.integers(1, 9))
        error = 0.9 * error + 0.1 * 0.4 * inverses[-1]
        errors.append(error + 0.05)
    found = fit_error_model([Pilot(list(range(81)), errors, inverses), exact(1.0)], 0.2)
    assert found.b == pytest.approx(0.4, abs=0.01)


def noisy(
    limit: float, modes: dict[float, float], seed: int, *, noise: float = 0.01
) -> list[Pilot]:
    """Pilots of 100 versions whose errors fall by parts, each with its half-life.

    The noise of an evaluation is a share of the error, and lasts for some evaluations.
    """
    rng, pilots = np.random.default_rng(seed), []
    for inverse in [0.25, 0.125, 0.0625] * 2:
        at, off, errors = list(range(0, 101, 2)), 0.0, []
        for version in at:
            off = 0.7 * off + 0.7 * rng.standard_normal()
            error = limit + 0.3 * inverse * (1 - 0.93**version)
            error += sum(a * 0.5 ** (version / h) for h, a in modes.items())
            errors.append(error * (1 + noise * off))
        pilots.append(Pilot(at, errors, [inverse] * 100))
    return pilots


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("noise", [0.001, 0.01])
def test_a_limit_that_a_fast_beginning_hides_is_left_possible(
    seed: int, noise: float
) -> None:
    # A fast part, and one that is slower than the pilots are long.
    pilots = noisy(0.1, {8: 0.3, 150: 0.3}, seed, noise=noise)
    target = 0.28
    best, lowest = fit_error_model(pilots, target), fit_lowest_limit(pilots)
    assert best.r_squared > 0.98
    assert best.versions_to(target, 1 / 16) is None  # which is wrong
    versions = lowest.versions_to(target, 1 / 16)
    assert versions is not None
    truth = 0.1 + 0.3 / 16 + 0.3 * 0.5 ** (versions / 150)
    assert truth == pytest.approx(target, rel=0.1)


@pytest.mark.parametrize("seed", range(3))
def test_a_limit_that_the_noise_hides_is_left_possible(seed: int) -> None:
    pilots = noisy(0.1, {100: 0.6}, seed, noise=0.03)
    assert fit_lowest_limit(pilots).limit < 0.1


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("noise", [0.0, 0.002, 0.01])
def test_an_unreachable_target_stays_so_where_the_pilots_are_flat(
    seed: int, noise: float
) -> None:
    pilots = noisy(0.3, {10: 0.4}, seed, noise=noise)
    for found in (fit_error_model(pilots, 0.29), fit_lowest_limit(pilots)):
        assert found.limit == pytest.approx(0.3, rel=0.05)
        assert found.versions_to(0.29, 1 / 16) is None


def test_few_evaluations_leave_every_limit_possible() -> None:
    pilots = [Pilot([0, 5, 10], [0.6, 0.4, 0.3], [i] * 10) for i in (0.5, 1.0)]
    assert fit_lowest_limit(pilots).limit == 0


@settings(max_examples=50)
@given(st.floats(0.06, 0.6), st.floats(0.05, 1.0))
def test_the_predicted_number_of_versions_is_the_least(
    target: float, inverse: float
) -> None:
    versions = TRUE.versions_to(target, inverse)
    if versions is None:
        assert TRUE.floor(inverse) >= target - 1e-9
        return
    assert TRUE.error(versions, inverse) <= target
    assert versions == 1 or TRUE.error(versions - 1, inverse) > target - 1e-9


@pytest.mark.parametrize(
    ("pilots", "target", "words"),
    [
        ([exact(0.5)], 0.2, "at least 2"),
        ([exact(0.5), exact(0.5)], 0.2, "about as many active workers"),
        ([exact(0.5, 2), exact(1.0, 2)], 0.5, "too short"),
        ([exact(0.5, 12), exact(1.0, 12)], 0.06, "never came near the target"),
        ([Pilot([], [], []), exact(1.0)], 0.2, "no evaluations"),
        ([Pilot([0, 1], [1.0, np.nan], [1.0]), exact(0.5)], 0.2, "diverged"),
    ],
)
def test_pilots_that_support_no_conclusion_are_refused(
    pilots: list[Pilot], target: float, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        fit_error_model(pilots, target)


INVERSES = st.lists(st.floats(0.05, 1.0), min_size=1, max_size=30)


@given(INVERSES)
def test_an_error_with_changing_workers_follows_the_sum_of_the_bound(
    inverse_J: list[float],
) -> None:
    model = TRUE
    for inverse in inverse_J[:-1]:
        model = model.after(1, inverse)
    versions, rho = len(inverse_J), TRUE.rho
    noise = sum(
        (1 - rho) * rho ** (versions - j) * inverse
        for j, inverse in enumerate(inverse_J, start=1)
    )
    expected = TRUE.limit + TRUE.a * rho**versions + TRUE.b * noise
    assert model.error(1, inverse_J[-1]) == pytest.approx(expected)


@given(st.integers(0, 50), st.integers(1, 50), st.floats(0.05, 1.0))
def test_where_workers_stay_the_same_nothing_changes_on_the_way(
    some: int, more: int, inverse: float
) -> None:
    again = TRUE.after(some, inverse).error(more, inverse)
    assert again == pytest.approx(TRUE.error(some + more, inverse))


@given(st.integers(1, 200), st.floats(0.06, 0.7))
def test_the_inverse_that_versions_allow_gives_the_error(
    versions: int, error: float
) -> None:
    inverse = TRUE.inverse_to(error, versions)
    assert TRUE.error(versions, inverse) == pytest.approx(error)


def test_without_noise_any_number_of_workers_is_allowed_or_none() -> None:
    quiet = TRUE._replace(b=0.0)
    assert quiet.inverse_to(0.3, 100) == math.inf
    assert quiet.inverse_to(0.3, 1) == -math.inf
