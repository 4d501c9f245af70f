"""Prioritised SGD: samples with larger gradients are drawn more often.

Zhou, Gao, "Distributed Framework for Accelerating Training of Deep Learning Models
through Prioritization", IC2E 2021. A sample's priority p is the norm of its gradient,
or an estimate of it, as it was when the sample was last used. A step draws B samples
independently with the probabilities q = (1 - ρ)·p/Σp + ρ/n, where n is the number of
samples. Unbiased, the gradient of a sample counts for 1/(n·q), at most 1/ρ, so that the
step is that of the mean over all samples in expectation; biased, all count alike, so
that the steps go where the gradients are large.

Only the paper's abstract was at hand, which says that priorities are computed or
estimated; the rule is that of importance sampling by gradient norms (Alain, Lamb,
Sankar, Courville, Bengio, "Variance Reduction in SGD by Distributed Importance
Sampling", 2015, arXiv 1511.06481), and ρ, which bounds the weights, could not be
compared with the paper. The estimate is the norm of the gradient at the model's
outputs: of cross-entropy ‖softmax - onehot‖ (after Katharopoulos, Fleuret, "Not All
Samples Are Created Equal: Deep Learning with Importance Sampling", ICML 2018, arXiv
1803.00942). A sample that was not used so far has the largest priority of those that
were, as in Schaul et al., "Prioritized Experience Replay", ICLR 2016, arXiv 1511.05952.

Biased draws need the fewest steps, and come back to samples with wrong labels ever more
often, so the default is unbiased. Its ρ of .5 bounds the weights by 2: with fewer equal
chances it diverges at the rates at which it is fast (claim 22).

A client keeps its priorities from task to task, with its message; they are never sent.
"""

from typing import Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from fedcore.clients._batches import Batches, draws, uniform_batches
from fedcore.clients._sgd import SGDConfig
from fedcore.clients.base import ClientAlgorithm, Drawn, Priority, Sampling
from fedcore.rng import Words
from fedcore.typing import Counts, Indices, State, Vector

_UNUSED = -1.0  # in place of the priority of a sample that was not used so far


class PrioritisedSGD(SGDConfig):
    """Local SGD whose samples are drawn by the size of their gradients."""

    kind: Literal["prioritised_sgd"] = "prioritised_sgd"
    unbiased: bool = True
    """Whether samples that are drawn often count for less, so that steps are those of
    plain SGD in expectation. The loss of a task is weighted in the same way."""
    priority: Priority = "gradient_norm"
    """The norm of a sample's gradient, which costs a gradient for each sample of a
    batch; or an estimate, the norm at the outputs of a torch model, which costs none.
    Tensors that are frozen count as well."""
    uniform: float = Field(default=0.5, gt=0, le=1)
    """ρ, the share of the probability that all samples have alike."""

    @property
    def is_plain(self) -> bool:
        """False: a training loop of one's own draws its own batches."""
        return False

    def used_by(self, samples: int, steps: int) -> int:
        """Returns how many samples these steps use; see the base class."""
        return steps * min(self.batch, samples)

    def build(self) -> ClientAlgorithm:
        """Returns the algorithm that these settings describe."""
        sampling = Sampling(self.priority, _init, self._draw, _learn)
        return ClientAlgorithm(self._plan, self._run, sampling=sampling)

    @model_validator(mode="after")
    def _forgets_momentum(self) -> Self:
        if self.keep_momentum:
            raise ValueError(
                "prioritised_sgd keeps priorities, and no momentum, from task to task; "
                "leave keep_momentum out"
            )
        return self

    def _plan(self, samples_N: Counts, steps_N: Counts, seeds_N: Words) -> Batches:
        return uniform_batches(samples_N, steps_N, seeds_N, self.batch)

    def _draw(self, priorities_n: State, seed: Words, step: int) -> Drawn:
        samples = len(priorities_n)
        chances_n = probabilities(priorities_n, self.uniform)
        up_to_n = np.cumsum(chances_n)
        u_B = draws(seed, step, min(self.batch, samples)) * up_to_n[-1]
        rows_B = np.searchsorted(up_to_n, u_B, side="right")
        rows_B = np.minimum(rows_B, samples - 1)
        if not self.unbiased:
            return Drawn(rows_B, np.ones(len(rows_B), np.float32))
        weights_B = 1 / (samples * chances_n[rows_B])
        return Drawn(rows_B, weights_B.astype(np.float32))


def probabilities(priorities_n: Vector, uniform: float) -> npt.NDArray[np.float64]:
    """Returns q = (1 - ρ)·p/Σp + ρ/n of each sample.

    Args:
        priorities_n: p, or a number below 0 of samples that were not used so far.
        uniform: ρ.
    """
    most, count = max(float(priorities_n.max()), 0.0) or 1.0, len(priorities_n)
    p_n = np.where(priorities_n < 0, 1.0, priorities_n.astype(np.float64) / most)
    total = float(p_n.sum())
    if not total:  # nothing is left to learn
        return np.full(count, 1 / count)
    return (1 - uniform) * p_n / total + uniform / count


def _init(samples: int, kept: State) -> State:
    """Returns the priorities of a client's samples, whose number may have changed."""
    if kept is None or len(kept) != samples:
        return np.full(samples, _UNUSED, np.float32)
    return kept.copy()


def _learn(priorities_n: State, rows_B: Indices, norms_B: Vector) -> State:
    """Takes in the norms of the samples of a step; one that diverged tells nothing."""
    priorities_n[rows_B] = np.where(np.isfinite(norms_B), norms_B, _UNUSED)
    return priorities_n
