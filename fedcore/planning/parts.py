"""The parts of a task: layers that arrive, are computed and leave one by one.

A client receives, computes and sends at the same time, one part of each at a time. A
computation waits for the parts that it needs and for the computation before; a part of
the update waits for its computation, and leaves while others still go on. Li et al.
predict this overlap, and ask what the order of transmission is worth. The order that
sends first what is needed first is that of Hashemi, Jyothi, Campbell, "TicTac:
Accelerating Distributed Deep Learning with Communication Scheduling", MLSys 2019.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple, Self

from fedcore.planning.trace import OWN, Row
from fedcore.typing import Seconds

Order = Literal["fifo", "priority", "whole"]


class Parts(NamedTuple):
    """The parts of one task, in the order in which they are worked on."""

    down: Sequence[float]
    """Bytes of each part that is received."""
    needs: Sequence[int]
    """How many of them each computation waits for."""
    own: Sequence[Seconds]
    """The computations."""
    after: Sequence[int]
    """How many of these each part of the update waits for."""
    up: Sequence[float]
    """Bytes of each part that is sent."""

    @classmethod
    def whole(cls, down: float, own: Seconds, up: float) -> Self:
        """A task that is received, computed and sent as a whole."""
        return cls([down], [1], [own], [1], [up])

    def of_bytes(self, down: float, up: float) -> Self:
        """Returns the same parts with so many bytes in all, each as large a share."""
        received, sent = sum(self.down) or 1, sum(self.up) or 1
        return self._replace(
            down=[down * part / received for part in self.down],
            up=[up * part / sent for part in self.up],
        )

    def seconds(self, down: float, up: float) -> Seconds:
        """Returns the time of a client alone, with so many bytes a second each way."""
        arrived = [part / down for part in accumulate(self.down, initial=0.0)]
        ended, sent = [0.0], 0.0
        for needed, seconds in zip(self.needs, self.own, strict=True):
            ended.append(max(ended[-1], arrived[needed]) + seconds)
        for before, part in zip(self.after, self.up, strict=True):
            sent = max(sent, ended[before]) + part / up
        return max(sent, ended[-1])


def parts_of(rows: Sequence[Row], order: Order) -> Parts:
    """Returns the parts of a task from its rows.

    A computation that depends on the download waits for the part of its own number, or
    for all if there is none; a part of the update waits for the last computation of its
    number, or for all. The last computation has the whole model.

    Args:
        rows: of one task, with all that the client does itself in order.
        order: of the parts of the model: ``priority``, as they are needed; ``fifo``, as
            those of the update reach the server. Those of the update leave as they
            come, since the task ends with the last one.
    """
    own = [row for row in rows if row.phase in OWN and row.phase != "settle"]
    model = [row for row in rows if row.phase == "download"]
    update = [row for row in rows if row.phase == "upload"]
    update.sort(key=lambda row: _last(row, own))
    if order == "fifo":
        model.sort(key=lambda row: _last(row, update))
    else:
        model.sort(key=lambda row: _first(row, own))
    needs = [
        _last(row, model) if row.depends_on == "download" else 0 for row in own[:-1]
    ]
    return Parts(
        [row.bytes for row in model],
        _rising([*needs, len(model)]),
        [row.duration for row in own],
        _rising(_last(row, own) for row in update),
        [row.bytes for row in update],
    )


def _first(row: Row, others: Sequence[Row]) -> int:
    """Returns the place of the first row of the same part, or the end."""
    same = (place for place, other in enumerate(others) if other.part == row.part)
    return next(same, len(others))


def _last(row: Row, others: Sequence[Row]) -> int:
    """Returns how many rows there are up to the last of the same part, or all."""
    same = [place for place, other in enumerate(others, 1) if other.part == row.part]
    return max(same, default=len(others))


def _rising(counts: Iterable[int]) -> list[int]:
    return [*accumulate(counts, max)]
