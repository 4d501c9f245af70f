"""Values that were measured."""

import numpy as np
import pytest
from pydantic import ValidationError

from fedcore.distributions import Empirical
from fedcore.errors import ConfigError
from fedcore.rng import Key

U_N = np.array([0.001, 0.333, 0.334, 0.5, 0.667, 0.999])


def test_each_value_has_an_equal_share() -> None:
    config = Empirical(values=(5.0, 1.0, 2.0))
    assert config.quantile(U_N).tolist() == [1, 1, 2, 2, 5, 5]
    drawn = config.draw(Key.root(0).generator(), 30_000)
    assert drawn.mean() == pytest.approx((5 + 1 + 2) / 3, abs=0.03)


def test_values_are_taken_as_they_are() -> None:
    shares = Empirical(values=(10.0, 20.0, 20.0, 30.0)).cdf(np.array([9, 10, 20, 30.0]))
    assert shares.tolist() == [0, 0.25, 0.75, 1]


def test_many_values_are_shown_as_quantiles() -> None:
    values = np.arange(1.0, 10_001.0)
    config = Empirical.of(values)
    assert len(config.values) == 100
    assert np.mean(config.values) == pytest.approx(values.mean(), rel=1e-3)
    assert Empirical.of(np.array([3.0, 1.0])).values == (1.0, 3.0)


@pytest.mark.parametrize("given", [{}, {"values": [1.0], "file": "a.csv"}])
def test_values_or_a_file_must_be_given(given: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="give values or a file that has them"):
        Empirical.model_validate(given)


def test_a_value_that_is_not_above_zero_is_refused() -> None:
    with pytest.raises(ValidationError, match="greater than 0"):
        Empirical(values=(1.0, 0.0))


def test_a_file_must_be_read_first() -> None:
    with pytest.raises(ConfigError, match=r"the values of a\.csv were not read"):
        Empirical(file="a.csv").quantile(U_N)
