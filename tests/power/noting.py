"""Notes in the log of what the code promises: before it is durable, and after."""

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from fedclient.state.store import ClientStore
from fedcore.coordinator.actions import Action, SendAck, SendReply
from fedcore.participant import ParticipantState
from fedcore.protocol import Verdict
from fedrun.journal import Journal
from fedrun.journal.sqlite import SqliteStore
from fedrun.journal.store import to_row
from tests.power.promises import brief, fingerprint
from tests.power.recorder import mark

RUN = "run"  # the folder of the run that is served; others are copies of it


def note(**promise: Any) -> None:
    """A promise, into the log."""
    mark(json.dumps(promise))


def note_said(actions: Iterable[Action]) -> None:
    """What the server says to anybody."""
    for action in actions:
        if isinstance(action, SendAck) and isinstance(action.ack.answer, Verdict):
            ack = action.ack
            note(
                what="verdict",
                told=[action.cid, ack.seq, ack.digest, ack.answer.value],
            )
        elif isinstance(action, SendReply):
            patch_ = action.reply.patch
            note(what="version", told=[patch_.version, patch_.digest])


@contextmanager
def promising() -> Iterator[None]:
    """Journals and client states note what they promise."""
    with ExitStack() as stack:
        _patch_journal(stack)
        _patch_client(stack)
        yield


def _patch_journal(stack: ExitStack) -> None:
    append, cut, open_journal = SqliteStore.append, SqliteStore.cut, Journal.open

    def appending(store: SqliteStore, records: Any, *facts: Any) -> int:
        if store._file.parent.name != RUN:
            return append(store, records, *facts)
        note(what="appending", file=str(store._file), rows=_rows(records))
        last = append(store, records, *facts)
        note(what="appended", file=str(store._file))
        return last

    def cutting(store: SqliteStore, number: int, records: Any, *facts: Any) -> int:
        rows = _rows(records)
        note(what="cutting", file=str(store._file), first=number, rows=rows)
        last = cut(store, number, records, *facts)
        note(what="cut", file=str(store._file))
        return last

    def opening(*args: Any, **options: Any) -> Journal:
        journal = open_journal(*args, **options)
        if journal.folder.name == RUN and not options.get("read_only"):
            entries = journal.store.entries(payloads=False)
            told = [brief(*to_row(entry.record)[:2]) for entry in entries]
            file = journal.folder / "journal.sqlite3"
            note(what="opened", file=str(file), briefs=told)
        return journal

    stack.enter_context(patch.object(SqliteStore, "append", appending))
    stack.enter_context(patch.object(SqliteStore, "cut", cutting))
    stack.enter_context(patch.object(Journal, "open", opening))


def _rows(records: Any) -> list[tuple[str, str, str]]:
    rows = [to_row(record) for record in records]
    return [(kind, body, bytes(payload).hex()) for kind, body, payload in rows]


def _patch_client(stack: ExitStack) -> None:
    load, save, forget = ClientStore.load, ClientStore.save, ClientStore.forget

    def loading(store: ClientStore, *args: Any) -> ParticipantState | None:
        state = load(store, *args)
        told = None if state is None else fingerprint(state)
        note(what="saved", file=str(store._file), state=told)
        return state

    def saving(store: ClientStore, state: ParticipantState) -> None:
        told = fingerprint(state)
        note(what="saving", file=str(store._file), state=told)
        save(store, state)
        note(what="saved", file=str(store._file), state=told)

    def forgetting(store: ClientStore) -> None:
        note(what="saving", file=str(store._file), state=None)
        forget(store)
        note(what="saved", file=str(store._file), state=None)

    stack.enter_context(patch.object(ClientStore, "load", loading))
    stack.enter_context(patch.object(ClientStore, "save", saving))
    stack.enter_context(patch.object(ClientStore, "forget", forgetting))
