"""The staleness study: every update arrives once everywhere, when it is due."""

from typing import Any

import numpy as np
import pytest

from fedcore.errors import ConfigError
from fedcore.rng import Key
from fedcore.typing import Vector
from fedstudies.staleness.training import (
    OPTIMIZERS,
    Caches,
    Problem,
    slowdown,
    train,
)

DIM, WORKERS = 3, 4


@pytest.mark.parametrize("staleness", [0, 1, 5])
def test_every_update_reaches_every_cache_exactly_once(staleness: int) -> None:
    caches = Caches(np.zeros(DIM, np.float32), WORKERS, staleness, Key.root(0))
    rng, total_D = np.random.default_rng(0), np.zeros(DIM)
    for _ in range(20):
        updates_PD = rng.integers(-8, 9, (WORKERS, DIM)).astype(np.float32)
        total_D += updates_PD.sum(axis=0)
        caches.send(updates_PD)
        if staleness == 0:
            assert (caches.models_PD == caches.models_PD[0]).all()
    for _ in range(staleness):
        caches.send(np.zeros((WORKERS, DIM), np.float32))
    assert caches.models_PD.tolist() == [(-total_D).tolist()] * WORKERS


def test_delays_are_uniform_from_none_to_s() -> None:
    staleness, counts = 4, np.zeros(5)
    for seed in range(300):
        caches = Caches(np.zeros(1, np.float32), WORKERS, staleness, Key.root(seed))
        before_P1 = caches.models_PD.copy()
        for delay in range(staleness + 1):
            sent_P1 = np.ones((WORKERS, 1), np.float32) * (delay == 0)
            caches.send(sent_P1)
            counts[delay] += (before_P1 - caches.models_PD).sum()
            before_P1 = caches.models_PD.copy()
    share = counts / counts.sum()
    assert counts.sum() == 300 * WORKERS**2
    np.testing.assert_allclose(share, 0.2, atol=0.03)
    assert share @ np.arange(5) == pytest.approx(staleness / 2, abs=0.1)


class Bowl:
    """½‖w‖² for every sample; its gradient is w."""

    how = "by hand"
    buffers: slice | None = None
    local_L: Vector | None = None

    def gradient(self, w_ND: Any, x: Any, y: Any, sizes: Any) -> tuple[Any, Any]:
        return (w_ND**2).sum(-1) / 2, w_ND

    def seed(self, key: Key) -> None:
        """Takes a key as models do; gradients of a bowl draw nothing."""

    def descend(self, steps: Any) -> None:
        """Returns no compiled loop: steps are taken one by one."""


def bowl(target: float = -0.01) -> Problem:
    x = np.zeros((8, 1), np.float32)
    return Problem(
        Bowl(),
        np.ones(DIM, np.float32),
        8,
        lambda rows: (x[rows], np.zeros(rows.shape, np.int64)),
        lambda w_D: -float(np.abs(w_D).max()),
        target,
    )


def test_without_staleness_p_workers_are_one() -> None:
    # Each iteration halves w: .5^7 < .01 < .5^6.
    course = train(bowl(), OPTIMIZERS["sgd"], 0, seed=0, batch=4, with_coherence=True)
    assert course.iterations == 7
    # <g_t, g_(t-1)> / |g_t|² = 2, and the gradient itself gives 1: the least of both.
    assert course.coherence_T.tolist() == [1.0] * 6


def test_staleness_slows_down_and_is_compared_seed_by_seed() -> None:
    late = train(bowl(), OPTIMIZERS["sgd"], 8, seed=0, batch=4).iterations
    assert late is not None
    assert late > 7
    assert slowdown([late, 14], [7, 7]).tolist() == [late / 7, 2.0]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimiser_goes_downhill(name: str) -> None:
    assert train(bowl(-0.5), OPTIMIZERS[name], 2, seed=0, batch=4).iterations


def test_what_never_gets_there_is_none_and_too_large_a_batch_is_refused() -> None:
    assert train(bowl(), OPTIMIZERS["sgd"], 0, seed=0, batch=4, most=3)[0] is None
    with pytest.raises(ConfigError, match="9 out of 8"):
        train(bowl(), OPTIMIZERS["sgd"], 0, seed=0, batch=9)
