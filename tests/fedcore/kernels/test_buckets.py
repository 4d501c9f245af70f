"""Rounding to multiples of a step, to the nearest and at random."""

import numpy as np
import pytest

from fedcore import kernels
from fedcore.kernels import library
from fedcore.rng import Key, seeds
from tests.fedcore.kernels.both import COMPILED, needed

SEED = seeds(Key.root(0))


@pytest.fixture(params=["numpy", pytest.param("compiled", marks=needed)], autouse=True)
def _either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    module = COMPILED if request.param == "compiled" else None
    monkeypatch.setattr(library, "compiled", module)


def test_whole_multiples_stay_what_they_are() -> None:
    levels_D = np.arange(-127, 128)
    x_D = np.tile(levels_D * np.float32(0.25), 400).astype(np.float32)
    for seed in (None, SEED):
        found_D, steps = kernels.quantise(x_D, 255, 127, "largest", seed)
        assert set(steps.tolist()) == {0.25}
        assert np.array_equal(found_D, np.tile(levels_D, 400))


@pytest.mark.parametrize("top", [127, 7, 1])
def test_random_rounding_is_right_on_average_to_a_small_share_of_a_step(
    top: int,
) -> None:
    count, shares = 1 << 20, (0.1, 0.5, 0.731, 0.999)
    for share in shares:
        x_D = np.full(count, top - 1 + share, np.float32)
        x_D[::512] = top
        levels_D, _ = kernels.quantise(x_D, 512, top, "largest", SEED)
        free_D = levels_D.reshape(-1, 512)[:, 1:]
        assert {top - 1, top} >= set(np.unique(free_D).tolist())
        deviation = (share * (1 - share) / free_D.size) ** 0.5
        assert abs(free_D.mean() - (top - 1 + share)) < 5 * deviation


def test_a_negative_value_is_rounded_down_as_often_as_its_opposite_up() -> None:
    x_D = np.full(1 << 18, 0.3, np.float32)
    x_D[::64] = 7
    for sign in (1, -1):
        levels_D, _ = kernels.quantise(x_D * np.float32(sign), 64, 7, "largest", SEED)
        free_D = levels_D.reshape(-1, 64)[:, 1:] * sign
        assert abs(free_D.mean() - 0.3) < 5 * (0.21 / free_D.size) ** 0.5


def test_steps_at_the_ends_of_float32_still_have_an_inverse() -> None:
    for scale in (1e-43, 1e-38, 1e-20, 1e20, 1e37):
        x_D = np.linspace(-1, 1, 256).astype(np.float32) * np.float32(scale)
        for seed in (None, SEED):
            levels_D, steps = kernels.quantise(x_D, 256, 1, "largest", seed)
            off_D = np.abs(levels_D * np.float64(steps[0]) - x_D)
            assert off_D.max() <= (0.5 if seed is None else 1) * steps[0] * 1.000001


def test_the_norm_of_a_bucket_is_summed_beyond_the_range_of_float32() -> None:
    x_D = np.full(4, 1e38, np.float32)
    assert float(kernels.norms(x_D)) == pytest.approx(2e38)
    _, steps = kernels.quantise(x_D, 4, 127, "norm", SEED)
    assert steps.tolist() == pytest.approx([2e38 / 127])
    tiny_D = np.full(4, 1e-40, np.float32)
    assert float(kernels.norms(tiny_D)) == pytest.approx(2e-40, rel=1e-4)
