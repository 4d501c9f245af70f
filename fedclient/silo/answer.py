"""The computation of one worker in one step, and the sum of the answers."""

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from fedcore.coding import GradientCode
from fedcore.distributions import Floats
from fedcore.model import FlatModel
from fedcore.rng import Key
from fedcore.samples import Samples
from fedcore.typing import Indices, Vector

_LOOKED_AT = 64  # rows of a shard by which two readings of the shard are compared


class Job(NamedTuple):
    """A request for the gradient of one step."""

    step: int
    w_D: Vector
    """The model, followed by the client's own values."""
    rows_B: Indices
    """The batch, as rows of the client's data."""
    key: Key
    """The key for the model's random draws in this step."""


class Answer(NamedTuple):
    """One worker's part of a step, in float64."""

    step: int
    loss: float
    sum_D: Floats


def shard_of(rows: Indices, shards: int) -> Indices:
    """Returns the shard of each row; shards take turns, as when cards are dealt."""
    return rows % shards


def answer(
    model: FlatModel, samples: Samples, code: GradientCode, worker: int, job: Job
) -> Answer:
    """Computes Σ_j B[i, j] (B_j / B) g_j over the shards j that worker i holds.

    g_j is the mean gradient over the B_j samples of the batch that are in shard j, so
    the decoded sum is the mean over the whole batch. The model's random draws depend
    only on the step and the shard, so all workers that hold a shard draw the same.

    Args:
        model: computes the gradients.
        samples: the client's samples, of which at least the worker's shards can be
            read.
        code: the silo's code.
        worker: i.
        job: the step.
    """
    sum_D, loss = np.zeros(model.spec.whole.dim), 0.0
    shard_B = shard_of(job.rows_B, code.workers)
    for part in code.parts(worker):
        rows = job.rows_B[shard_B == part]
        if not len(rows):
            continue
        model.seed(job.key.fold_in("shard", part))
        part_loss, g_D = model.gradient(job.w_D, *samples.batch(rows))
        weight = code.encode_WP[worker, part] * len(rows) / len(job.rows_B)
        sum_D += weight * g_D.astype(np.float64)
        loss += weight * part_loss
    return Answer(job.step, loss, sum_D)


def decode_answer(
    code: GradientCode, answers: Mapping[int, Answer]
) -> tuple[float, Vector]:
    """Returns the mean loss over the batch and its gradient.

    Args:
        code: the silo's code.
        answers: the answers by the worker's number.

    Raises:
        NotDecodableError: there are too few answers.
    """
    workers = sorted(answers)
    total_D, loss = 0.0, 0.0
    for worker, weight in zip(workers, code.decode(workers), strict=True):
        if weight:
            total_D = total_D + weight * answers[worker].sum_D
            loss += float(weight) * answers[worker].loss
    return float(loss), np.asarray(total_D, np.float32)


def digests(
    samples: Samples, shards: int, of: tuple[int, ...] | None = None
) -> dict[int, str]:
    """Returns a fingerprint of each shard: a hash of its first rows.

    Args:
        samples: the client's samples.
        shards: the number of shards.
        of: the wanted shards; None for all.
    """
    found = {}
    for shard in range(shards) if of is None else of:
        rows = np.arange(shard, len(samples), shards)[:_LOOKED_AT]
        hashed = hashlib.blake2b(str(len(samples)).encode(), digest_size=16)
        if len(rows):
            for part in _arrays(samples.batch(rows)):
                hashed.update(np.asarray(part, order="C").tobytes())
        found[shard] = hashed.hexdigest()
    return found


def _arrays(data: object) -> list[np.ndarray]:
    """Returns the arrays of a batch in their order."""
    if isinstance(data, Mapping):
        return [array for name in sorted(data) for array in _arrays(data[name])]
    if isinstance(data, tuple | list):
        return [array for part in data for array in _arrays(part)]
    return [np.asarray(data)]
