"""Dead-zone quantisation, with numbers worked by hand."""

import numpy as np
import pytest

from fedcore import payloads
from fedcore.compressors import DeadZone
from fedcore.payloads import merge, negative
from fedcore.rng import Key
from fedcore.typing import Vector


def encoded(delta_D: Vector, ratio: float) -> payloads.Payload:
    layout = (delta_D.shape[-1],)
    return DeadZone(ratio=ratio).build(layout).encode(delta_D, None, Key.root(0))[0]


def decoded(delta_D: Vector, ratio: float) -> Vector:
    vector: Vector = payloads.decode(encoded(delta_D, ratio))
    return vector


@pytest.mark.parametrize(
    ("threshold", "step"),
    [(0.8, 1.0), (0.5, 0.5), (0.51, 1.0), (1.0, 1.0), (1.5, 2.0)],
)
def test_the_step_is_the_least_power_of_two_from_the_threshold_on(
    threshold: float, step: float
) -> None:
    message = encoded(np.array([0.1, -5.0, threshold, 2.6], np.float32), 0.75)
    assert message.arrays["steps"].tolist() == [step]


def test_the_largest_values_become_multiples_of_the_step() -> None:
    delta_D = np.array([0.1, -5.0, 0.3, 2.6, 0.8, -0.7], np.float32)
    assert decoded(delta_D, 0.5).tolist() == [0.0, -5.0, 0.0, 3.0, 1.0, 0.0]


def test_zeros_and_values_too_small_for_a_step_wait() -> None:
    delta_D = np.array([0.0, 1e-40, -0.0], np.float32)
    message = encoded(delta_D, 1.0)
    assert payloads.decode(message).tolist() == [0.0, 0.0, 0.0]
    assert payloads.unpack(payloads.pack(message), (3,)).arrays["indices"].size == 0


@pytest.mark.parametrize("ratio", [0.001, 0.05, 1.0])
def test_no_value_moves_further_away(ratio: float) -> None:
    delta_D = np.random.default_rng(1).standard_t(3, 10_000).astype(np.float32)
    left_D = delta_D - decoded(delta_D, ratio)
    assert (np.abs(left_D) <= np.abs(delta_D)).all()


def test_the_step_of_one_row_does_not_depend_on_the_others() -> None:
    rng = np.random.default_rng(2)
    stack_ND = rng.standard_normal((3, 200)).astype(np.float32)
    stack_ND *= np.array([[1], [100], [1e-3]], np.float32)
    rows = payloads.rows(encoded(stack_ND, 0.1))
    for row, delta_D in zip(rows, stack_ND, strict=True):
        assert payloads.pack(row) == payloads.pack(encoded(delta_D, 0.1))


def test_messages_merge_into_their_exact_sum() -> None:
    rng = np.random.default_rng(3)
    scales = [1.0, 0.3, 0.07]
    messages = [
        encoded((scale * rng.standard_normal(500)).astype(np.float32), 0.1)
        for scale in scales
    ]
    one = merge(messages)
    assert one is not None
    exact = sum(payloads.decode(message).astype(np.float64) for message in messages)
    assert payloads.decode(one).tolist() == exact.tolist()
    assert one.nbytes < sum(message.nbytes for message in messages)


def test_a_sum_has_the_largest_step_that_it_can_have() -> None:
    fine = encoded(np.array([0.5, 0.0, 0.0], np.float32), 1.0)
    coarse = encoded(np.array([0.0, 2.0, -4.0], np.float32), 1.0)
    one = merge([fine, coarse, negative(fine)])
    assert one is not None
    assert one.arrays["steps"].tolist() == [2.0]
    assert one.arrays["levels"].tolist() == [1, -2]


def test_messages_that_cancel_merge_into_one_that_says_nothing() -> None:
    delta_D = np.array([1.0, -2.0, 0.0], np.float32)
    one = merge([encoded(delta_D, 1.0), encoded(-delta_D, 1.0)])
    assert one is not None
    assert one.arrays["indices"].size == 0
