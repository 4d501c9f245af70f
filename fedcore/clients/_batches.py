"""The batches of local steps: shuffles of a client's samples, from a seed alone."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fedcore.rng import Words, bits
from fedcore.typing import Counts, Indices

_LAST = np.iinfo(np.uint64).max
_PASSES = 1 << 40  # words of a seed's stream that each shuffle, or each step, may take
_SMALL = 2048  # words that are sorted in less time than two groups of clients take
_FEW = 4  # times the samples that are needed: of more, only those are sorted


class Batches(NamedTuple):
    """The samples of each step of each client; rows are padded with any sample."""

    rows_NSB: Indices
    sizes_NS: Counts
    """Samples of each step; 0 after a client's last one."""

    def of(self, client: int) -> list[Indices]:
        """Returns the rows of each step of one client."""
        sizes = self.sizes_NS[client]
        return [
            rows_B[:size]
            for rows_B, size in zip(self.rows_NSB[client], sizes, strict=True)
            if size
        ]


def shuffle_batches(
    samples_N: Counts, steps_N: Counts, seeds_N: Words, batch: int
) -> Batches:
    """Cuts shuffles of each client's samples, one after another, into batches.

    The last batch of a pass holds the remaining samples, so every sample is used
    equally often. A shuffle sorts the samples by words of the client's seed, one for
    each; so a stack draws what its clients would draw one by one.
    """
    step_S = np.arange(int(steps_N.max()))
    per_pass_N = -(-samples_N // batch)
    pass_NS, within_NS = np.divmod(step_S, per_pass_N[:, None])
    sizes_NS = np.clip(samples_N[:, None] - within_NS * batch, 0, batch)
    sizes_NS[step_S >= steps_N[:, None]] = 0
    passes_N = -(-steps_N // per_pass_N)
    width = min(batch, int(samples_N.max()))
    rows_NSB = np.zeros((len(samples_N), len(step_S), width), np.int64)
    for some in _alike(samples_N, int(passes_N.max())):
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


def uniform_batches(
    samples_N: Counts, steps_N: Counts, seeds_N: Words, batch: int
) -> Batches:
    """Draws the samples of each batch independently, all with the same probability."""
    step_S = np.arange(int(steps_N.max()))
    sizes_N = np.minimum(batch, samples_N)
    sizes_NS = np.where(step_S < steps_N[:, None], sizes_N[:, None], 0)
    width = int(sizes_N.max())
    u_NSB = np.stack([draws(seeds_N, step, width) for step in step_S.tolist()], axis=1)
    samples_N11 = samples_N[:, None, None]
    rows_NSB = np.minimum((u_NSB * samples_N11).astype(np.int64), samples_N11 - 1)
    rows_NSB[np.arange(width) >= sizes_NS[..., None]] = 0
    return Batches(rows_NSB, sizes_NS)


def draws(seeds_N: Words, step: int, count: int) -> npt.NDArray[np.float64]:
    """Numbers in [0, 1) of a step of each seed's task, shape ``seeds.shape + (B,)``."""
    words = bits(seeds_N, step * _PASSES, count) >> np.uint64(11)
    return words * np.float64(2.0**-53)


def _alike(samples_N: Counts, passes: int) -> list[Indices | slice]:
    """Groups clients whose numbers of samples differ by less than a factor of 2.

    A group is shuffled as one array as wide as its largest client, in as many passes as
    its smallest one needs, so clients of 25 and of 46,251 samples are shuffled apart.
    Where that array is small for all of them, they are one group.
    """
    if len(samples_N) * int(samples_N.max()) * passes <= _SMALL:
        return [slice(None)]
    power_N = np.frexp(samples_N)[1]
    powers = np.unique(power_N)
    if len(powers) == 1:
        return [slice(None)]
    return [np.flatnonzero(power_N == power) for power in powers]


def _shuffles(
    samples_N: Counts, seeds_N: Words, passes: int, needed: int
) -> npt.NDArray[np.int64]:
    """Returns the first ``needed`` samples of each pass of each client, in order."""
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
    """Cuts the first samples of each client into batches."""
    clients, most = order_Nn.shape
    room_N = np.zeros((clients, steps * width), np.int64)
    used = min(most, steps * width)
    room_N[:, :used] = order_Nn[:, :used]
    return room_N.reshape(clients, steps, width)
