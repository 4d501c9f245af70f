"""FedAvg's mean, in delta form, by hand."""

import numpy as np
import pytest

from fedcore.aggregators import Contribution, WeightedMean
from fedcore.payloads import dense_payload
from fedcore.typing import Vector


def aggregate(*updates: tuple[list[float], float, float]) -> Vector:
    """The mean of (vector, λ, n) updates."""
    rule = WeightedMean().build()
    state = rule.init(2)
    for values, weight, samples in updates:
        payload = dense_payload(np.array(values, np.float32))
        state = rule.accumulate(state, Contribution(payload, weight, samples, None))
    return rule.finalize(state, sum(samples for *_, samples in updates))


def test_updates_count_by_their_samples() -> None:
    assert aggregate(([4, 0], 1, 1), ([0, 8], 1, 3)).tolist() == [1, 6]


def test_a_late_update_is_dampened_and_the_others_do_not_grow() -> None:
    fresh = aggregate(([4, 0], 1, 1), ([0, 8], 1, 1))
    late = aggregate(([4, 0], 1, 1), ([0, 8], 0.5, 1))
    assert fresh.tolist() == [2, 4]
    assert late.tolist() == [2, 2]  # divided by Σ n = 2, not by Σ λ·n = 1.5


def test_a_weight_that_all_share_does_not_cancel() -> None:
    assert aggregate(([4, 0], 0.25, 1), ([0, 8], 0.25, 1)).tolist() == [0.5, 1]


def test_it_is_the_average_of_the_client_models() -> None:
    rng = np.random.default_rng(0)
    start_D, models_ND = rng.standard_normal(2), rng.standard_normal((3, 2))
    samples = [5.0, 1.0, 2.0]
    updates = [
        ((start_D - model_D).tolist(), 1.0, n)
        for model_D, n in zip(models_ND, samples, strict=True)
    ]
    expected_D = np.average(models_ND, axis=0, weights=samples)
    assert start_D - aggregate(*updates) == pytest.approx(expected_D, rel=1e-6)


def test_rows_of_every_kind_of_numpy_array_are_summed_in_their_order() -> None:
    class Mapped(np.ndarray):  # as np.memmap is
        pass

    rng = np.random.default_rng(0)
    plain_ND = rng.standard_normal((50, 300)).astype(np.float32)
    fold, shares = WeightedMean().build().fold, rng.random(50).tolist()
    assert fold is not None

    def folded(values_ND: Vector) -> bytes:
        rows = [(values_ND, row) for row in range(50)]
        return fold(np.zeros(300, np.float32), rows, shares).tobytes()

    assert folded(plain_ND.view(Mapped)) == folded(plain_ND)
