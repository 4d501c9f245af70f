"""Any k of n products determine the whole."""

from itertools import combinations

import numpy as np
import pytest

from fedcore.coding import MDSCode, mds_code
from fedcore.errors import ConfigError, NotDecodableError
from fedcore.rng import Key

A = np.random.default_rng(0).standard_normal((23, 4))
X = np.array([1.0, -2.0, 0.5, 3.0])


@pytest.mark.parametrize(
    ("workers", "needed"), [(n, k) for n in range(1, 9) for k in range(1, n + 1)]
)
def test_any_k_of_n_workers_give_the_product(workers: int, needed: int) -> None:
    code = mds_code(workers, needed, Key.root(0))
    products_WH = code.encode(A) @ X
    for answered in combinations(range(workers), needed):
        found_M = code.decode(answered, products_WH[list(answered)], len(A))
        np.testing.assert_allclose(found_M, A @ X, atol=1e-11)


def test_the_first_k_workers_hold_the_rows_themselves() -> None:
    code = mds_code(6, 4, Key.root(0))
    products_WH = code.encode(A) @ X
    np.testing.assert_array_equal(
        code.decode(range(4), products_WH[:4], 23),
        (code.encode(A) @ X)[:4].ravel()[:23],
    )


def test_too_few_answers_are_refused() -> None:
    code = mds_code(5, 3, Key.root(0))
    with pytest.raises(NotDecodableError, match=r"2 of 5 workers answered; .* needs 3"):
        code.decode([0, 4], np.zeros((2, 8)), 23)


def test_a_code_with_two_equal_rows_is_not_one() -> None:
    right_WK = mds_code(5, 3, Key.root(0)).generator_WK.copy()
    right_WK[4] = right_WK[3]
    with pytest.raises(np.linalg.LinAlgError):
        MDSCode(right_WK).decode([0, 3, 4], np.zeros((3, 8)), 23)


@pytest.mark.parametrize("needed", [0, 6])
def test_a_wrong_number_of_answers_is_refused(needed: int) -> None:
    with pytest.raises(ConfigError, match="expected 1 to 5 answers"):
        mds_code(5, needed, Key.root(0))
