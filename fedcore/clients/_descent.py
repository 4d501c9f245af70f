"""The rule of SGD and Adam, which their variants fill in.

Python states it here, for NumPy and torch, and C in ``fedtorch/compiled/c/loop.h``.
"""

import math
from types import EllipsisType
from typing import NamedTuple

import numpy as np

from fedcore.arrays import BLOCK, LARGE, PART, array_namespace, is_numpy
from fedcore.kernels import AdamStep, adam, add_pull
from fedcore.typing import Array, Indices

TINY = 1e-6  # added to a norm before it divides, as torch.nn.utils.clip_grad_norm_ does
_TOGETHER = 2 * BLOCK  # values that a step goes over at a time; fewer are more calls
_FOLLOWED = 100_000  # steps that an effort is computed from, one by one


class Adaptive(NamedTuple):
    """Divides a step of SGD by the root of mean squares, as Adam does."""

    beta_2: float = 0.999
    eps: float = 1e-8
    decoupled: bool = False
    """Whether the weight decay is AdamW's, which is not divided."""
    squares_D: Array | None = None
    """s before the first step; None: zero, and s is forgotten after the last step."""
    taken_1: Array | None = None
    """The number of steps that s has seen, (1,), or (N, 1) for a stack."""

    def begin(self, w_D: Array) -> "Adaptive":
        """Returns the same with arrays of its own."""
        xp = array_namespace(w_D)
        if self.squares_D is None or self.taken_1 is None:
            return self._replace(
                squares_D=xp.zeros_like(w_D), taken_1=xp.zeros_like(w_D[..., :1])
            )
        return self._replace(
            squares_D=xp.asarray(self.squares_D, copy=True),
            taken_1=xp.asarray(self.taken_1, copy=True),
        )

    def select(self, rows_N: Indices) -> "Adaptive":
        """Returns the same of a stack's clients in another order."""
        return self._replace(
            squares_D=None if self.squares_D is None else self.squares_D[rows_N],
            taken_1=None if self.taken_1 is None else self.taken_1[rows_N],
        )


class Descent(NamedTuple):
    """The rule of SGD and Adam, which their variants fill in.

    The gradient of a batch is clipped first: each value to ``clip_value``, then the
    whole to the norm ``clip_norm``. Then

    g = clipped + drift + pull (w - anchor) + weight_decay w;  v = momentum v + g;
    w = w - lr v, and with Nesterov's momentum w = w - lr (g + momentum v).

    The anchor is the model before the first step. With a ``period`` it is set anew
    after so many steps, and the k-th step since, from 0, has the rate lr / (k + 1).
    With ``adaptive``

    v = momentum v + (1 - momentum) g;  s = beta_2 s + (1 - beta_2) g²;
    w = w - lr v̂ / (√ŝ + eps) with v̂ = v / (1 - momentum^t), ŝ = s / (1 - beta_2^t)

    at step t, from 1. If it is decoupled, the weight decay is not part of g, and w
    loses lr weight_decay w besides.
    """

    lr: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    pull: float = 0.0
    drift_D: Array | None = None
    """Added to each gradient: (D,), or (N, D) for a stack; None: nothing."""
    velocity_D: Array | None = None
    """v before the first step. None: zero, and v is forgotten after the last step."""
    nesterov: bool = False
    clip_norm: float = math.inf
    clip_value: float = math.inf
    period: int = 0
    """Steps after which the anchor is set anew; 0: never."""
    adaptive: Adaptive | None = None
    anchor_D: Array | None = None
    """Of the period; made by ``begin``."""
    clock: Indices | None = None
    """The number of steps taken, (1,); made by ``begin`` where there is a period."""

    def effort(self, steps: int) -> float:
        """Returns Σ_k of the weights with which the gradients of a task enter Δ / lr.

        They are ‖a_i‖₁ of Wang et al., "Tackling the Objective Inconsistency Problem in
        Heterogeneous Federated Optimization", NeurIPS 2020, arXiv 2007.07481, §4: of
        plain steps their number; with momentum ρ the sum of c ← ρc + 1; with a pull μ
        the end of a ← (1 - lr·μ)a + 1. A velocity that was kept is not counted. Adam
        divides by the size of gradients, so each of its steps counts as a plain one.

        The number of steps is a claim of a peer, so the cost must not grow with it:
        steps beyond 100,000 count like the last ones before.
        """
        if not (self.momentum or self.pull or self.period):
            return float(steps)
        moved, velocity, anchor = 0.0, 0.0, 0.0
        followed = min(steps, _FOLLOWED)
        lately, before = min(self.period or 1, followed), 0.0
        for step in range(followed):
            if step == followed - lately:
                before = moved
            number = step % self.period if self.period else 0
            if self.period and number == 0:
                anchor = moved
            change = 1 - self.lr * self.pull * (moved - anchor)
            if self.adaptive is not None:
                change = 1.0
            else:
                velocity = self.momentum * velocity + change
                change = (
                    change + self.momentum * velocity if self.nesterov else velocity
                )
            moved += change / (number + 1)
        if steps > followed:
            moved += (moved - before) * ((steps - followed) / lately)
        return moved

    def begin(self, w_D: Array) -> "Descent":
        """Returns the rule with arrays of its own, where it needs them."""
        xp, rule = array_namespace(w_D), self
        if self.momentum or self.adaptive is not None:
            v_D = self.velocity_D
            own_D = xp.zeros_like(w_D) if v_D is None else xp.asarray(v_D, copy=True)
            rule = rule._replace(velocity_D=own_D)
        if self.adaptive is not None:
            rule = rule._replace(adaptive=self.adaptive.begin(w_D))
        if self.period:
            clock = np.zeros(1, np.int64)
            rule = rule._replace(anchor_D=xp.zeros_like(w_D), clock=clock)
        return rule

    def select(self, rows_N: Indices) -> "Descent":
        """Returns the rule of a stack's clients in another order."""
        drift, velocity = self.drift_D, self.velocity_D
        return self._replace(
            drift_D=None if drift is None else drift[rows_N],
            velocity_D=None if velocity is None else velocity[rows_N],
            adaptive=None if self.adaptive is None else self.adaptive.select(rows_N),
            anchor_D=None if self.anchor_D is None else self.anchor_D[rows_N],
        )

    def step(
        self, w_D: Array, g_D: Array, start_D: Array, rows: EllipsisType | slice
    ) -> None:
        """Takes one step; of a stack, as many rows at a time as stay in the cache."""
        lr = self.lr
        if self.clock is not None and self.anchor_D is not None:
            anchor_D, number = self.anchor_D[rows], int(self.clock[0]) % self.period
            np.add(self.clock, 1, out=self.clock)
            if number == 0:
                anchor_D[...] = w_D
            start_D, lr = anchor_D, lr / (number + 1)
        by, xp = self._adam(rows, lr), array_namespace(w_D)
        if w_D.ndim == 1 and is_numpy(w_D) and len(w_D) > LARGE:
            self._in_parts(w_D, g_D, start_D, lr, by)
            return
        if w_D.ndim == 1 or not is_numpy(w_D):
            self._step(w_D, g_D, start_D, rows, lr, by, xp.empty_like(w_D))
            return
        count, together = len(w_D), max(1, _TOGETHER // w_D.shape[1])
        room_D = xp.empty_like(w_D[:together])
        for at in range(0, count, together):
            part = slice(at, min(count, at + together))
            self._step(
                w_D[part],
                g_D[part],
                start_D[part],
                part,
                lr,
                by and by.of(part),
                room_D[: part.stop - at],
            )

    def _in_parts(
        self, w_D: Array, g_D: Array, start_D: Array, lr: float, by: AdamStep | None
    ) -> None:
        """Takes one step of one large model, a part of it at a time."""
        rule, room_D = self, np.empty_like(w_D[:PART])
        if self.clip_norm != math.inf:  # that of all parts together
            self._clip(g_D)
            rule = self._replace(clip_norm=math.inf, clip_value=math.inf)
        for at in range(0, len(w_D), PART):
            part = slice(at, at + PART)
            w_P = w_D[part]
            rule._step(w_P, g_D[part], start_D[part], part, lr, by, room_D[: len(w_P)])

    def _step(
        self,
        w_D: Array,
        g_D: Array,
        start_D: Array,
        rows: EllipsisType | slice,
        lr: float,
        by: AdamStep | None,
        room_D: Array,
    ) -> None:
        """Takes one step of some rows; ``room_D`` is memory to compute in."""
        xp = array_namespace(w_D)
        self._clip(g_D)
        if self.drift_D is not None:
            g_D += self.drift_D[rows]
        decay = self.weight_decay
        if self.adaptive is not None and self.adaptive.decoupled:
            decay = 0.0
        if self.pull:
            add_pull(g_D, w_D, start_D, self.pull, decay, room_D)
        elif decay:
            g_D += xp.multiply(w_D, decay, out=room_D)
        if by is not None:
            assert self.adaptive is not None
            assert self.adaptive.squares_D is not None
            assert self.velocity_D is not None
            v_D, s_D = self.velocity_D[rows], self.adaptive.squares_D[rows]
            adam(w_D, g_D, v_D, s_D, by, room_D)
            return
        if self.velocity_D is not None:
            v_D = self.velocity_D[rows]
            v_D *= self.momentum
            v_D += g_D
            if self.nesterov:
                g_D += xp.multiply(v_D, self.momentum, out=room_D)
            else:
                g_D[...] = v_D
        g_D *= lr
        w_D -= g_D

    def _clip(self, g_D: Array) -> None:
        xp = array_namespace(g_D)
        if self.clip_value != math.inf:
            g_D[...] = xp.clip(g_D, -self.clip_value, self.clip_value)
        if self.clip_norm != math.inf:
            norm = xp.sqrt(xp.sum(g_D * g_D, axis=-1, keepdims=True))
            g_D *= xp.clip(self.clip_norm / (norm + TINY), 0.0, 1.0)

    def _adam(self, rows: EllipsisType | slice, lr: float) -> AdamStep | None:
        """Counts a step of Adam, and returns its numbers; None: it is one of SGD."""
        adaptive = self.adaptive
        if adaptive is None:
            return None
        assert adaptive.taken_1 is not None
        xp, taken_1 = array_namespace(adaptive.taken_1), adaptive.taken_1[rows]
        taken_1 += 1
        t_1 = xp.astype(taken_1, xp.float64)
        root_1 = xp.sqrt(1 - adaptive.beta_2**t_1)  # √ŝ = √s / root
        return AdamStep(
            self.momentum,
            adaptive.beta_2,
            xp.astype(adaptive.eps * root_1, taken_1.dtype),
            xp.astype(root_1 / (1 - self.momentum**t_1), taken_1.dtype),
            lr,
            self.weight_decay if adaptive.decoupled else 0.0,
        )
