"""Products with a Hessian are told from those of another function."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from fedcore.influence.agreement import TOLERANCE, disagreement
from fedcore.influence.base import Curved
from fedcore.typing import Array

W = np.linspace(-1, 1, 7)
SKEW = np.triu(np.ones((7, 7)))
H = SKEW @ SKEW.T


def gradient(w_D: Array) -> Array:
    """Of a quadratic function and w⁴."""
    return H @ w_D + w_D**3


def hessian(h: Array, cubic: float = 3.0) -> Callable[[Array], Curved]:
    def at(w_D: Array) -> Curved:
        def product(v_CD: Array) -> Array:
            return v_CD @ h + cubic * w_D**2 * v_CD

        return Curved(0.0, gradient(w_D), product)

    return at


def test_right_products_agree_to_many_digits() -> None:
    assert disagreement(W, hessian(H), gradient) < 1e-6


@pytest.mark.parametrize(
    "wrong", [hessian(H, cubic=0.0), hessian(-H), hessian(H.T @ SKEW), hessian(0 * H)]
)
def test_products_that_lack_a_term_do_not_agree(
    wrong: Callable[[Array], Curved],
) -> None:
    assert disagreement(W, wrong, gradient) > TOLERANCE


def test_a_linear_function_has_no_products_and_no_differences() -> None:
    def at(w_D: Array) -> Curved:
        return Curved(0.0, W.astype(np.float32), np.zeros_like)

    assert disagreement(W, at, lambda w_D: W) == 0


def test_a_term_that_vanishes_at_zero_is_missed_all_the_same() -> None:
    assert disagreement(np.zeros(7), hessian(0 * H, 0.0), lambda w: w**3) > TOLERANCE


def test_kinks_are_no_disagreement() -> None:
    rng = np.random.default_rng(0)
    x_BD = rng.standard_normal((3000, 7))

    def kinked(w_D: Array) -> Array:
        """The gradient of Σ relu(x·w)²/2 + relu(x·w)."""
        z_B = x_BD @ w_D
        on_B = z_B > 0
        return (np.where(on_B, z_B + 1, 0)) @ x_BD

    def at(w_D: Array) -> Curved:
        on_BD = x_BD[x_BD @ w_D > 0]
        return Curved(0.0, kinked(w_D), lambda v_CD: v_CD @ on_BD.T @ on_BD)

    assert disagreement(W, at, kinked) < 1e-5


def test_a_gradient_that_rounds_on_its_way_is_no_disagreement() -> None:
    def rounded(w_D: Array) -> Array:
        return gradient(w_D.astype(np.float32).astype(np.float64))

    assert disagreement(W, hessian(H), rounded) <= TOLERANCE


def test_of_random_gradients_and_numbers_that_are_not_finite_nothing_is_said() -> None:
    rng = np.random.default_rng(0)
    noise = disagreement(W, hessian(H), lambda w_D: rng.standard_normal(7))
    assert math.isnan(noise)
    assert math.isnan(disagreement(W, hessian(H), lambda w_D: np.full(7, np.nan)))
