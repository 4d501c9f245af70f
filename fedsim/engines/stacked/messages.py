"""The message of a stacked client, from its task to its verdict."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedcore.coordinator import Rounds
from fedcore.coordinator.actions import Action
from fedcore.participant import work_after
from fedcore.protocol import Verdict
from fedcore.trees import Arrays
from fedcore.typing import JSON, Seconds
from fedsim.engines.stacked.pending_updates import (
    Entering,
    Given,
    PendingUpdates,
    unfinished,
)
from fedsim.engines.stacked.run_log import RunLog
from fedsim.engines.stacked.stack import Stack
from fedsim.engines.stacked.work import Work

# The lists from which a resumed run continues.
_BY_CLIENT = ("seq", "is_pending", "arrivals")
_ACCEPTED = Verdict.ACCEPTED  # an enum is slow to ask


class Messages:
    """One message for each client: made, delivered, decided on, acknowledged."""

    def __init__(
        self,
        names: Sequence[str],
        samples: Sequence[int],
        rounds: Rounds,
        work: Work,
        log: RunLog,
    ) -> None:
        """Begins without any message.

        Args:
            names: the names of the clients.
            samples: the number of samples of each client.
            rounds: decides on updates.
            work: computes them.
            log: records tasks and decisions.
        """
        self._names, self._samples = names, samples
        self._rounds, self._work, self._log, self._sent = rounds, work, log, log.up
        self._updates = PendingUpdates(rounds, log, names)
        count = len(names)
        self.seq = [0] * count
        """The number of each client's last message."""
        self.is_pending = [False] * count
        """Whether the client waits for the verdict on its message."""
        self.arrivals = [0] * count
        """The number of times that the pending message has arrived."""
        self.tasks: dict[int, Given] = {}
        """The tasks that clients train, or have trained without knowing the verdict."""
        self.shares: dict[int, float] = {}
        """The share of the work that a client does, if it is not all of it."""
        self._refused: dict[int, Verdict] = {}  # until sent; others are accepted

    def make(self, who: int) -> None:
        """Makes the message of a client's task."""
        self.seq[who] += 1
        self.is_pending[who] = True

    def abandon(self, who: int) -> Given | None:
        """Drops a client's task, and records that in the log."""
        self._work.drop(who)
        given = self.tasks.pop(who, None)
        if given is not None:
            self.note_unfinished(who, given)
        return given

    def note_unfinished(self, who: int, given: Given) -> None:
        """Writes a task that was dropped into the log."""
        self._log.add(unfinished(who, self.seq[who], given))

    def take_in(self, who: int, at: Seconds, stack: Stack, row: int) -> bool:
        """Takes a client's message that arrives, for the first time or again.

        Returns:
            Whether the server must decide now on all updates that have arrived.
        """
        self._sent[stack.codec[row]].append((who, stack.nbytes[row]))
        self.arrivals[who] += 1
        if self.arrivals[who] > 1:
            return False
        name, seq, samples = self._names[who], self.seq[who], self._samples[who]
        given = self.tasks[who]
        base = given.version
        self._updates.put(
            Entering(who, name, at, seq, base, samples, given, stack, row)
        )
        return self._rounds.deliver(name, base)

    @property
    def who_trained(self) -> set[int]:
        """The clients that have read their samples for one of their tasks."""
        return {*self.tasks, *self._updates.clients()}

    @property
    def wait(self) -> bool:
        """Whether updates have arrived on which the server has not decided."""
        return bool(self._updates)

    def decide(self) -> list[Action]:
        """Lets the server decide on the updates that have arrived."""
        refused, actions = self._updates.decide()
        self._refused.update(refused)
        return actions

    def hear(self, who: int) -> Verdict:
        """Tells a client the verdict on its message."""
        verdict = _ACCEPTED
        if self._refused or self.shares:
            verdict = self._refused.pop(who, verdict)
            work, once = self.shares.pop(who, 1.0), self.arrivals[who] == 1
            left = work_after(verdict, work, sent_once=once)
            if left < 1.0:
                self.shares[who] = left
        del self.tasks[who]
        self._work.settle(who, verdict)
        self.is_pending[who], self.arrivals[who] = False, 0
        return verdict

    def close(self) -> None:
        """Writes the tasks that were given and not decided on into the log."""
        self._updates.close()
        for who, given in self.tasks.items():
            if not self.arrivals[who]:
                self.note_unfinished(who, given)

    def dump(self, arrays: Arrays) -> JSON:
        """Returns all messages; vectors go to ``arrays``."""
        return {
            "clients": {name: getattr(self, name) for name in _BY_CLIENT},
            "tasks": list(self.tasks.items()),
            "shares": list(self.shares.items()),
            "refused": [[who, v.value] for who, v in self._refused.items()],
            "updates": self._updates.dump(arrays),
        }

    def load(self, saved: JSON, arrays: Mapping[str, Any]) -> None:
        """Restores the messages that :meth:`dump` returned."""
        for name in _BY_CLIENT:
            getattr(self, name)[:] = saved["clients"][name]
        self.tasks.update((who, Given.of(given)) for who, given in saved["tasks"])
        self.shares.update(saved["shares"])
        self._refused = {who: Verdict(value) for who, value in saved["refused"]}
        self._updates.load(saved["updates"], arrays)
