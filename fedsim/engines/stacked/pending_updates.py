"""The updates that have arrived, until the server decides on them together."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fedcore.coordinator import Rounds
from fedcore.coordinator.actions import Action
from fedcore.measured import Measured, read_measured
from fedcore.payloads import Payload
from fedcore.protocol import Verdict
from fedcore.trees import Arrays
from fedcore.typing import JSON, Counts, Row, Seconds
from fedrun.journal.tally import NO_VERDICT, VERDICT_CODES, TallyRow
from fedsim.engines.stacked.run_log import RunLog
from fedsim.engines.stacked.stack import Stack


class Given(NamedTuple):
    """A task, and the download of its model."""

    at: Seconds
    version: int
    patch: int  # the patch's kind
    down: int  # bytes of the patch
    steps: int
    held: int  # the version that the client had before
    measured: Measured | None = None  # of the training

    @classmethod
    def of(cls, saved: JSON) -> "Given":
        """Restores a task that was saved as JSON."""
        given = cls(*saved)
        return given._replace(measured=read_measured(given.measured))


class Entering(NamedTuple):
    """An update that has arrived; the server sees it as an ``Update``."""

    who: int
    client: str  # the client's id
    at: Seconds
    seq: int
    base: int
    samples: int
    given: Given
    stack: Stack
    row: int

    @property
    def payload(self) -> Payload | None:
        """The message; None if the row of the stack travels uncompressed."""
        return self.stack.messages[self.row]

    @property
    def counts(self) -> Counts | None:
        """The number of used samples of each class; None if unknown."""
        return self.stack.counts[self.row]

    @property
    def steps(self) -> int:
        """The number of local steps of the task, all of which were taken."""
        return self.given.steps

    @property
    def loss(self) -> float:
        """The mean training loss; NaN if unknown."""
        return self.stack.loss[self.row]

    @property
    def measured(self) -> Measured | None:
        """The measurements of the training; None if unknown."""
        return self.given.measured

    @property
    def flaw(self) -> None:
        """None, because updates of stacks are finite and not too large."""


class PendingUpdates:
    """The updates that have arrived, in this order."""

    def __init__(self, rounds: Rounds, log: RunLog, names: Sequence[str]) -> None:
        """Sets ``names``, the names of all clients."""
        self._rounds, self._log, self._names = rounds, log, names
        self._entering: list[Entering] = []
        self.put = self._entering.append
        """Adds an update (:class:`Entering`) that has arrived, after the others."""

    def __len__(self) -> int:
        """Returns the number of updates."""
        return len(self._entering)

    def decide(self) -> tuple[list[tuple[int, Verdict]], list[Action]]:
        """Returns the clients with other verdicts than accepted, and the actions."""
        entering = [*self._entering]
        self._entering.clear()
        at = entering[-1].at
        decisions = self._rounds.enter(entering, at, _rows(entering))
        refused, add = list[tuple[int, Verdict]](), self._log.add
        accepted = Verdict.ACCEPTED
        for update, decision in zip(entering, decisions, strict=True):
            who, _, at, seq, base, samples, given, stack, row = update
            verdict, weight, staleness, _ = decision
            if verdict is not accepted:
                refused.append((who, verdict))
            told = (  # the columns of TallyRow
                who,
                given.at,
                at,
                seq,
                base,
                staleness,
                given.patch,
                given.down,
                VERDICT_CODES[verdict],
                weight,
                samples,
                given.steps,
                stack.update_norm[row],
                stack.memory_norm[row],
                stack.loss[row],
                stack.nbytes[row],
            )
            add(told, stack.counts[row])
        return refused, self._rounds.advance()

    def clients(self) -> Iterator[int]:
        """Yields the clients of these updates."""
        return (update.who for update in self._entering)

    def close(self) -> None:
        """Ends the decisions; no update may come after this."""
        for update in self._entering:
            self._log.add(unfinished(update.who, update.seq, update.given))

    def dump(self, arrays: Arrays) -> JSON:
        """Returns all updates; vectors go to ``arrays``."""
        return [
            [
                each.who,
                each.at,
                each.seq,
                each.given,
                each.samples,
                each.stack.dump(each.row, f"entering.{place}", arrays),
            ]
            for place, each in enumerate(self._entering)
        ]

    def load(self, saved: JSON, arrays: Mapping[str, Any]) -> None:
        """Restores the updates that :meth:`dump` returned."""
        layout = self._rounds.algorithm.spec.sizes
        for place, (who, at, seq, told, samples, row) in enumerate(saved):
            given, name = Given.of(told), self._names[who]
            stack = Stack.load(row, f"entering.{place}", arrays, layout)
            base = given.version
            self.put(Entering(who, name, at, seq, base, samples, given, stack, 0))


def unfinished(who: int, seq: int, given: Given) -> TallyRow:
    """Returns the row of the run log for a task that was dropped."""
    return TallyRow(
        client=who,
        leased=given.at,
        at=math.nan,
        seq=seq,
        base=given.version,
        staleness=0,
        patch=given.patch,
        down=given.down,
        verdict=NO_VERDICT,
        weight=0.0,
        samples=0,
        steps=given.steps,
        update_norm=0.0,
        memory_norm=0.0,
        loss=math.nan,
        up=0,
    )


def _rows(entering: list[Entering]) -> list[Row]:
    """Returns the rows of updates that were not compressed."""
    if entering[0].payload is not None:
        return []
    return [(each.stack.delta_ND, each.row) for each in entering]
