"""The sum of gradients is exact for every set of stragglers."""

from itertools import combinations

import numpy as np
import pytest

from fedcore.coding import (
    GradientCode,
    cyclic,
    fractional_repetition,
    gradient_code,
    sum_ready,
)
from fedcore.coding.gradient_coding import cyclic_matrix
from fedcore.errors import ConfigError, NotDecodableError
from fedcore.rng import Key

KEY = Key.root(0).fold_in("gradient code")
CASES = [(n, s) for n in range(1, 9) for s in range(n)]


def gradients(workers: int) -> np.ndarray:
    return KEY.fold_in("gradients").generator().standard_normal((workers, 50))


def worst_error(code: GradientCode) -> float:
    """Returns the largest relative error over all sets of s stragglers."""
    g_PD = gradients(code.workers)
    sum_D, coded_WD = g_PD.sum(axis=0), code.encode_WP @ g_PD
    worst = 0.0
    for missing in combinations(range(code.workers), code.stragglers):
        there = [w for w in range(code.workers) if w not in missing]
        error_D = code.decode(there) @ coded_WD[there] - sum_D
        worst = max(worst, float(np.abs(error_D).max() / np.abs(sum_D).max()))
    return worst


@pytest.mark.parametrize(("workers", "stragglers"), CASES)
def test_the_chosen_code_is_exact_for_every_set_of_stragglers(
    workers: int, stragglers: int
) -> None:
    assert worst_error(gradient_code(workers, stragglers)) < 1e-12


@pytest.mark.parametrize(("workers", "stragglers"), CASES)
def test_the_cyclic_code_is_exact_for_every_set_of_stragglers(
    workers: int, stragglers: int
) -> None:
    assert worst_error(cyclic(workers, stragglers, KEY)) < 1e-12


@pytest.mark.parametrize(("workers", "stragglers"), [(4, 1), (6, 2), (8, 3), (5, 4)])
def test_fractional_repetition_gives_the_same_bits_whoever_answers(
    workers: int, stragglers: int
) -> None:
    code = fractional_repetition(workers, stragglers)
    coded_WD = code.encode_WP @ gradients(workers)
    sums = set()
    for missing in combinations(range(workers), stragglers):
        there = [w for w in range(workers) if w not in missing]
        weights = code.decode(there)
        assert set(weights.tolist()) <= {0.0, 1.0}
        chosen = [w for w, a in zip(there, weights, strict=True) if a]
        total_D = np.zeros(50)
        for worker in chosen:
            total_D += coded_WD[worker]
        sums.add(total_D.tobytes())
    assert len(sums) == 1


def test_fractional_repetition_decodes_as_soon_as_each_group_has_answered() -> None:
    code = fractional_repetition(6, 2)
    assert code.groups == ((0, 1, 2), (3, 4, 5))
    assert code.can_decode([2, 3])
    assert not code.can_decode([0, 1, 2])
    with pytest.raises(NotDecodableError, match="3 of 6 workers do not determine"):
        code.decode([0, 1, 2])


@pytest.mark.parametrize(("workers", "stragglers"), [(5, 1), (6, 3), (8, 2), (4, 0)])
def test_one_straggler_too_many_is_refused(workers: int, stragglers: int) -> None:
    code = cyclic(workers, stragglers, KEY)
    with pytest.raises(NotDecodableError, match=f"survives {stragglers} stragglers"):
        code.decode(range(workers - stragglers - 1))


def test_worker_i_of_a_cyclic_code_holds_the_parts_from_i_on() -> None:
    code = cyclic(5, 2, KEY)
    assert code.parts(0) == (0, 1, 2)
    assert code.parts(4) == (0, 1, 4)
    assert code.load == 3


def test_a_matrix_whose_rows_do_not_sum_to_zero_gives_no_code() -> None:
    h_SP = KEY.generator().standard_normal((2, 7))
    wrong_WP = cyclic_matrix(h_SP)
    assert wrong_WP is not None
    code = GradientCode("cyclic", 2, wrong_WP)
    with pytest.raises(NotDecodableError, match="not one of a gradient code"):
        code.decode([0, 1, 2, 3, 4])


def test_a_matrix_of_another_support_gives_no_code() -> None:
    right_WP = cyclic(7, 2, KEY).encode_WP
    code = GradientCode(
        "cyclic", 2, np.roll(right_WP, 1, axis=1) * np.eye(7) + right_WP
    )
    shifted = GradientCode("cyclic", 2, np.where(np.eye(7) > 0, 0.5, code.encode_WP))
    with pytest.raises(NotDecodableError, match="not one of a gradient code"):
        shifted.decode([0, 1, 2, 3, 4])


def test_a_singular_block_is_noticed() -> None:
    assert cyclic_matrix(np.array([[0.0, 0.0, 0.0, 0.0]])) is None


def test_equal_arguments_give_equal_codes() -> None:
    np.testing.assert_array_equal(
        gradient_code(7, 2).encode_WP, gradient_code(7, 2).encode_WP
    )


def test_the_sum_is_ready_with_the_answer_that_completes_it() -> None:
    seconds_TW = np.array([[1.0, 9.0, 7.0, 4.0, 2.0, 5.0]])
    assert sum_ready(seconds_TW, "fractional_repetition", 1).tolist() == [4.0]
    assert sum_ready(seconds_TW, "cyclic", 1).tolist() == [7.0]


@pytest.mark.parametrize(
    ("workers", "stragglers", "words"),
    [
        (0, 0, "0 workers: expected 1 or more"),
        (3, 3, "3 stragglers among 3 workers: expected 0 to 2"),
        (3, -1, "-1 stragglers among 3 workers"),
    ],
)
def test_numbers_that_make_no_code_are_refused(
    workers: int, stragglers: int, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        gradient_code(workers, stragglers)


def test_groups_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigError, match="2 does not divide 5"):
        fractional_repetition(5, 1)
