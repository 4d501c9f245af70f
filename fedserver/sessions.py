"""Tracks client processes: which are connected, and which fell silent."""

import asyncio
import time
from dataclasses import dataclass, field
from itertools import takewhile

from fedwire.v1 import federation_pb2 as pb

from fedcore.text import printable
from fedcore.typing import Seconds

LONG_WHY = 256  # characters of why a client waits


@dataclass
class Session:
    """One client process."""

    cid: str
    number: int  # random; it names the process
    notices: "asyncio.Queue[pb.Notice | None]" = field(default_factory=asyncio.Queue)


class Sessions:
    """The client processes that send heartbeats."""

    def __init__(self, lost_after: Seconds) -> None:
        self._lost_after = lost_after
        self._sessions: dict[str, Session] = {}
        self._names: dict[str, str] = {}  # the id of the client that has a name
        self._heard: dict[str, Seconds] = {}
        self.waiting: dict[str, str] = {}
        """Why clients begin no task, as they said last, by id."""

    def claim(self, name: str, cid: str) -> str:
        """Gives a name to a client; another client that had it is told to stop.

        Returns:
            The id of that other client; empty if there was none.
        """
        before = self._names.get(name, cid)
        self._names[name] = cid
        if before == cid:
            return ""
        if before in self._sessions:
            text = f"another client has taken the name {name!r}"
            self.tell(self._sessions[before], pb.Notice.KIND_SUPERSEDED, text)
        return before

    def attend(self, cid: str, number: int) -> Session:
        """Begins a session; an older process of the same client is told to stop."""
        before = self._sessions.get(cid)
        if before is not None and before.number != number:
            text = "another process runs with this client's state directory"
            self.tell(before, pb.Notice.KIND_SUPERSEDED, text)
        session = self._sessions[cid] = Session(cid, number)
        self.hear(cid)
        return session

    def leave(self, session: Session) -> None:
        """Ends a session."""
        if self._sessions.get(session.cid) is session:
            del self._sessions[session.cid]

    def hear(self, cid: str) -> None:
        """Notes that a client gave a sign of life."""
        self._heard.pop(cid, None)  # the dictionary is in the order of time
        self._heard[cid] = time.monotonic()

    def dismiss(self, cid: str, text: str) -> None:
        """Tells a client to stop, and takes it for gone."""
        session = self._sessions.get(cid)
        if session is not None:
            self.tell(session, pb.Notice.KIND_SUPERSEDED, text)
            session.notices.put_nowait(None)
        self.forget(cid)

    def note_waiting(self, cid: str, why: str) -> None:
        """Notes why a client begins no task; empty: it may begin one."""
        self.waiting.pop(cid, None)
        if why:
            self.waiting[cid] = printable(why)[:LONG_WHY]

    def forget(self, cid: str) -> None:
        """Forgets a client that left."""
        self._heard.pop(cid, None)
        self.waiting.pop(cid, None)

    def missing(self) -> list[str]:
        """Returns clients that have been silent for too long; each is returned once."""
        before = time.monotonic() - self._lost_after
        heard = self._heard.items()
        silent = [cid for cid, _ in takewhile(lambda each: each[1] < before, heard)]
        for cid in silent:
            del self._heard[cid]
        return silent

    @property
    def present(self) -> set[str]:
        """The ids of the clients that are there."""
        return set(self._heard)

    def is_here(self, cid: str) -> bool:
        """Whether the server has heard of a client within ``timeouts.lost``."""
        return cid in self._heard

    @property
    def here(self) -> int:
        """The number of clients that are there."""
        return len(self._heard)

    @property
    def attending(self) -> list[str]:
        """The ids of clients whose process is connected, and was heard of lately."""
        return [cid for cid in self._sessions if cid in self._heard]

    def tell_all(self, kind: pb.Notice.Kind, text: str) -> None:
        """Sends a notice to every process."""
        for session in self._sessions.values():
            self.tell(session, kind, text)

    def close(self) -> None:
        """Ends all sessions."""
        for session in self._sessions.values():
            session.notices.put_nowait(None)

    def tell(self, session: Session, kind: pb.Notice.Kind, text: str) -> None:
        """Sends a notice to a process."""
        session.notices.put_nowait(pb.Notice(kind=kind, text=text))
