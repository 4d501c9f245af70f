"""The fit of the error model, and the pilots that it refuses."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcore.errors import ConfigError
from fedcore.planning.error_model import ErrorModel, Pilot, fit_error_model

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
