"""Verifies a journal: reads and checks all of it, and makes its decisions again."""

import math
from dataclasses import dataclass, field, replace
from typing import Any

from fedcore.coordinator.events import Decided, Record, Stepped, Tallied
from fedcore.errors import CorruptJournalError
from fedcore.protocol import Verdict
from fedrun.journal.contents import Contents, examine_all
from fedrun.journal.disk import making_sense_of
from fedrun.journal.journal import Journal
from fedrun.journal.recover import WITHOUT_UPDATES, recover_from
from fedrun.journal.replay import Replay
from fedrun.journal.store import to_row
from fedrun.journal.tally import count_accepted
from fedrun.methods import require_same


@dataclass(frozen=True)
class Verified:
    """The findings of :func:`verify`."""

    records: int
    versions: int
    accepted: int
    applied: int
    waiting: int  # accepted, in the buffer
    recomputed: int  # decisions that were made again, with the same outcome
    digest: str  # of the newest public model
    contents: Contents = field(default=Contents((), ()), compare=False)


def verify(journal: Journal, *, decisions: bool = True) -> Verified:
    """Reads, checks and replays everything that is kept, in every file of the run.

    Args:
        journal: of a run, opened to be read.
        decisions: make every decision again; only the machine that made them is
            sure to make the same ones.

    Raises:
        CorruptJournalError: a checksum, a digest or a decision differs from the record.
    """
    contents = examine_all(journal)
    first = journal.store.first_payload()
    start = journal.replay_begins() or None
    if first and start is None:
        raise CorruptJournalError(
            f"{journal.folder}: payloads up to record {first} were dropped, and there "
            "is no snapshot that holds them"
        )
    require_same(journal.configurations()[-1][1].config)
    if journal.store.read_fact(WITHOUT_UPDATES):
        return _count_simulated(journal, contents)
    recovered = recover_from(journal, start)
    state = recovered.coordinator.state
    accepted: set[tuple[str, int]] = set()
    count = 0
    for _, record in journal.store.entries(payloads=False):
        count += 1
        if isinstance(record, Decided) and record.verdict is Verdict.ACCEPTED:
            if (record.cid, record.seq) in accepted:
                raise CorruptJournalError(
                    f"{journal.folder}: message {record.seq} of {record.cid} "
                    "counts twice"
                )
            accepted.add((record.cid, record.seq))
    return Verified(
        records=count,
        versions=state.version,
        accepted=len(accepted),
        applied=state.applied,
        waiting=state.count,
        recomputed=_recompute(journal) if decisions and not first else 0,
        digest=state.published.digest,
        contents=contents,
    )


def _count_simulated(journal: Journal, contents: Contents) -> Verified:
    """Counts what records without updates say; no decision can be made again."""
    count, versions, accepted, applied = 0, 0, 0, 0
    digest = journal.configurations()[0][1].origin
    for _, record in journal.store.entries():
        count += 1
        if isinstance(record, Tallied):
            accepted += count_accepted(record)
        elif isinstance(record, Stepped):
            versions, digest = record.version, record.digest
            applied += record.count
    why = "decisions (a simulation in stacks keeps no updates)"
    return Verified(
        records=count,
        versions=versions,
        accepted=accepted,
        applied=applied,
        waiting=accepted - applied,
        recomputed=0,
        digest=digest,
        contents=contents._replace(unchecked=(why, *contents.unchecked)),
    )


def _recompute(journal: Journal) -> int:
    """Makes all decisions again, checks that they are as recorded, and counts them."""
    replay = Replay(journal)
    recorded: list[Decided | Stepped] = []
    made: list[Decided | Stepped] = []
    with making_sense_of(f"{journal.folder}: decided again, a record"):
        for record, now in replay.run():
            if isinstance(record, Stepped) or (
                isinstance(record, Decided) and record.was_read
            ):
                recorded.append(record)
            made += [r for r in now if isinstance(r, Decided | Stepped)]
    for old, new in zip(recorded, made, strict=False):
        if not _same(old, new):
            raise CorruptJournalError(
                f"{journal.folder}: decided again, {_brief(old)} becomes {_brief(new)}"
            )
    if len(recorded) != len(made):
        raise CorruptJournalError(
            f"{journal.folder}: {len(recorded)} decisions were recorded, and "
            f"{len(made)} are made now"
        )
    return len(made)


def _same(old: Decided | Stepped, new: Decided | Stepped) -> bool:
    """Returns whether a decision is as recorded.

    ‖W - X‖ decides nothing, and its last bits depend on the number of threads that sum
    it; it may differ by a millionth.
    """
    if isinstance(old, Stepped) and isinstance(new, Stepped):
        if not math.isclose(old.gap_norm, new.gap_norm, rel_tol=1e-6):
            return False
        new = replace(new, gap_norm=old.gap_norm)
    return bool(_essence(old) == _essence(new))


def _essence(record: Record) -> Any:
    """Returns all of a record except its time."""
    kind, body, payload = to_row(record)
    return kind, body.partition(",")[2], bytes(payload)


def _brief(record: Decided | Stepped) -> str:
    if isinstance(record, Stepped):
        return f"version {record.version} ({record.reason}, {record.digest})"
    return f"message {record.seq} of {record.cid} ({record.verdict}, {record.weight!r})"
