"""The memory of each client's last update: its message, as it arrived.

With top-k of 1 % ten thousand clients with a million values each take 400 MB instead of
40 GB.

Their sum is kept as well, in float32. Each addition rounds it, so it is summed anew
from the messages when the roundings could exceed 2^-11 of all that it holds (or, of
more than 4,096 clients, so much more that each update costs one addition more). So a
huge update that came and went leaves nothing behind.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fedcore import payloads
from fedcore.payloads import Layout, Payload
from fedcore.typing import Vector

ROUNDINGS = 2**13  # of 2^-24 each, until the sum is renewed

Packed = npt.NDArray[np.uint8]


class LastUpdates(NamedTuple):
    """The last updates of all clients."""

    total_D: Vector
    """Σ share·update."""
    last: dict[str, Packed]
    """The updates by client, packed as they arrived."""
    shares: dict[str, npt.NDArray[np.float64]]
    """By client: the share, and a bound on the values of share·update, (2,)."""
    held: float = 0.0
    """The sum of these bounds."""
    rounded: float = 0.0
    """The sum of ``held`` over all additions since the total was summed anew."""

    @classmethod
    def none(cls, dim: int) -> "LastUpdates":
        """Returns what is remembered before the first update."""
        return cls(np.zeros(dim, np.float32), {}, {})


def pack(payload: Payload) -> Packed:
    """Returns a message as an array of its bytes, which a state may hold."""
    return np.frombuffer(payloads.pack(payload), np.uint8)


class Messages(NamedTuple):
    """Reads the messages of a model."""

    layout: Layout | None  # sizes of the model's tensors; None: one tensor

    def add(self, message: Packed, out_D: Vector, scale: float) -> None:
        """Adds a packed message, times ``scale``, to a vector."""
        payloads.add(self._read(message, len(out_D)), out_D, scale)

    def replace(
        self, known: LastUpdates, client: str, message: Packed, share: float
    ) -> LastUpdates:
        """Returns what is remembered once this is the last update of its client.

        Args:
            known: what was remembered before; its arrays are written into.
            client: its id.
            message: its update, packed.
            share: what the update is multiplied by in the sum.
        """
        payload = self._read(message, len(known.total_D))
        size = abs(share) * payloads.magnitude(payload)
        payloads.add(payload, known.total_D, share)
        held, before = known.held + size, known.last.get(client)
        rounded = known.rounded + held
        if before is not None:
            share_before, size_before = known.shares[client].tolist()
            self.add(before, known.total_D, -share_before)
            rounded += held
            held -= size_before
        known.last[client] = message
        known.shares[client] = np.array([share, size])
        known = known._replace(held=held, rounded=rounded)
        bearable = max(ROUNDINGS, 2 * len(known.last))
        return self._sum_anew(known) if rounded > bearable * held else known

    def _sum_anew(self, known: LastUpdates) -> LastUpdates:
        """Returns the same with a total that is summed anew."""
        known.total_D.fill(0)
        held = rounded = 0.0
        for client, message in known.last.items():
            share, size = known.shares[client].tolist()
            self.add(message, known.total_D, share)
            held += size
            rounded += held
        return known._replace(held=held, rounded=rounded)

    def _read(self, message: Packed, dim: int) -> Payload:
        layout = (dim,) if self.layout is None else self.layout
        return payloads.unpack(message.data, layout)
