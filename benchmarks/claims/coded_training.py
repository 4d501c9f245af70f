"""Claim 30: training with codes, as one party with a cluster of workers does it.

Lee, Lam, Pedarsani, Papailiopoulos, Ramchandran, "Speeding Up Distributed Machine
Learning Using Codes", IEEE TIT 64(3), 2018, arXiv 1512.02673.

Least squares (§III): a step of gradient descent is two products, A x and Aᵀ (A x - b).
Both matrices are coded once; the answers of the first k of n workers are decoded, so
every step is that of a machine alone. The data are scikit-learn's diabetes table of 442
patients. Workers take 1 + Exp(1) for all of the work. The negative control goes on
without the rows of the n - k slowest workers.

Shuffling (§V): six workers learn digits by local SGD, whose parts are sorted by label
at first. Between epochs the rows are shuffled by coded broadcasts, and a worker trains
on the very bytes that it decoded. The negative control leaves the rows where they are.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_diabetes

from benchmarks.claims.report import (
    Cell,
    Report,
    Scale,
    Table,
    at_least,
    at_most,
    difference,
    ratio,
)
from benchmarks.claims.setup import PIXELS, DigitsMLP, digits
from fedcore.coding import (
    best_split,
    kth_fastest,
    mds_code,
    mean_rates,
    shuffle_coded,
    worker_seconds,
)
from fedcore.coding.coded_shuffling import Bytes
from fedcore.distributions import Floats
from fedcore.rng import Key
from fedcore.typing import Indices, Vector

SIZES, STEPS, RATE = (10, 50), 300, 0.1  # workers; of gradient descent
FEATURES = 10  # of a patient
WORKERS, EPOCHS, KEPT, LR, BATCH = 6, 10, 0.5, 0.1, 16


def run(scale: Scale) -> Report:
    """Trains with codes, without, and without what is late."""
    steps, epochs = scale.of(STEPS, 5), scale.of(EPOCHS, 2)
    fits = {n: [fitted(n, steps, seed) for seed in scale.seeds] for n in SIZES}
    rows = {
        f"n = {n}, k = {best_split(n, 1.0)}": [
            Cell([fit[place] for fit in found]) for place in range(len(Fit._fields))
        ]
        for n, found in fits.items()
    }
    ways = {
        name: [shuffled(seed, epochs, moves=moves) for seed in scale.seeds]
        for name, moves in (("shuffled every epoch", True), ("never shuffled", False))
    }
    shuffles = {
        name: [Cell([one[place] for one in found]) for place in range(4)]
        for name, found in ways.items()
    }
    every, never = shuffles.values()
    expected = mean_rates(WORKERS, KEPT)[1]
    fits_of_ten, fits_of_fifty = rows.values()
    return Report(
        number=30,
        title="A cluster trains on coded data as if nobody was late",
        source="Lee et al., IEEE TIT 2018, sections III and V",
        tables=[
            Table(
                f"Least squares on {len(load_diabetes().target)} patients, "
                f"{steps} steps",
                (
                    "uncoded, s",
                    "coded, s",
                    "error, 1e-12",
                    "loss",
                    "late ones left out",
                ),
                rows,
            ),
            Table(
                f"Digits on {WORKERS} workers that keep half of the rows, "
                f"{epochs} epochs",
                ("accuracy", "uncoded share", "coded share", "wrong rows"),
                shuffles,
            ),
        ],
        checks=[
            at_least("times as fast, 10 workers", ratio(*fits_of_ten[:2]), 1.25),
            at_least("times as fast, 50 workers", ratio(*fits_of_fifty[:2]), 1.5),
            at_most(
                "largest error of a weight, in 1e-12 of the largest",
                max(value for row in rows.values() for value in row[2].values),
                1000,
            ),
            at_least(
                "loss without late ones over the loss with codes, 10 workers",
                ratio(fits_of_ten[4], fits_of_ten[3]),
                1.0,
            ),
            at_least(
                "accuracy that shuffling gains", difference(every[0], never[0]), 0.01
            ),
            at_least("bytes uncoded over coded", ratio(every[1], every[2]), 2.0),
            at_most("rows decoded wrongly", sum(every[3].values), 0),
        ],
        remarks=[
            f"Of many rows {expected:.3f} would travel coded; the paper's limit for "
            "many workers is a gain of 4."
        ],
    )


# --------------------------------------------------------------------- least squares


class Fit(NamedTuple):
    """What came of training with one number of workers."""

    uncoded: float
    """Seconds until all workers have answered in every step."""
    coded: float
    """Seconds until k of them have."""
    error: float
    """The largest error of a weight, in 1e-12 of the largest weight."""
    loss: float
    """Of the weights trained with codes."""
    careless: float
    """The loss of weights that never saw the rows of the slowest n - k workers."""


def fitted(workers: int, steps: int, seed: int) -> Fit:
    """Trains with codes, alone, and without the slowest workers."""
    key = Key.root(seed).fold_in("claim 30", workers)
    table = load_diabetes()
    rows = key.fold_in("rows").generator().permutation(len(table.target))
    a_MF, b_M = standard(table.data[rows]), standard(table.target[rows])
    needed = best_split(workers, 1.0)
    codes = [mds_code(workers, needed, key.fold_in("code", at)) for at in range(2)]
    coded = [code.encode(a) for code, a in zip(codes, (a_MF, a_MF.T), strict=True)]
    all_TW, some_TW = (
        worker_seconds(workers, 1 / k, 1.0, 2 * steps, key.fold_in("seconds", k))
        for k in (workers, needed)
    )
    order = iter(np.argsort(some_TW, axis=1))

    def multiply(at: int, x: Floats) -> Floats:
        """The first or second product, from the first answers to it."""
        first = next(order)[:needed]
        height = len(a_MF) if at == 0 else FEATURES
        return codes[at].decode(first.tolist(), coded[at][first] @ x, height)

    def alone(at: int, x: Floats) -> Floats:
        return a_MF @ x if at == 0 else a_MF.T @ x

    alone_F, coded_F = descend(alone, b_M, steps), descend(multiply, b_M, steps)
    seen = len(b_M) * needed // workers
    a_SF, b_S = a_MF[:seen], b_M[:seen]
    careless_F = descend(lambda at, x: (a_SF, a_SF.T)[at] @ x, b_S, steps)
    return Fit(
        float(all_TW.max(axis=1).sum()),
        float(kth_fastest(some_TW, needed).sum()),
        float(np.abs(coded_F - alone_F).max() / np.abs(alone_F).max() * 1e12),
        float(np.mean((a_MF @ coded_F - b_M) ** 2)),
        float(np.mean((a_MF @ careless_F - b_M) ** 2)),
    )


def standard(values: Floats) -> Floats:
    """Returns columns of mean 0 and deviation 1."""
    scaled: Floats = (values - values.mean(0)) / values.std(0)
    return scaled


def descend(
    multiply: Callable[[int, Floats], Floats], b_M: Floats, steps: int
) -> Floats:
    """Returns weights after steps of gradient descent, from zero.

    Args:
        multiply: returns A x where it is called with 0, and Aᵀ x with 1.
        b_M: the targets.
        steps: how many; each is two products.
    """
    x_F = np.zeros(FEATURES)
    for _ in range(steps):
        gradient_F = multiply(1, multiply(0, x_F) - b_M) / len(b_M)
        x_F -= RATE * gradient_F
    return x_F


# --------------------------------------------------------------------------- shuffling


def shuffled(
    seed: int, epochs: int, *, moves: bool
) -> tuple[float, float, float, float]:
    """Trains on digits that are shuffled between epochs, or stay.

    Returns:
        The accuracy, the shares of all rows that travel uncoded and coded in a
        shuffle, and how many rows came out wrong.
    """
    x, y = digits("train")
    order = np.argsort(y, kind="stable")[: len(y) // WORKERS * WORKERS]
    table_QV = np.column_stack([x[order], y[order]]).astype(np.float32)
    rows_QB = np.asarray(table_QV, order="C").view(np.uint8)
    key, network = Key.root(seed).fold_in("claim 30"), DigitsMLP()
    w_D = network.initial(key.fold_in("version 0"))
    parts: Sequence[Indices] = np.split(np.arange(len(rows_QB)), WORKERS)
    held = [rows_QB[rows] for rows in parts]
    wrong, sent = 0, []
    for epoch in range(epochs):
        ends = [
            trained(network, w_D, own, key.fold_in("batches", epoch, worker))
            for worker, own in enumerate(held)
        ]
        w_D = np.mean(ends, axis=0, dtype=np.float32)
        if not moves:
            continue
        done = shuffle_coded(
            rows_QB, WORKERS, KEPT, key.fold_in("shuffle", epoch), parts
        )
        parts, held = done.parts, []
        for rows, needed, got in zip(parts, done.needed, done.decoded, strict=True):
            own = rows_QB[rows]
            own[np.isin(rows, needed)] = got
            wrong += int((own != rows_QB[rows]).any(axis=1).sum())
            held.append(own)
        sent.append([done.uncoded_nbytes, done.coded_nbytes])
    accuracy = network.quality(w_D, *digits("test")).accuracy
    uncoded, coded = np.mean(sent, axis=0) / rows_QB.size if sent else (0.0, 0.0)
    return accuracy, float(uncoded), float(coded), wrong


def trained(network: DigitsMLP, w_D: Vector, rows_PB: Bytes, key: Key) -> Vector:
    """Returns the weights after an epoch over a worker's rows."""
    values = np.asarray(rows_PB, order="C").view(np.float32)
    x, y = values[:, :PIXELS], values[:, PIXELS].astype(np.int64)
    own_D = w_D.copy()
    order = key.generator().permutation(len(y))
    for start in range(0, len(order), BATCH):
        batch = order[start : start + BATCH]
        own_D -= LR * network.gradient(own_D, x[batch], y[batch])[1]
    return own_D
