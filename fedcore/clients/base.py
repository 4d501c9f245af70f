"""The contract of client algorithms: what a client does with one task.

``plan`` says which samples each step uses, from a seed alone; ``run`` is plain
arithmetic along the last axis with a gradient function that it is given, so the
same lines train one client ``(D,)`` or a stack of them ``(N, D)``.
"""

from abc import abstractmethod
from collections.abc import Callable
from types import EllipsisType
from typing import Annotated, ClassVar, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from fedcore.arrays import like
from fedcore.config import Method, OneOf
from fedcore.rng import Key, Words, bits, seeds
from fedcore.typing import Array, Counts, Indices, State, Vector

# (w_D, step) -> (loss, g_D): the mean loss over the step's samples, and its gradient,
# in an array that the caller may write into until the next call. Of a stack, w_ND are
# the rows that still train.
Gradient = Callable[[Array, int], tuple[Array, Array]]
_LAST = np.iinfo(np.uint64).max
_PASSES = 1 << 40  # words of a seed's stream that each shuffle may take
_FEW = 4  # times the samples that are needed: of more, only those are sorted


class Batches(NamedTuple):
    """The rows of the samples of each step of each client, padded with any row."""

    rows_NSB: Indices
    sizes_NS: Counts
    """Samples of each step; 0 after a client's last one."""

    def of(self, client: int) -> list[Indices]:
        """The rows of each step of one client."""
        sizes = self.sizes_NS[client]
        return [
            rows_B[:size]
            for rows_B, size in zip(self.rows_NSB[client], sizes, strict=True)
            if size
        ]


class Trained(NamedTuple):
    """What ``run`` returns: the update, its loss, and what the client keeps."""

    delta_D: Array
    """Δ = W - w, shape (D,) or (N, D), followed by those of the companions."""
    loss: Array  # mean over the steps
    state: State


class Run(Protocol):
    """Trains one client or a stack."""

    def __call__(
        self,
        start_D: Array,
        steps: int | Counts,
        gradient: Gradient,
        state: State,
        room_D: Array | None = None,
    ) -> Trained:
        """The update that the steps lead to.

        Args:
            start_D: the public model, (D,) or one a row (N, D), followed by what the
                server publishes of the companions.
            steps: how many; of a stack (N,), none above the one before.
            gradient: of the model that it is shown.
            state: what was kept from the task before.
            room_D: memory for the trained model, which is otherwise made.
        """


class Descent(NamedTuple):
    """Steps that are fully said by these numbers.

    v = momentum v + g + weight_decay w + pull (w - start), w = w - lr v.
    """

    lr: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    pull: float = 0.0
    keeps_velocity: bool = False
    """Whether v stays from task to task; otherwise it starts from zero."""


class ClientAlgorithm(NamedTuple):
    """Local training. ``run`` leaves its inputs untouched."""

    init: Callable[[int], State]  # what the client keeps from task to task
    plan: Callable[
        [Counts, Counts, Words], Batches
    ]  # (samples, steps, seeds), each (N,)
    run: Run
    descent: Descent | None = None
    """What ``run`` does, where so little says it all: some models do it at once."""


class ClientAlgorithmConfig(Method):
    """Settings of a client algorithm."""

    role: ClassVar[str] = "client algorithm"

    @abstractmethod
    def step_count(self, samples: int, work: float = 1.0) -> int:
        """How many steps a client with so many samples takes; ``work`` is a share."""

    @property
    def companions(self) -> tuple[str, ...]:
        """Names of the vectors that travel beside the model, each of its shape.

        They follow the model in the flat vector: the server publishes them with it, an
        update holds what is to be subtracted from them, and codecs, error memories,
        journal and catching up treat them as tensors of the model.
        """
        return ()

    def take_back(self, kept: State, gone_D: Vector) -> State:
        """What a client keeps, without an update that neither counts nor is sent again.

        Args:
            kept: what it keeps now.
            gone_D: the update, with the companions' part.
        """
        return kept

    def publish(
        self, beside_D: Vector, mean_D: Vector, share: float, before: float
    ) -> Vector:
        """The server's half: the companions that go with the next version.

        Only elementwise IEEE operations are used: a replay is exact on any processor.

        Args:
            beside_D: those that go with this version.
            mean_D: what the updates say of them, as the aggregator has merged them.
            share: the number of updates, divided by the number of clients that have
                ever joined to train.
            before: how many clients had joined when this version was made, as a share
                of those that have joined now.
        """
        return beside_D - mean_D

    def at(self, version: int) -> Self:
        """The settings for a task on this version of the model."""
        return self

    @abstractmethod
    def build(self) -> ClientAlgorithm:
        """The algorithm."""


AnyClientAlgorithm = Annotated[ClientAlgorithmConfig, OneOf()]


def shuffled_batches(
    samples_N: Counts, steps_N: Counts, seeds_N: Words, batch: int
) -> Batches:
    """The rows of each client's batches, from one shuffle of its samples after another.

    A pass ends with what is left over, so every sample is used equally often. A shuffle
    puts the samples in the order of as many words of the client's seed; so a stack
    draws what its clients would draw one by one.
    """
    step_S = np.arange(int(steps_N.max()))
    per_pass_N = -(-samples_N // batch)
    pass_NS, within_NS = np.divmod(step_S, per_pass_N[:, None])
    sizes_NS = np.clip(samples_N[:, None] - within_NS * batch, 0, batch)
    sizes_NS[step_S >= steps_N[:, None]] = 0
    passes_N = -(-steps_N // per_pass_N)
    width = min(batch, int(samples_N.max()))
    rows_NSB = np.zeros((len(samples_N), len(step_S), width), np.int64)
    for some in _alike(samples_N):
        steps, passes = int(steps_N[some].max()), int(passes_N[some].max())
        order_PNn = _shuffles(samples_N[some], seeds_N[some], passes, steps * batch)
        narrow = min(batch, int(samples_N[some].max()))
        if passes == 1:
            part_NSB = _cut(order_PNn[0], steps, narrow)
        else:
            within = within_NS[some, :steps, None] * batch + np.arange(narrow)
            part_NSB = order_PNn[
                np.minimum(pass_NS[some, :steps, None], passes - 1),
                np.arange(len(order_PNn[0]))[:, None, None],
                np.minimum(within, order_PNn.shape[-1] - 1),
            ]
        rows_NSB[some, :steps, :narrow] = part_NSB
    if sizes_NS.min() < width:
        rows_NSB[np.arange(width) >= sizes_NS[..., None]] = 0
    return Batches(rows_NSB, sizes_NS)


def _alike(samples_N: Counts) -> list[Indices | slice]:
    """Clients by their number of samples, of which each group has less than twice.

    A shuffle of many takes room and time for the largest in every pass that the
    smallest needs, so those of 25 and of 46,251 samples are shuffled apart.
    """
    power_N = np.frexp(samples_N)[1]
    powers = np.unique(power_N)
    if len(powers) == 1:
        return [slice(None)]
    return [np.flatnonzero(power_N == power) for power in powers]


def _shuffles(
    samples_N: Counts, seeds_N: Words, passes: int, needed: int
) -> npt.NDArray[np.int64]:
    """The order of each client's samples in each pass, the first ``needed`` of them."""
    most = int(samples_N.max())
    beyond_Nn = np.arange(most) >= samples_N[:, None]
    is_short = _FEW * needed < most
    order_PNn = np.empty((passes, len(samples_N), min(needed, most)), np.int64)
    for number, order_Nn in enumerate(order_PNn):
        words_Nn = bits(seeds_N, number * _PASSES, most)
        words_Nn[beyond_Nn] = _LAST
        if is_short:
            first_Nn = np.argpartition(words_Nn, needed, axis=-1)[:, :needed]
            words_Nn = np.take_along_axis(words_Nn, first_Nn, axis=-1)
        found_Nn = np.argsort(words_Nn, axis=-1, kind="stable")
        if is_short:
            found_Nn = np.take_along_axis(first_Nn, found_Nn, axis=-1)
        order_Nn[...] = found_Nn[:, : order_Nn.shape[-1]]
    return order_PNn


def _cut(order_Nn: Indices, steps: int, width: int) -> Indices:
    """The first rows of each client as batches."""
    clients, most = order_Nn.shape
    room_N = np.zeros((clients, steps * width), np.int64)
    used = min(most, steps * width)
    room_N[:, :used] = order_Nn[:, :used]
    return room_N.reshape(clients, steps, width)


def batches_of_one(
    algorithm: ClientAlgorithm, samples: int, steps: int, key: Key
) -> list[Indices]:
    """The rows of each step of one client's task."""
    return algorithm.plan(np.array([samples]), np.array([steps]), seeds([key])).of(0)


def training_rows(steps: int | Counts) -> list[EllipsisType | slice]:
    """Of each step: the rows of the stack that still train, or the one client."""
    if isinstance(steps, int):
        return [...] * steps
    most = int(steps[0]) if len(steps) else 0
    return [slice(int(np.count_nonzero(steps > step))) for step in range(most)]


def mean_loss(losses: Array, steps: int | Counts) -> Array:
    """The mean over the steps; NaN if there were none."""
    if isinstance(steps, int):
        return losses / steps if steps else losses + np.nan
    return losses / like(steps, losses)
