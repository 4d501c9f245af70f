"""The loops of local steps give equal bytes, compiled and in NumPy."""

from typing import Any

import numpy as np
import pytest

from fedcore import kernels
from fedcore.kernels import AdamStep
from tests.fedcore.kernels.both import COMPILED, SIZES, needed, same

ROOT = (1 - 0.999**3) ** 0.5  # of the third step


def drawn(count: int, *shape: int) -> list[Any]:
    rng = np.random.default_rng(shape)
    return [
        (rng.normal(size=shape) * 10.0 ** rng.integers(-9, 4, shape)).astype(np.float32)
        for _ in range(count)
    ]


def numbers(*rows: int, decay: float = 0.0) -> AdamStep:
    """Those of the third step, with a scale that differs by row."""
    eps_1, scale_1 = (np.ones((*rows, 1), np.float32) for _ in range(2))
    eps_1 *= np.float32(1e-8 * ROOT)
    scale_1 += np.arange(scale_1.size).reshape(scale_1.shape)
    return AdamStep(0.9, 0.999, eps_1, scale_1, 0.001, decay)


def stepped(shape: tuple[int, ...], decay: float) -> list[Any]:
    w, g, v, s = drawn(4, *shape)
    s *= s
    by = numbers(*shape[:-1], decay=decay)
    kernels.adam(w, g, v, s, by, np.empty_like(w))
    return [w, v, s]


@needed
@pytest.mark.parametrize("decay", [0.0, 0.01])
@pytest.mark.parametrize("size", SIZES)
def test_a_step_of_adam_gives_equal_bytes(size: int, decay: float) -> None:
    same(lambda: stepped((size,), decay))
    same(lambda: stepped((5, size), decay))


@needed
@pytest.mark.parametrize("decay", [0.0, 0.01])
@pytest.mark.parametrize("size", SIZES)
def test_a_pull_gives_equal_bytes(size: int, decay: float) -> None:
    def pulled() -> Any:
        g, w, anchor = drawn(3, 4, size)
        kernels.add_pull(g, w, anchor, 0.3, decay, np.empty_like(g))
        return g

    same(pulled)


def test_a_step_of_adam_is_that_of_the_paper() -> None:
    """Kingma, Ba, "Adam", ICLR 2015, algorithm 1, at t = 3; and AdamW's decay."""
    shape, decay = (2, 300), 0.01
    w, g, v, s = (x.astype(np.float64) for x in drawn(4, *shape))
    s *= s
    v, s = 0.9 * v + 0.1 * g, 0.999 * s + 0.001 * g * g
    step = v / (np.sqrt(s) + 1e-8 * ROOT)  # corrected by the scales 1 and 2
    expected = w - 0.001 * (np.array([[1.0], [2.0]]) * step + decay * w)
    for found, wanted in zip(stepped(shape, decay), (expected, v, s), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-9)


def test_a_model_that_repeats_is_pulled_to_as_well() -> None:
    """The start of a stack is a view, which no compiled loop takes."""
    g, w, start = drawn(3, 3, 40)
    before = g.copy()
    start = np.broadcast_to(start[0], w.shape)
    kernels.add_pull(g, w, start, 0.5, 0.0, np.empty_like(g))
    np.testing.assert_allclose(g, before + 0.5 * (w - start), rtol=1e-5, atol=1e-9)


@needed
def test_sizes_that_do_not_fit_are_refused() -> None:
    assert COMPILED is not None
    (w,), one, two = drawn(1, 6), np.ones(1, np.float32), np.ones(2, np.float32)
    v, s, g, few = (w[:size].copy() for size in (6, 6, 6, 4))
    with pytest.raises(ValueError, match="expected equal rows, and a scale a row"):
        COMPILED.adam(w, v, s, few, one, one, 0.9, 0.999, 1.0, 0.0)
    with pytest.raises(ValueError, match="expected equal rows, and a scale a row"):
        COMPILED.adam(w, v, s, g, one, two, 0.9, 0.999, 1.0, 0.0)
    with pytest.raises(ValueError, match="expected as many values in each"):
        COMPILED.add_pull(g, w, few, 0.5, 0.0)
