"""Receives heartbeats, sends notices, and takes note of clients that leave."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from fedwire.v1 import federation_pb2 as pb

from fedcore.coordinator.acts import why_out
from fedcore.coordinator.clients import ClientRow
from fedcore.coordinator.events import ClientLeft
from fedcore.typing import Seconds
from fedserver.callers import Backend
from fedserver.sessions import Session

SILENT: Seconds = 60.0  # beyond ``timeouts.lost``, until a silent call ends
Context = Any


class Attendance:
    """Keeps in touch with clients while they are connected."""

    def __init__(self, backend: Backend, informed: set[str]) -> None:
        """``informed`` gets the ids of clients that hear that the run has ended."""
        self._run, self._core, self._informed = backend.run, backend.core, informed
        self._sessions, self._callers = backend.sessions, backend.callers

    async def attend(
        self, beats: AsyncIterator[pb.Beat], context: Context
    ) -> AsyncGenerator[pb.Notice, None]:
        """Receives a client's heartbeats, and yields notices for it."""
        first = await anext(beats, None)
        if first is None:
            return
        cid = await self._callers.cid(first.key, context)
        row = self._run.coordinator.state.clients.get(cid)
        if first.waiting and row is not None:
            if (notice := self._heard_waiting(row, first.waiting)) is not None:
                yield notice
            return
        if row is None or row.evicted is not None:
            return
        session = self._sessions.attend(cid, first.session)
        self._sessions.note_waiting(cid, "")
        if ended := self._run.coordinator.state.closed:
            self._sessions.tell(session, pb.Notice.KIND_ENDED, ended)
        listener = asyncio.create_task(self._listen(session, beats))
        try:
            while (notice := await session.notices.get()) is not None:
                yield notice
        finally:
            listener.cancel()
            self._sessions.leave(session)

    def _heard_waiting(self, row: ClientRow, why: str) -> pb.Notice | None:
        """Takes note of a client that waits for its device, and begins no session.

        Returns:
            Why it need not wait any longer; None: it has to.
        """
        if row.evicted is not None:
            text = why_out(row.name, row.evicted)
            return pb.Notice(kind=pb.Notice.KIND_SUPERSEDED, text=text)
        if ended := self._run.coordinator.state.closed:
            self._informed.add(row.cid)
            return pb.Notice(kind=pb.Notice.KIND_ENDED, text=ended)
        self._sessions.note_waiting(row.cid, why)
        return None

    async def _listen(self, session: Session, beats: AsyncIterator[pb.Beat]) -> None:
        silent = SILENT + self._run.config.timeouts.lost
        try:
            async with asyncio.timeout(silent) as limit:
                async for beat in beats:
                    self._sessions.hear(session.cid)
                    self._sessions.note_waiting(session.cid, beat.waiting)
                    limit.reschedule(asyncio.get_running_loop().time() + silent)
        except TimeoutError:
            pass  # a client that is there after all attends again
        finally:
            session.notices.put_nowait(None)

    async def leave(self, request: pb.LeaveRequest, context: Context) -> pb.LeaveReply:
        """Journals that a client has left for good."""
        cid = await self._callers.cid(request.key, context)
        await self._callers.check_disk(context)
        left = ClientLeft(at=self._core.now(), cid=cid)
        await self._core.ask(lambda _: None, after=left)
        self._sessions.forget(cid)
        self._callers.enrolled.discard(cid)
        return pb.LeaveReply()
