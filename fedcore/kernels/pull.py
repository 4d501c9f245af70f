"""The gradient of a pull to another model, in one pass over its values."""

from fedcore.arrays import array_namespace
from fedcore.kernels.library import compiled_for
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
    # A module that was compiled by an earlier version may lack this loop.
    loop = getattr(compiled_for(g, w, anchor), "add_pull", None)
    if loop is not None and g.dtype == w.dtype == anchor.dtype == "f4":
        loop(g, w, anchor, pull, decay)
        return
    xp = array_namespace(g)
    xp.subtract(w, anchor, out=room)
    room *= pull
    if decay:
        room += decay * w
    g += room
