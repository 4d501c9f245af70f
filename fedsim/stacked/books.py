"""What a crowd leaves behind: what was decided, and which bytes travelled."""

import time
from collections.abc import Sequence

from fedcore.coordinator.actions import Persist
from fedcore.coordinator.records import Admitted
from fedcore.typing import JSON
from fedrun.journal.tally import Tally
from fedrun.traffic import Lane, Way
from fedsim.world import World

_FLUSH_ROWS = 20_000
_FLUSH_SECONDS = 1.0  # of real time


class Books:
    """The story of a crowd, until it is written."""

    def __init__(self, world: World, names: Sequence[str]) -> None:
        self._world, self._names = world, names
        # By way and codec: transfers and bytes of each client.
        self._moved: dict[tuple[Way, str], tuple[list[int], list[int]]] = {}
        self._tally, self._flushed = Tally(), time.monotonic()
        self.add = self._tally.add
        """Takes note of a lease and its decision (``fedrun.journal.tally``)."""

    def admit(self) -> None:
        """All clients are enrolled."""
        state, actions = self._world.run.coordinator.state, []
        for index, name in enumerate(self._names):
            record = Admitted(
                at=self._world.clock.now,
                cid=name,
                name=name,
                role="trainer",
                index=index,
                count=len(self._names),
            )
            state.note(record)
            actions.append(Persist(record=record))
        self._world.carry_out_now([*actions])
        self._world.commit()

    def count(self, who: int, way: Way, codec: str, nbytes: int) -> None:
        """So many bytes have travelled."""
        moved = self._moved.get((way, codec))
        if moved is None:
            count = len(self._names)
            moved = self._moved[way, codec] = [0] * count, [0] * count
        moved[0][who] += 1
        moved[1][who] += nbytes

    def count_all(self, some: Sequence[int], way: Way, codec: str, nbytes: int) -> None:
        """So many bytes of each of them have travelled."""
        for who in some:
            self.count(who, way, codec, nbytes)

    def flush_if_due(self) -> None:
        """Writes now and then what has happened."""
        if (
            len(self._tally) >= _FLUSH_ROWS
            or time.monotonic() - self._flushed > _FLUSH_SECONDS
        ):
            self.flush()

    def flush(self) -> None:
        """Writes what has happened since this was done last."""
        self._flushed = time.monotonic()
        if len(self._tally):
            record = self._tally.take(self._world.clock.now)
            self._world.carry_out_now([Persist(record=record)])
        self._world.commit()

    def close(self) -> None:
        """Writes all that is left."""
        for (way, codec), (transfers, nbytes) in self._moved.items():
            for who, times in enumerate(transfers):
                if times:
                    lane = Lane(self._names[who], way, codec)
                    self._world.count(lane, nbytes[who], times)
        self._moved.clear()
        self.flush()

    def dump(self) -> JSON:
        """The bytes that were counted; all else was flushed."""
        return [[*lane, *moved] for lane, moved in self._moved.items()]

    def load(self, saved: JSON) -> None:
        """What :meth:`dump` gave."""
        self._world.forget_traffic(set(self._names))
        self._moved = {
            (way, codec): (transfers, nbytes) for way, codec, transfers, nbytes in saved
        }
