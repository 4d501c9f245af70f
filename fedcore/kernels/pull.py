"""The gradient of a pull to another model, in one pass over its values."""

from fedcore.arrays import array_namespace
from fedcore.kernels.library import find_compiled
from fedcore.typing import Array


def add_pull(
    g: Array, w: Array, anchor: Array, pull: float, decay: float, room: Array
) -> None:
    """Adds ``pull (w - anchor) + decay w`` to gradients; each sum is rounded.

    Args:
        g: gradients, (D,) or (N, D); changed in place.
        w: the models.
        anchor: the models that they are pulled to.
        pull: by how much.
        decay: by how much to zero as well.
        room: memory of the same shape to compute in.
    """
    compiled = find_compiled(g, w, anchor)
    if compiled is not None:
        compiled.add_pull(g, w, anchor, pull, decay)
        return
    xp = array_namespace(g)
    xp.subtract(w, anchor, out=room)
    room *= pull
    if decay:
        room += decay * w
    g += room
