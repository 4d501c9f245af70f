"""Random-k: Stich et al., NeurIPS 2018, and its unbiased form."""

import numpy as np
import pytest
from pydantic import ValidationError

from fedcore import payloads
from fedcore.compressors import Compressor, ErrorFeedback, RandomK
from fedcore.rng import Key, subset
from fedcore.typing import Vector

DIM = 40


def gaussian(seed: int, dim: int = DIM) -> Vector:
    return np.random.default_rng(seed).standard_normal(dim).astype(np.float32)


def decoded(config: RandomK, delta_D: Vector, draws: int) -> Vector:
    keys = [Key.root(seed) for seed in range(draws)]
    stack_ND = np.tile(delta_D, (draws, 1))
    payload, _ = config.build(delta_D.shape).encode(stack_ND, None, keys)
    vectors: Vector = payloads.decode(payload)
    return vectors


def test_only_the_seed_and_the_values_travel() -> None:
    key = Key.root(3)
    payload, _ = RandomK(ratio=0.25).build((DIM,)).encode(gaussian(0), None, key)
    assert payload.nbytes == 6 + 8 + 4 + 4 * 10
    support = payloads.support(payload)
    assert support is not None
    assert support.tolist() == subset(key.seed(), DIM, 10).tolist()


def test_the_values_travel_unscaled_or_times_d_over_k() -> None:
    delta_D, key = gaussian(0), Key.root(3)
    for unbiased, scale in [(False, 1), (True, 4)]:
        encode = RandomK(ratio=0.25, unbiased=unbiased).build((DIM,)).encode
        payload, _ = encode(delta_D, None, key)
        support = payloads.support(payload)
        expected = delta_D[support] * np.float32(scale)
        assert payload.arrays["values"].tolist() == expected.tolist()


def test_unscaled_it_loses_one_minus_k_over_d_on_average() -> None:
    delta_D = gaussian(1)
    lost = np.square(decoded(RandomK(ratio=0.25), delta_D, 4000) - delta_D).sum(-1)
    assert lost.mean() / np.square(delta_D).sum() == pytest.approx(0.75, abs=0.01)


def test_scaled_its_variance_is_d_over_k_minus_one() -> None:
    config, delta_D = RandomK(ratio=0.25, unbiased=True), gaussian(1)
    vectors_ND = decoded(config, delta_D, 4000)
    off = np.square(vectors_ND - delta_D).sum(-1).mean()
    assert off / np.square(delta_D).sum() == pytest.approx(3, abs=0.15)


def test_the_unbiased_form_is_refused_in_a_memory_with_a_sentence() -> None:
    with pytest.raises(ValidationError, match="random_k is unbiased with these set"):
        ErrorFeedback(inner=RandomK(unbiased=True))
    assert ErrorFeedback(inner=RandomK(unbiased=False)).bias == "contraction"


def residual(compressor: Compressor) -> float:
    """How large the memory is after a hundred updates of norm about 1."""
    memory_D = compressor.init(DIM)
    for step in range(100):
        delta_D = gaussian(step) / np.float32(np.sqrt(DIM))
        _, memory_D = compressor.encode(delta_D, memory_D, Key.root(step))
    return float(np.linalg.norm(memory_D))


def test_a_memory_around_the_unbiased_form_would_diverge() -> None:
    layout = (DIM,)
    assert residual(ErrorFeedback().remember(RandomK(ratio=0.25).build(layout))) < 10
    with np.errstate(over="ignore", invalid="ignore"):
        forced = residual(
            ErrorFeedback().remember(RandomK(ratio=0.25, unbiased=True).build(layout))
        )
    assert forced > 1e6
