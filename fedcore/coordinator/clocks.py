"""How far ahead of the slowest one each client is: a mirror clock.

Hsieh et al., "Gaia: Geo-Distributed Machine Learning Approaching LAN Speeds", NSDI
2017: each site announces its clock, and a site that is ``ahead`` of the slowest one
waits. With all sites at one server that is the bound of Ho et al., "More Effective
Distributed ML via a Stale Synchronous Parallel Parameter Server", NIPS 2013.

A client's clock counts the tasks that it has finished. Who comes, for the first time or
again, begins at least at the slowest clock. Who is lost, or neither trains nor asks for
a task once its lease is over, holds up nobody until it asks again. The cost of a call
does not depend on the number of clients.
"""

from collections import Counter

from fedcore.typing import JSON


class Clocks:
    """The clocks of the clients, and who waits for slower ones."""

    def __init__(self, ahead: int) -> None:
        """Nobody is here yet.

        Args:
            ahead: a client may begin a task while its clock is at most this far from
                the slowest one; 0: all go in step.
        """
        self._ahead = ahead
        self._clocks: dict[str, int] = {}  # of everyone who was ever here
        self._here: dict[str, None] = {}  # those who hold up others
        self._at: Counter[int] = Counter()  # how many of them are at each clock
        self.slowest = 0
        self.free: dict[str, None] = {}
        """The clients that wait and may begin a task, in the order of arrival."""
        self._held: dict[int, dict[str, None]] = {}  # those that may not, by clock

    def join(self, cid: str) -> None:
        """A client is here; its clock is not below the slowest one."""
        if cid in self._here:
            return
        if not self._here:
            self.slowest = max(self.slowest, self._clocks.get(cid, 0))
        clock = self._clocks[cid] = max(self.slowest, self._clocks.get(cid, 0))
        self._here[cid] = None
        self._at[clock] += 1
        self._advance()

    def leave(self, cid: str) -> None:
        """A client no longer holds up others."""
        if cid in self._here:
            del self._here[cid]
            self._take_from(self._clocks[cid])
            self._advance()

    def tick(self, cid: str) -> None:
        """A client has finished a task."""
        if cid not in self._here:
            self._clocks[cid] = max(self.slowest, self._clocks.get(cid, 0)) + 1
            return
        clock, waits = self._clocks[cid], self.stop(cid)
        self._clocks[cid] = clock + 1
        self._at[clock + 1] += 1
        self._take_from(clock)
        self._advance()
        if waits:
            self.wait(cid)

    def wait(self, cid: str) -> None:
        """A client that is here asks for a task."""
        clock = self._clocks[cid]
        if clock - self.slowest <= self._ahead:
            self.free[cid] = None
        else:
            self._held.setdefault(clock, {})[cid] = None

    def stop(self, cid: str) -> bool:
        """A client no longer asks for one; returns whether it did."""
        if cid in self.free:
            del self.free[cid]
            return True
        clock = self._clocks.get(cid, 0)
        held = self._held.get(clock, {})
        if cid not in held:
            return False
        del held[cid]
        if not held:
            del self._held[clock]
        return True

    def waiting(self) -> set[str]:
        """Everyone who asks for a task, to check the books with."""
        return {*self.free, *(cid for held in self._held.values() for cid in held)}

    def dump(self) -> JSON:
        """The clocks, and who is here, for :meth:`load`."""
        return {
            "clocks": self._clocks,
            "here": [*self._here],
            "slowest": self.slowest,
        }

    def load(self, saved: JSON) -> None:
        """Takes over what :meth:`dump` returned; nobody waits yet."""
        self._clocks = dict(saved["clocks"])
        self._here = dict.fromkeys(saved["here"])
        self._at = Counter(self._clocks[cid] for cid in self._here)
        self.slowest = saved["slowest"]
        self.free, self._held = {}, {}

    def _take_from(self, clock: int) -> None:
        self._at[clock] -= 1
        if not self._at[clock]:
            del self._at[clock]

    def _advance(self) -> None:
        """Moves the slowest clock up to where somebody is, and lets clients go on."""
        if not self._at:
            return
        while self.slowest not in self._at:
            self.slowest += 1
            self.free.update(self._held.pop(self.slowest + self._ahead, {}))
