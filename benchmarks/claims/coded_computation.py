"""Claim 13: with codes, the answers of some workers suffice, exactly and sooner.

Tandon, Lei, Dimakis, Karampatziakis, "Gradient Coding", ICML 2017, arXiv 1612.03301:
the sum of gradients of up to 8 workers, for every number and every set of stragglers.
Lee, Lam, Pedarsani, Papailiopoulos, Ramchandran, "Speeding Up Distributed Machine
Learning Using Codes", IEEE TIT 2018, arXiv 1512.02673: the time of MDS-coded products
with exponential delays, and a coded shuffle of real bytes.

The experiment also runs worker processes of one client, as ``fedclient join --workers``
starts them: one of six is late in every step, or is killed.
"""

import os
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.claims.report import (
    Cell,
    Report,
    Scale,
    Table,
    at_least,
    at_most,
    average,
)
from fedclient.silo.answer import digests
from fedclient.silo.pool import SiloWorkers
from fedclient.silo.worker import Blueprint
from fedcore.coding import (
    GradientCode,
    best_split,
    cyclic,
    fractional_repetition,
    gradient_code,
    kth_fastest,
    mds_seconds,
    mean_rates,
    saving,
    shuffle_coded,
    uncoded_seconds,
    worker_seconds,
)
from fedcore.coding.gradient_coding import cyclic_matrix
from fedcore.errors import NotDecodableError
from fedcore.rng import Key
from fedcore.samples import ArraySamples
from fedcore.typing import Vector
from fedcore.workload import Client
from fedrun.data import digits

MOST, DIM = 8, 1000  # workers, values of a gradient
TRIALS = 50_000
SIZES = (10, 50, 200)  # workers of an MDS code
WORKERS, LATE, SAMPLE, BATCH, STEPS = 6, 0.25, 0.002, 120, 12
APP = Path(__file__).parent / "late_worker_app.py"


def run(scale: Scale) -> Report:
    """Measures errors, times by chance, bytes, and processes."""
    most = scale.of(MOST, 5)
    sums = {kind: [exactness(kind, most, s) for s in scale.seeds] for kind in KINDS}
    exact = {kind: [cell(found, at) for at in range(3)] for kind, found in sums.items()}
    times = {f"n = {n}": mds_times(n, scale) for n in SIZES}
    misses = [
        abs(value / formula - 1)
        for n in SIZES
        for found, formula in zip(times[f"n = {n}"][:2], formulas(n), strict=True)
        for value in [found.mean]
    ]
    steps = scale.of(STEPS, 3)
    late = {s: [step_seconds(s, LATE, steps) for _ in scale.seeds] for s in (0, 1)}
    prompt = {s: [step_seconds(s, 0.0, steps) for _ in scale.seeds] for s in (0, 1)}
    killed = [after_kills(seed, steps) for seed in scale.seeds]
    shuffles = [shuffled(seed) for seed in scale.seeds]
    gain = [a / b for a, b in zip(late[0], late[1], strict=True)]
    return Report(
        number=13,
        title="Some of a silo's workers are enough, exactly and sooner",
        source="Tandon et al., ICML 2017; Lee et al., IEEE TIT 2018",
        tables=[
            Table(
                f"The sum of gradients, n <= {most}, every s, every set of stragglers",
                ("sets", "largest error, 1e-15", "float32 values that differ"),
                exact,
            ),
            Table(
                "Mean time of a product, exponential delays of rate 1",
                ("uncoded", "MDS, best k", "times as fast", "share of log n"),
                times,
            ),
            Table(
                f"{WORKERS} processes, ms a step",
                ("uncoded", "one straggler coded for", "times as fast"),
                {
                    f"one is {LATE * 1000:.0f} ms late": processes(late),
                    "nobody is late": processes(prompt),
                },
                is_timed=True,
            ),
            Table(
                "A worker killed (-9) in every step",
                ("values that differ", "of"),
                {
                    f"{WORKERS} workers, 1 straggler": [
                        Cell([k.wrong for k in killed]),
                        Cell([k.values for k in killed]),
                    ]
                },
            ),
            Table(
                "A shuffle among 6 workers that keep half of the rows",
                ("uncoded share", "coded share", "of many rows", "wrong rows"),
                {
                    "of all rows": [
                        Cell([each[place] for each in shuffles]) for place in range(4)
                    ],
                },
            ),
        ],
        checks=[
            at_most(
                "largest relative error in units of 1e-15, cyclic",
                max(exact["cyclic"][1].values),
                1000,
            ),
            at_most(
                "bits that differ by who answers, fractional repetition",
                exact["fractional repetition"][2].mean,
                0,
            ),
            at_least(
                "share of sets that a wrong matrix cannot decode",
                float(np.mean([refused(most, s) for s in scale.seeds])),
                1.0,
            ),
            at_most("a drawn mean misses its formula by", max(misses), 0.03),
            at_least("times as fast, one process late", average(Cell(gain)), 1.5),
            at_most(
                "values that differ with a killed worker",
                float(sum(k.wrong for k in killed)),
                0,
            ),
            at_most("rows decoded wrongly", sum(each[3] for each in shuffles), 0),
        ],
        remarks=[
            "The processes imitate computing by sleeping. Where nobody is late, the "
            "code costs what it computes twice.",
            "saving of coded shuffling among 6 workers that keep half, where one "
            f"broadcast costs as much as one message: {saving(6, 0.5, 6):.2f} times "
            "(the paper's limit: 4.00)",
        ],
    )


KINDS = ("fractional repetition", "cyclic")


class Exactness(NamedTuple):
    """What came of all sets of stragglers."""

    sets: int
    error: float
    """The largest error, in 1e-15 of the largest value of the sum."""
    differing: float
    """The share of float32 values that depend on who answered."""


def cell(found: list[Exactness], place: int) -> Cell:
    """Returns one of the quantities, a value a seed."""
    return Cell([each[place] for each in found])


def codes(kind: str, most: int, seed: int) -> Iterator[GradientCode]:
    """Yields the codes of one kind, for all numbers that have one."""
    key = Key.root(seed).fold_in("claim 13")
    for workers in range(1, most + 1):
        for stragglers in range(workers):
            if kind == "cyclic":
                yield cyclic(workers, stragglers, key)
            elif workers % (stragglers + 1) == 0:
                yield fractional_repetition(workers, stragglers)


def exactness(kind: str, most: int, seed: int) -> Exactness:
    """Decodes with every set of stragglers."""
    rng = Key.root(seed).fold_in("gradients").generator()
    sets, worst, differing, values = 0, 0.0, 0, 0
    for code in codes(kind, most, seed):
        g_PD = rng.standard_normal((code.workers, DIM)).astype(np.float32)
        coded_WD = code.encode_WP @ g_PD.astype(np.float64)
        sum_D = g_PD.astype(np.float64).sum(axis=0)
        first_D: Vector | None = None
        for missing in combinations(range(code.workers), code.stragglers):
            there = [w for w in range(code.workers) if w not in missing]
            found_D = np.zeros(DIM)
            for worker, weight in zip(there, code.decode(there), strict=True):
                if weight:
                    found_D += weight * coded_WD[worker]
            error = float(np.abs(found_D - sum_D).max() / np.abs(sum_D).max())
            worst, sets = max(worst, error), sets + 1
            rounded_D = found_D.astype(np.float32)
            first_D = rounded_D if first_D is None else first_D
            differing += int((rounded_D != first_D).sum())
            values += DIM
    return Exactness(sets, worst * 1e15, differing / values)


def refused(most: int, seed: int) -> float:
    """Returns the share of sets that a wrong code cannot decode: H is not centred."""
    rng = Key.root(seed).fold_in("wrong").generator()
    tried = failed = 0
    for workers in range(3, most + 1):
        for stragglers in range(1, workers - 1):
            wrong_WP = cyclic_matrix(rng.standard_normal((stragglers, workers)))
            assert wrong_WP is not None
            code = GradientCode("cyclic", stragglers, wrong_WP)
            for missing in combinations(range(workers), stragglers):
                tried += 1
                try:
                    code.decode([w for w in range(workers) if w not in missing])
                except NotDecodableError:
                    failed += 1
    return failed / tried


def formulas(workers: int) -> tuple[float, float]:
    """Returns the mean times without and with the best code."""
    k = best_split(workers, 1.0)
    return uncoded_seconds(workers, 1.0), mds_seconds(workers, k, 1.0)


def mds_times(workers: int, scale: Scale) -> list[Cell]:
    """Returns drawn times, uncoded and of the best k, with the formulas beside them."""
    uncoded, coded = formulas(workers)
    k, trials = best_split(workers, 1.0), scale.of(TRIALS, 2000)
    found = []
    for needed in (workers, k):
        means = [
            float(
                kth_fastest(
                    worker_seconds(
                        workers,
                        1 / needed,
                        1.0,
                        trials,
                        Key.root(seed).fold_in("MDS", workers, needed),
                    ),
                    needed,
                ).mean()
            )
            for seed in scale.seeds
        ]
        found.append(means)
    fast = [a / b for a, b in zip(*found, strict=True)]
    return [
        Cell(found[0], f"{uncoded:.4f}"),
        Cell(found[1], f"{coded:.4f} (k = {k})"),
        Cell(fast, f"{uncoded / coded:.2f}"),
        Cell([each / np.log(workers) for each in fast]),
    ]


def shuffled(seed: int) -> tuple[float, float, float, float]:
    """Returns the shares of rows that travel, and how many came out wrong."""
    rng = Key.root(seed).fold_in("bytes").generator()
    rows_QB = rng.integers(0, 256, (6000, 32)).astype(np.uint8)
    done = shuffle_coded(rows_QB, 6, 0.5, Key.root(seed).fold_in("shuffle"))
    wrong = sum(
        int((got != rows_QB[needed]).any(axis=1).sum())
        for needed, got in zip(done.needed, done.decoded, strict=True)
    )
    return (
        done.uncoded_nbytes / rows_QB.size,
        done.coded_nbytes / rows_QB.size,
        mean_rates(6, 0.5)[1],
        wrong,
    )


# ------------------------------------------------------------------------- processes


@contextmanager
def workers_of(stragglers: int, late: float) -> Iterator[SiloWorkers]:
    """Starts the processes and waits for their first step."""
    with tempfile.TemporaryDirectory() as folder:
        args = {"folder": folder, "sample": str(SAMPLE), "late": str(late)}
        blueprint = Blueprint(
            f"{APP}:workload", None, Client("a", args=args), WORKERS, stragglers, 0
        )
        code = gradient_code(WORKERS, stragglers)
        with SiloWorkers(code, blueprint) as silo:
            silo.expect(digests(ArraySamples(*digits("train")), WORKERS))
            for step in range(3):  # until all of them are there
                silo.gradient(*batch(0, step))
            yield silo


def batch(seed: int, step: int) -> tuple[Vector, np.ndarray, Key]:
    """Returns a model, a batch with as many rows of each shard, and a key."""
    key = Key.root(seed).fold_in("batch", step)
    rng = key.generator()
    w_D = rng.standard_normal(640).astype(np.float32)
    each = BATCH // WORKERS
    rows = [
        shard + WORKERS * rng.choice(200, each, replace=False)
        for shard in range(WORKERS)
    ]
    return w_D, np.concatenate(rows), key


def step_seconds(stragglers: int, late: float, steps: int) -> float:
    """Returns the mean time of a step."""
    with workers_of(stragglers, late) as silo:
        time.sleep(1.0)  # late workers finish what is over
        began = time.perf_counter()
        for step in range(steps):
            silo.gradient(*batch(1, step))
        return (time.perf_counter() - began) / steps


def processes(seconds: dict[int, list[float]]) -> list[Cell]:
    """Returns ms a step without and with a code, and their ratio."""
    fast = [a / b for a, b in zip(seconds[0], seconds[1], strict=True)]
    return [
        Cell([1000 * each for each in seconds[0]]),
        Cell([1000 * each for each in seconds[1]]),
        Cell(fast),
    ]


class Killed(NamedTuple):
    """What came of steps in which a worker was killed."""

    wrong: int
    values: int


def after_kills(seed: int, steps: int) -> Killed:
    """Kills one worker before each step, and compares with steps without kills."""
    with workers_of(1, 0.0) as silo:
        expected = [silo.gradient(*batch(seed, step))[1] for step in range(steps)]
        wrong = 0
        for step in range(steps):
            os.kill(silo.pids[step % WORKERS], signal.SIGKILL)
            found_D = silo.gradient(*batch(seed, step))[1]
            wrong += int((found_D != expected[step]).sum())
        return Killed(wrong, sum(map(len, expected)))
