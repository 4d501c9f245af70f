"""Trains with late updates, to see how much an optimiser suffers from them.

Dai, Zhou, Dong, Zhang, Xing, "Toward Understanding the Impact of Staleness in
Distributed Machine Learning", ICLR 2019, arXiv 1810.03264, section 3. There is no
server: each of P workers has a copy of the model of its own (its cache) and an
optimiser state of its own. In iteration t each worker computes one step on a batch. The
update reaches the cache of worker p', its own included, at the start of iteration
t + 1 + r, where r is drawn uniformly from {0, ..., s} for each (t, p, p'). With s = 0
all caches are equal. What is measured is how many iterations a target takes, divided by
the number that it takes with s = 0 (:func:`slowdown`).

We depart from the paper in one point: an update is divided by P, so that P workers with
s = 0 are one worker with a batch P times as large. Of the paper's text only the first
pages were within reach; the model of delays is quoted from memory of it.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fedcore.errors import ConfigError
from fedcore.model import StackedModel
from fedcore.rng import Key
from fedcore.typing import Array, Indices, Vector

Floats = npt.NDArray[np.float64]


class Optimizer(NamedTuple):
    """One of the optimisers that the study compares."""

    lr: float
    slots: int
    """How many vectors of the model's shape its state has."""
    step: Callable[[Array, Array, int], Array]
    """(g_PD, state_SPD, number of the step from 1) to the direction; it owns both."""


def _sgd(g_PD: Array, state_SPD: Array, t: int) -> Array:
    return g_PD


def _momentum(g_PD: Array, state_SPD: Array, t: int) -> Array:
    v_PD = state_SPD[0]
    v_PD *= np.float32(0.9)
    v_PD += g_PD
    return v_PD


def _adam(g_PD: Array, state_SPD: Array, t: int) -> Array:
    m_PD, v_PD = state_SPD
    m_PD += np.float32(0.1) * (g_PD - m_PD)
    v_PD += np.float32(0.001) * (g_PD * g_PD - v_PD)
    m_hat, v_hat = m_PD / np.float32(1 - 0.9**t), v_PD / np.float32(1 - 0.999**t)
    return m_hat / (np.sqrt(v_hat) + np.float32(1e-8))


def _rms_prop(g_PD: Array, state_SPD: Array, t: int) -> Array:
    v_PD = state_SPD[0]
    v_PD += np.float32(0.1) * (g_PD * g_PD - v_PD)
    return g_PD / (np.sqrt(v_PD) + np.float32(1e-8))


def _adagrad(g_PD: Array, state_SPD: Array, t: int) -> Array:
    v_PD = state_SPD[0]
    v_PD += g_PD * g_PD
    return g_PD / (np.sqrt(v_PD) + np.float32(1e-8))


OPTIMIZERS = {
    "sgd": Optimizer(0.5, 0, _sgd),
    "momentum": Optimizer(0.05, 1, _momentum),
    "adam": Optimizer(0.01, 2, _adam),
    "rms_prop": Optimizer(0.01, 1, _rms_prop),
    "adagrad": Optimizer(0.05, 1, _adagrad),
}
"""Textbook forms: momentum .9; Adam .9 and .999; the decay of RMSProp is .9."""


class Problem(NamedTuple):
    """The model, its samples, and the quality that is good enough."""

    model: StackedModel
    initial_D: Vector
    samples: int
    """The number of training samples."""
    batch: Callable[[Indices], tuple[Any, Any]]
    """Rows of any shape to their inputs and targets."""
    quality: Callable[[Vector], float]
    """Of one model; larger is better."""
    target: float


class Course(NamedTuple):
    """One run of the study."""

    iterations: int | None
    """How many the mean of all caches took to the target; None: not so many."""
    coherence_T: Floats
    """μ_t of each iteration from the second on; empty if it was not asked for."""


class Caches:
    """P copies of a model, and the updates that are on their way to each."""

    def __init__(
        self, initial_D: Vector, workers: int, staleness: int, draws: Key
    ) -> None:
        """All copies are equal, and nothing is on its way.

        Args:
            initial_D: the model that all begin with.
            workers: P.
            staleness: s, the largest delay in iterations.
            draws: of the delays.
        """
        self.models_PD = np.tile(initial_D, (workers, 1))
        self._slots = staleness + 1
        self._coming_RPD = np.zeros((self._slots, *self.models_PD.shape), np.float32)
        self._rng = draws.generator()
        self._now = 0

    def send(self, updates_PD: Array) -> None:
        """Sends the update of each worker, which is to be subtracted, to all caches.

        What is due at the start of the next iteration has arrived when this returns.
        """
        workers, slots = len(updates_PD), self._slots
        delays_PP = self._rng.integers(slots, size=(workers, workers))
        # One row of weights for each delay and receiver, one column for each sender.
        is_due_RPP = delays_PP == np.arange(slots)[:, None, None]
        weights = is_due_RPP.reshape(-1, workers).astype(np.float32)
        arriving_RPD = (weights @ updates_PD).reshape(slots, workers, -1)
        self._coming_RPD += np.roll(arriving_RPD, self._now, axis=0)
        self.models_PD -= self._coming_RPD[self._now]
        self._coming_RPD[self._now] = 0
        self._now = (self._now + 1) % slots

    def mean(self) -> Vector:
        """Returns the mean of all copies, (D,)."""
        mean_D: Vector = self.models_PD.mean(axis=0)
        return mean_D


def train(
    problem: Problem,
    optimizer: Optimizer,
    staleness: int,
    *,
    seed: int,
    workers: int = 8,
    batch: int = 32,
    most: int = 2000,
    every: int = 1,
    with_coherence: bool = False,
) -> Course:
    """Trains until the mean of all caches reaches the target.

    Args:
        problem: what is trained.
        optimizer: of every worker.
        staleness: s, the largest delay in iterations.
        seed: of batches and delays.
        workers: P.
        batch: samples that a worker draws for a step.
        most: iterations at which it is given up.
        every: after how many iterations the mean of the caches is evaluated.
        with_coherence: whether to compute the gradient coherence, which takes a
            gradient of all samples for each iteration.

    Raises:
        ConfigError: there are fewer samples than a batch has.
    """
    if not 0 < batch <= problem.samples:
        raise ConfigError(f"a batch of {batch} out of {problem.samples} samples")
    key = Key.root(seed).fold_in("staleness")
    caches = Caches(problem.initial_D, workers, staleness, key.fold_in("delays"))
    rng, shape = key.fold_in("batches").generator(), caches.models_PD.shape
    state_SPD = np.zeros((optimizer.slots, *shape), np.float32)
    sizes_P, rate = np.full(workers, batch), np.float32(optimizer.lr / workers)
    past, coherence = list[Vector](), list[float]()
    for t in range(1, most + 1):
        rows_PB = rng.integers(problem.samples, size=(workers, batch))
        x_PB, y_PB = problem.batch(rows_PB)
        _, g_PD = problem.model.gradient(caches.models_PD, x_PB, y_PB, sizes_P)
        caches.send(rate * optimizer.step(g_PD.copy(), state_SPD, t))
        mean_D = caches.mean()
        if with_coherence:
            past = [*past, _full_gradient(problem, mean_D)][-max(2, staleness + 1) :]
            if len(past) > 1:
                coherence.append(_coherence(past))
        if t % every == 0 and problem.quality(mean_D) >= problem.target:
            return Course(t, np.array(coherence))
    return Course(None, np.array(coherence))


def slowdown(late: Sequence[int], in_time: Sequence[int]) -> Floats:
    """Returns how many times the iterations of s = 0 others took, seed by seed."""
    return np.array(late, np.float64) / np.array(in_time, np.float64)


def _full_gradient(problem: Problem, w_D: Vector) -> Vector:
    """Returns the gradient over all samples."""
    sizes_1 = np.array([problem.samples])
    x_1B, y_1B = problem.batch(np.arange(problem.samples)[None])
    _, g_1D = problem.model.gradient(w_D[None], x_1B, y_1B, sizes_1)
    return np.array(g_1D[0], np.float32)


def _coherence(past: Sequence[Vector]) -> float:
    """Returns μ_t = min_j <∇F_t, ∇F_j> / |∇F_t|², j of the last s (definition 1)."""
    last_D = past[-1].astype(np.float64)
    return min(float(last_D @ g_D) for g_D in past) / float(last_D @ last_D)
