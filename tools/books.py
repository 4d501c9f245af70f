"""The accounts of a federation that has ended: does every update count exactly once?

Three parties kept accounts independently: each client counted the acknowledgements that
it got, the journal holds the decisions, and the model is the result of a replay from
the very beginning.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fedclient.state.store import ClientStore
from fedcore.coordinator.events import Decided
from fedcore.params import digest
from fedcore.participant import ParticipantState
from fedcore.protocol import Verdict
from fedrun.files import load_model
from fedrun.journal import Journal, verify


@dataclass(frozen=True)
class Books:
    """The accounts of the parties."""

    acknowledged: int  # by the clients' own count
    journalled: int  # accepted updates in the journal
    applied: int  # of these, in the model
    waiting: int  # of these, still in the buffer
    lost: int  # acknowledged, and not in the journal
    doubled: int  # in the journal more than once
    unsettled: int  # messages whose clients do not know their verdict
    versions: int
    recomputed: int  # decisions that were made anew and are the same
    model: str  # digest of the exported model
    replayed: str  # digest of the replayed model
    forgotten: int = 0  # accepted updates whose clients lost that knowledge

    @property
    def balance(self) -> bool:
        """Whether all accounts agree."""
        return (
            self.acknowledged == self.journalled == self.applied
            and not (self.waiting or self.lost or self.doubled or self.unsettled)
            and self.model == self.replayed
        )

    def rows(self) -> list[tuple[str, str, bool]]:
        """Returns the rows to print: name, figure, and whether the figure is right."""
        counts = f"{self.acknowledged} = {self.journalled} = {self.applied}"
        same = self.acknowledged == self.journalled == self.applied
        return [
            ("updates acknowledged = journalled = applied", counts, same),
            ("left in the buffer", str(self.waiting), not self.waiting),
            ("lost", str(self.lost), not self.lost),
            ("doubled", str(self.doubled), not self.doubled),
            ("without a known verdict", str(self.unsettled), not self.unsettled),
            (
                "decisions made anew, all the same",
                str(self.recomputed),
                self.recomputed > 0,
            ),
            (
                "model equal to the replayed journal, bit for bit",
                f"{self.model[:16]} = {self.replayed[:16]}",
                self.model == self.replayed,
            ),
        ]


def audit(run: Path, states: Iterable[Path], gone: Iterable[Path] = ()) -> Books:
    """Compares the accounts of a run and of its clients' state directories.

    ``gone`` are copies of states that were thrown away or replaced. The journal must
    hold at least the acknowledgements in these copies.
    """
    acknowledged: Counter[str] = Counter()
    known: Counter[str] = Counter()
    unsettled = 0
    for state in filter(None, map(_state, gone)):
        known[state.cid] = max(known[state.cid], state.ledger.accepted)
    for state in filter(None, map(_state, states)):
        acknowledged[state.cid] = state.ledger.accepted
        unsettled += state.pending is not None
    journal = Journal.open(run, read_only=True)
    try:
        found = verify(journal)
        messages = Counter(
            (record.cid, record.seq)
            for _, record in journal.store.entries(payloads=False)
            if isinstance(record, Decided) and record.verdict is Verdict.ACCEPTED
        )
    finally:
        journal.close()
    journalled = Counter(cid for cid, _ in messages)
    ended = known.keys() - acknowledged.keys()
    acknowledged |= known
    forgotten = sum(max(0, journalled[cid] - known[cid]) for cid in ended)
    _, model_D = load_model(run / "models" / "last.safetensors")
    return Books(
        acknowledged=acknowledged.total() + forgotten,
        journalled=journalled.total(),
        applied=found.applied,
        waiting=found.waiting,
        lost=(acknowledged - journalled).total(),
        doubled=sum(count - 1 for count in messages.values()),
        unsettled=unsettled,
        versions=found.versions,
        recomputed=found.recomputed,
        model=digest(model_D),
        replayed=found.digest,
        forgotten=forgotten,
    )


def _state(folder: Path) -> ParticipantState | None:
    store = ClientStore(folder)
    try:
        return store.load()
    finally:
        store.close()
