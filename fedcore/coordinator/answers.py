"""Answers to peers and operators: what is checked, what is evaluated, what is said."""

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Literal, assert_never

from fedcore.coordinator import events
from fedcore.coordinator.actions import Refuse
from fedcore.coordinator.events import (
    Act,
    ClientEnrolled,
    Enrolled,
    Evaluated,
    Freed,
)
from fedcore.coordinator.members import ClientRow
from fedcore.coordinator.settings import EvaluateConfig
from fedcore.coordinator.state import ServerState
from fedcore.proofs import Authenticator
from fedcore.protocol import (
    MOST_COUNTED,
    Answer,
    Pull,
)
from fedcore.typing import JSON
from fedcore.user_code import LONG_TEXT

# ----------------- the acts of an operator: what they do, and when they cannot be done


def objection(act: Act, state: ServerState) -> str:
    """Returns why an act cannot be done, in a sentence; empty: it can."""
    ended = f"the run has ended: {state.closed}" if state.closed else ""
    match act:
        case events.Paused() if state.paused is not None:
            return f"the run is paused already{_because(state.paused)}"
        case events.Paused():
            return ended
        case events.Unpaused() if state.paused is None:
            return ended or "the run is not paused"
        case events.Evicted(name=name):
            if name in state.roster.evicted:
                return (
                    f"{name!r} is evicted already{_because(state.roster.evicted[name])}"
                )
            is_here = any(not row.is_out for row in state.roster.rows_of(name))
            return ended or ("" if is_here else f"no client has the name {name!r}")
        case events.Readmitted(name=name):
            return _not_evicted(name, state)
        case events.Unpaused() | events.SnapshotOrdered():
            return ""
        case _:
            assert_never(act)


def why_not_freed(freed: Freed, state: ServerState) -> str:
    """Returns why a name cannot be freed, in a sentence; empty: it can."""
    is_held = freed.name in state.roster.owners or freed.name in state.roster.evicted
    return "" if is_held else f"no client has the name {freed.name!r}"


def record_of(act: Act, state: ServerState) -> Act:
    """Returns the record of an act that can be done; replayed, it is that act again."""
    if isinstance(act, events.SnapshotOrdered):
        return replace(act, at=state.at, version=state.version)
    return replace(act, at=state.at)


def describe_act(record: Act) -> str:
    """Returns a sentence on what an operator did."""
    match record:
        case events.Paused():
            what = "pauses the run"
        case events.Unpaused():
            what = "resumes the run"
        case events.Evicted():
            what = f"evicts {record.name}"
        case events.Readmitted():
            what = f"lets {record.name} come back"
        case events.SnapshotOrdered():
            what = f"takes a snapshot of version {record.version}"
        case _:
            assert_never(record)
    who = f"the operator ({record.by})" if record.by else "the operator"
    return f"{who} {what}{_because(record.reason)}"


def why_out(name: str, reason: str) -> str:
    """Returns why a client is refused, for the client."""
    return f"the operator has evicted {name!r}{_because(reason)}"


def _not_evicted(name: str, state: ServerState) -> str:
    """Returns why nobody can be let back under a name; empty: somebody can."""
    is_out = any(row.evicted is not None for row in state.roster.rows_of(name))
    if is_out or name in state.roster.evicted:
        return ""
    if any(row.name == name and row.lost_name for row in state.clients.values()):
        return (
            f"{name!r} is not evicted: the name was freed, and the client that was "
            "evicted under it before stays out; with a fresh state folder its device "
            "can join as another client"
        )
    return f"{name!r} is not evicted"


def _because(reason: str | None) -> str:
    return f": {reason}" if reason else ""


# ----- checks the claims of a peer: its name, its version of this run, its evaluations


def check_enrolment(
    event: ClientEnrolled, state: ServerState
) -> Enrolled | Refuse | None:
    """The record of an enrolment, or its refusal; None if it changes nothing.

    A client that has left cannot come back, nor one that is evicted until the operator
    lets it, and a name belongs to its first owner.
    """
    row = state.clients.get(event.cid)
    if row is not None and row.left:
        return Refuse(cid=event.cid, nonce=0, answer=Answer.OBSOLETE)
    if eviction(event.cid, event.name, state) is not None:
        return Refuse(cid=event.cid, nonce=0, answer=Answer.UNKNOWN)
    owner = state.roster.owners.get(event.name, "")
    if owner not in ("", event.owner) and not event.certified:
        return Refuse(cid=event.cid, nonce=0, answer=Answer.UNKNOWN)
    claimed = (event.name, event.role, event.owner, event.index, event.count)
    if row is not None and (row.name, row.role, owner, *row.place) == claimed:
        return None
    return Enrolled(
        at=state.at,
        cid=event.cid,
        name=event.name,
        role=event.role,
        index=event.index,
        count=event.count,
        owner=event.owner,
    )


def eviction(cid: str, name: str, state: ServerState) -> str | None:
    """The reason for which a client is shut out, by its id or by its name; or None."""
    row = state.clients.get(cid)
    if row is not None and row.evicted is not None:
        return row.evicted
    return state.roster.evicted.get(name)


def later_states(
    row: ClientRow, pull: Pull, state: ServerState, proofs: Authenticator
) -> list[bool]:
    """For each claim of a later state in a pull, whether it is proved.

    No client can know a later state of this history unless the server was set back.
    """
    claims = [
        proofs.confirms(left.proof, proofs.departure(left.epoch))
        for left in pull.abandoned
        if left.epoch == state.epoch
    ]
    if pull.epoch != state.epoch:
        return claims
    held, settled = pull.held, pull.settled
    if held is not None and held.version > state.version:
        made = proofs.version(state.epoch, held.version)
        claims.append(proofs.confirms(held.proof, made))
    if row.contradicts(settled):
        made = proofs.verdict(state.epoch, row.cid, settled.seq, settled.verdict)
        claims.append(proofs.confirms(settled.proof, made))
    return claims


def check_evaluation(event: Evaluated, state: ServerState) -> Evaluated | None:
    """The record of an evaluation, without values that are not finite.

    None if the client is unknown or evicted, or the version unknown.
    """
    row = state.clients.get(event.cid)
    if row is None or row.evicted is not None:
        return None
    if not 0 <= event.version <= state.version:
        return None
    return Evaluated(
        at=state.at,
        cid=event.cid,
        version=event.version,
        values={k: float(v) for k, v in event.values.items() if math.isfinite(v)},
        samples=min(max(0, event.samples), MOST_COUNTED),
        text=event.text[:LONG_TEXT],
    )


# ------------ which versions clients evaluate, and what they may report of their tasks
#
# A report counts if the server has asked this client for it: metrics once for each
# version that it was to evaluate, an error and a number of samples left out once for
# each task. So what one client can add to the journal is bounded by the tasks that it
# gets.
#
# Nothing here is durable: after a restart, a version that was given to an evaluator and
# not evaluated is given again, and clients report of the tasks that they get then.


MOST_ASKED = 16  # versions that one client may still report on
Trouble = Literal["failed", "skipped"]
_ANY: frozenset[Trouble] = frozenset({"failed", "skipped"})


class Evaluations:
    """The evaluators that wait for a version, and what clients were asked."""

    def __init__(self, config: EvaluateConfig) -> None:
        self.config = config
        self.waiting: dict[str, None] = {}  # evaluators, in the order of arrival
        self._evaluated: int | None = None  # the newest version that an evaluator has
        self._asked: dict[str, int] = {}  # the newest version a trainer was to evaluate
        self._reported: dict[str, int] = {}  # the newest version that it has evaluated
        self._due: dict[str, dict[int, None]] = {}  # what a client has not reported yet
        self._may: dict[str, frozenset[Trouble]] = {}  # tell of the newest task

    def arrive(self, cid: str, evaluated: int | None) -> None:
        """An evaluator waits for a version that is due.

        Args:
            cid: the evaluator. What it was given before and has not evaluated is due.
            evaluated: the newest version that was evaluated, if there is one.
        """
        self.waiting[cid] = None
        self._evaluated = evaluated

    def withdraw(self, cid: str) -> None:
        """An evaluator no longer waits."""
        self.waiting.pop(cid, None)

    def grant(self, version: int) -> list[str]:
        """The waiting evaluators, if this version is due; they wait no longer."""
        evaluated = self._evaluated
        if evaluated is not None and version - evaluated < self.config.every_versions:
            return []
        granted = list(self.waiting)
        self.waiting.clear()
        return granted

    def asks(self, cid: str, version: int) -> bool:
        """Whether a trainer shall evaluate the version that it is given for a task."""
        every = self.config.every_versions
        if not self.config.clients or version - self._asked.get(cid, -every) < every:
            return False
        self._asked[cid] = version
        self.ask(cid, version)
        return True

    def asks_at_end(self, cid: str, version: int) -> bool:
        """Whether a trainer shall evaluate this version, which is the last one."""
        return self.config.clients and self._reported.get(cid) != version

    def begin(self, cids: Iterable[str]) -> None:
        """Notes that clients get tasks; each may report each kind of trouble once."""
        self._may |= dict.fromkeys(cids, _ANY)

    def has_trouble(self, cid: str, what: Trouble) -> bool:
        """Returns whether a client may report this trouble, and notes that it has."""
        may = self._may.get(cid, frozenset())
        if what not in may:
            return False
        self._may[cid] = may - {what}
        return True

    def ask(self, cid: str, version: int) -> None:
        """Notes that a client is to evaluate a version: it may report on it once."""
        self.begin([cid])
        due = self._due.setdefault(cid, {})
        due.pop(version, None)
        due[version] = None
        while len(due) > MOST_ASKED:
            del due[next(iter(due))]

    def is_due(self, cid: str, version: int) -> bool:
        """Returns whether a client may report on a version, and notes that it has."""
        due = self._due.get(cid, {})
        if version not in due:
            return False
        del due[version]
        if not due:
            del self._due[cid]
        return True

    def note(self, cid: str, version: int) -> None:
        """A trainer has evaluated a version."""
        self._reported[cid] = version

    def dump(self) -> JSON:
        """Returns the questions to clients and their reports, for :meth:`load`."""
        return {
            "asked": self._asked,
            "told": self._reported,
            "due": {cid: list(versions) for cid, versions in self._due.items()},
            "may": {
                what: sorted(cid for cid, may in self._may.items() if what in may)
                for what in sorted(_ANY)
            },
        }

    def load(self, saved: JSON) -> None:
        """Takes over what :meth:`dump` returned."""
        self._asked, self._reported = dict(saved["asked"]), dict(saved["told"])
        self._due = {
            cid: dict.fromkeys(versions) for cid, versions in saved["due"].items()
        }
        self._may = {}
        for what, cids in saved["may"].items():
            for cid in cids:
                self._may[cid] = self._may.get(cid, frozenset()) | {what}
