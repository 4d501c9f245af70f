"""Local steps, one gradient after the other: the loop of every rule."""

from collections.abc import Callable, Sequence
from operator import sub
from types import EllipsisType

import numpy as np

from fedcore.arrays import array_namespace, like
from fedcore.clients.base import Rule, Taken, TakeSteps
from fedcore.typing import Array, Counts

# (w_D, step) -> (loss, g_D): the mean loss over the step's samples, and its gradient,
# in an array that the caller may write into until the next call. Of a stack, w_ND are
# the rows that still train. Buffers have no gradient: in their places stand the values
# that they have after the step.
Gradient = Callable[[Array, int], tuple[Array, Array]]


def by_gradients(
    gradient: Gradient,
    steps: int | Counts,
    room_D: Array | None = None,
    buffers: slice | None = None,
    frozen: Sequence[slice] = (),
    difference: Callable[[Array, Array], Array] = sub,
) -> TakeSteps:
    """Returns a function that takes steps, each with a gradient that it asks for.

    Args:
        gradient: of the models that it is shown.
        steps: how many; of a stack (N,), none above the one before.
        room_D: memory for the trained models, which is otherwise made. Of one client it
            is used if it has the size of its model.
        buffers: which values no rule moves, such as batch statistics.
        frozen: the parts of the models that no step moves.
        difference: returns start - end, when no gradient is needed any more.
    """

    def take(start_D: Array, rule: Rule) -> Taken:
        xp = array_namespace(start_D)
        end_D = room_D
        if end_D is None or end_D.shape != start_D.shape:
            end_D = xp.empty_like(start_D)
        end_D[...] = start_D
        losses = xp.zeros(start_D.shape[:-1], dtype=xp.float64, device=start_D.device)
        rule = rule.begin(end_D)
        for step, rows in enumerate(_training_rows(steps)):
            w_D = end_D[rows]
            loss, g_D = gradient(w_D, step)
            losses[rows] += loss
            if buffers is not None:
                after_B = xp.asarray(g_D[..., buffers], copy=True)
                g_D[..., buffers] = 0
            for part in frozen:
                g_D[..., part] = 0
            rule.step(w_D, g_D, start_D[rows], rows)
            if buffers is not None:
                w_D[..., buffers] = after_B
            for part in frozen:
                w_D[..., part] = start_D[rows][..., part]
        delta_D = difference(start_D, end_D)
        return Taken(delta_D, _mean_loss(losses, steps), rule)

    return take


def _training_rows(steps: int | Counts) -> list[EllipsisType | slice]:
    """Returns, for each step, the rows of the stack that still train."""
    if isinstance(steps, int):
        return [...] * steps
    most = int(steps[0]) if len(steps) else 0
    return [slice(int(np.count_nonzero(steps > step))) for step in range(most)]


def _mean_loss(losses: Array, steps: int | Counts) -> Array:
    if isinstance(steps, int):
        return losses / steps if steps else losses + np.nan
    return losses / like(steps, losses)
