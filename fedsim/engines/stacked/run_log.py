"""The log of the clients' decisions and transfers."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import numpy as np

from fedcore.coordinator.actions import Persist
from fedcore.coordinator.events import Enrolled
from fedcore.typing import JSON
from fedrun.journal.tally import Tally
from fedrun.traffic import Way
from fedrun.traffic_file import LaneRow
from fedsim.world import World

_FLUSH_ROWS = 20_000
_FLUSH_SECONDS = 1.0  # seconds of real time
Transfers = defaultdict[str, list[tuple[int, int]]]  # by codec: the client, and bytes


class LaneSums:
    """The transfers of each client in one direction and one codec."""

    def __init__(self, count: int) -> None:
        self.transfers_N = np.zeros(count, np.int64)
        self.nbytes_N = np.zeros(count, np.int64)

    def add(self, transfers: list[tuple[int, int]]) -> None:
        """Adds transfers, each with the place of its client and its bytes."""
        flat = np.fromiter(chain.from_iterable(transfers), np.int64)
        np.add.at(self.transfers_N, flat[::2], 1)
        np.add.at(self.nbytes_N, flat[::2], flat[1::2])


class RunLog:
    """The records of the clients until they are written."""

    def __init__(
        self,
        world: World,
        names: Sequence[str],
        place: Callable[[int], tuple[int, int]],
    ) -> None:
        """Calls ``place`` for a client's part of the data: index and count."""
        self._world, self._names, self._place = world, names, place
        self.up, self.down = Transfers(list), Transfers(list)
        """The transfers since the last summation.

        A sum for each client would be in no cache when its client comes again.
        """
        self._sums: dict[tuple[Way, str], LaneSums] = {}  # by way and codec
        self._tally, self._flushed = Tally(), time.monotonic()
        self.add = self._tally.add
        """Adds a lease and its decision (:class:`TallyRow`)."""

    def enrol(self) -> None:
        """Records the enrolment of all clients."""
        state, actions = self._world.run.coordinator.state, []
        for who, name in enumerate(self._names):
            index, count = self._place(who)
            record = Enrolled(
                at=self._world.clock.now,
                cid=name,
                name=name,
                role="trainer",
                index=index,
                count=count,
            )
            state.note(record)
            actions.append(Persist(record=record))
        self._world.carry_out_now([*actions])
        self._world.commit()

    def flush_if_due(self) -> None:
        """Writes the new records from time to time."""
        if (
            len(self._tally) >= _FLUSH_ROWS
            or time.monotonic() - self._flushed > _FLUSH_SECONDS
        ):
            self.flush()

    def flush(self) -> None:
        """Writes the records since the last call."""
        self._flushed = time.monotonic()
        if len(self._tally):
            record = self._tally.take(self._world.clock.now)
            self._world.carry_out_now([Persist(record=record)])
        self._sum_up("up", self.up)
        self._sum_up("down", self.down)
        self._world.commit()

    def _sum_up(self, way: Way, transfers: Transfers) -> None:
        for codec, some in transfers.items():
            self._lane(way, codec).add(some)
        transfers.clear()

    def _lane(self, way: Way, codec: str) -> LaneSums:
        sums = self._sums.get((way, codec))
        if sums is None:
            sums = self._sums[way, codec] = LaneSums(len(self._names))
        return sums

    def close(self) -> None:
        """Writes all remaining records."""
        self.flush()
        self._world.moved = self._lanes()

    def _lanes(self) -> Iterator[LaneRow]:
        """Yields the sums of every client, in the order of the lanes."""
        lanes = [
            (*lane, sums.transfers_N.tolist(), sums.nbytes_N.tolist())
            for lane, sums in sorted(self._sums.items())
        ]
        totals_N = sum(sums.transfers_N for sums in self._sums.values())
        names = self._names
        for who in sorted(np.flatnonzero(totals_N).tolist(), key=names.__getitem__):
            for way, codec, transfers, nbytes in lanes:
                if transfers[who]:
                    yield names[who], way, codec, transfers[who], nbytes[who], 0

    def dump(self) -> JSON:
        """Returns the byte counts; all other records were flushed."""
        return [
            [*lane, sums.transfers_N.tolist(), sums.nbytes_N.tolist()]
            for lane, sums in self._sums.items()
        ]

    def load(self, saved: JSON) -> None:
        """Restores the byte counts that :meth:`dump` returned."""
        self._world.forget_traffic(set(self._names))
        for way, codec, transfers, nbytes in saved:
            sums = self._lane(way, codec)
            sums.transfers_N[:], sums.nbytes_N[:] = transfers, nbytes
