"""Polynomial dampening: Xie et al., OPT 2020, §5.2."""

import pytest

from fedcore.staleness import Inverse, Polynomial


def test_fed_buff_uses_one_over_the_square_root() -> None:
    weigh = Polynomial().build().weigh
    assert weigh(None, 3, None) == pytest.approx(1 / 2)
    assert weigh(None, 99, None) == pytest.approx(1 / 10)


def test_an_exponent_of_one_is_dyn_sgd() -> None:
    polynomial, inverse = Polynomial(exponent=1).build(), Inverse().build()
    for staleness in range(100):
        expected = inverse.weigh(None, staleness, None)
        assert polynomial.weigh(None, staleness, None) == pytest.approx(expected)
