"""A step of Adam for a model or a stack of them, in one pass over their values."""

from typing import NamedTuple

from fedcore.arrays import array_namespace
from fedcore.kernels.library import find_compiled
from fedcore.typing import Array


class AdamStep(NamedTuple):
    """The numbers of a step. Those of a stack's models are (N, 1), of one (1,)."""

    beta_1: float
    beta_2: float
    eps_1: Array
    """ε √(1 - β₂^t)."""
    scale_1: Array
    """√(1 - β₂^t) / (1 - β₁^t)."""
    lr: float
    decay: float = 0.0
    """λ, AdamW's weight decay."""

    def of(self, rows: slice) -> "AdamStep":
        """Returns the numbers of some models of a stack."""
        return self._replace(eps_1=self.eps_1[rows], scale_1=self.scale_1[rows])


def adam(w: Array, g: Array, v: Array, s: Array, by: AdamStep, room: Array) -> None:
    """Takes a step of Adam or AdamW.

    v = β₁v + (1 - β₁)g;  s = β₂s + (1 - β₂)g²;  w = w - lr (scale·v / (√s + ε) + λw),

    with the corrections of v and s in scale and ε.

    Args:
        w: models, (D,) or (N, D); changed in place, as ``v`` and ``s`` are.
        g: their gradients; what they hold afterwards is of no use.
        v: means of gradients.
        s: means of their squares.
        by: the numbers of this step.
        room: memory of the same shape to compute in.
    """
    compiled = find_compiled(w, g, v, s, by.eps_1, by.scale_1)
    if compiled is not None:
        numbers = by.beta_1, by.beta_2, by.lr, by.decay
        compiled.adam(w, v, s, g, by.eps_1, by.scale_1, *numbers)
        return
    xp = array_namespace(w)
    v *= by.beta_1
    v += xp.multiply(g, 1 - by.beta_1, out=room)
    g *= g
    g *= 1 - by.beta_2
    s *= by.beta_2
    s += g
    xp.sqrt(s, out=g)
    g += by.eps_1
    xp.divide(v, g, out=g)
    g *= by.scale_1
    if by.decay:
        g += xp.multiply(w, by.decay, out=room)
    g *= by.lr
    w -= g
