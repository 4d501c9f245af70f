"""The acts of an operator: what they do, and when they cannot be done."""

from dataclasses import replace
from typing import assert_never

from fedcore.coordinator import records
from fedcore.coordinator.events import NameFreed
from fedcore.coordinator.records import Act
from fedcore.coordinator.state import ServerState


def objection(act: Act, state: ServerState) -> str:
    """Returns why an act cannot be done, in a sentence; empty: it can."""
    ended = f"the run has ended: {state.closed}" if state.closed else ""
    match act:
        case records.Paused() if state.paused is not None:
            return f"the run is paused already{_because(state.paused)}"
        case records.Paused():
            return ended
        case records.Unpaused() if state.paused is None:
            return ended or "the run is not paused"
        case records.Evicted(name=name):
            if name in state.roster.evicted:
                return (
                    f"{name!r} is evicted already{_because(state.roster.evicted[name])}"
                )
            is_here = any(not row.is_out for row in state.roster.named(name))
            return ended or ("" if is_here else f"no client has the name {name!r}")
        case records.Readmitted(name=name):
            return _not_evicted(name, state)
        case records.Unpaused() | records.SnapshotOrdered():
            return ""
        case _:
            assert_never(act)


def why_not_freed(freed: NameFreed, state: ServerState) -> str:
    """Returns why a name cannot be freed, in a sentence; empty: it can."""
    is_held = freed.name in state.roster.owners or freed.name in state.roster.evicted
    return "" if is_held else f"no client has the name {freed.name!r}"


def record_of(act: Act, state: ServerState) -> Act:
    """Returns the record of an act that can be done; replayed, it is that act again."""
    if isinstance(act, records.SnapshotOrdered):
        return replace(act, at=state.at, version=state.version)
    return replace(act, at=state.at)


def said(record: Act) -> str:
    """Returns a sentence on what an operator did."""
    match record:
        case records.Paused():
            what = "pauses the run"
        case records.Unpaused():
            what = "resumes the run"
        case records.Evicted():
            what = f"evicts {record.name}"
        case records.Readmitted():
            what = f"lets {record.name} come back"
        case records.SnapshotOrdered():
            what = f"takes a snapshot of version {record.version}"
        case _:
            assert_never(record)
    who = f"the operator ({record.by})" if record.by else "the operator"
    return f"{who} {what}{_because(record.reason)}"


def why_waiting(state: ServerState) -> str:
    """Returns why nobody is given training now, for clients; empty: they may be."""
    if state.paused is None or state.closed:
        return ""
    return f"the operator has paused the run{_because(state.paused)}"


def why_out(name: str, reason: str) -> str:
    """Returns why a client is refused, for the client."""
    return f"the operator has evicted {name!r}{_because(reason)}"


def _not_evicted(name: str, state: ServerState) -> str:
    """Returns why nobody can be let back under a name; empty: somebody can."""
    is_out = any(row.evicted is not None for row in state.roster.named(name))
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
