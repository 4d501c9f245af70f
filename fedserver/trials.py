"""Takes trials: updates that are received, read and judged, and count nowhere.

``fedclient check`` sends one. Anybody may, under any number of keys. So trials have a
place of their own, in which no trial takes room from an update; one of them is read at
a time; no client and no address has more than a share of the place; and nothing is kept
of any trial.
"""

import asyncio
import logging
from dataclasses import replace
from typing import Any

import grpc
from fedwire.convert import read_push
from fedwire.v1 import federation_pb2 as pb
from fedwire.values import answer_code

from fedcore.coordinator import Coordinator
from fedcore.coordinator.opened import Opened
from fedcore.coordinator.verdicts import judge, raised, read_update
from fedcore.errors import ProtocolError
from fedcore.protocol import Answer, ModelName, Push, Verdict
from fedserver.callers import Backend
from fedserver.connections import neighbours_of
from fedserver.limits import Shared, Turns
from fedserver.opening import Opening
from fedserver.receiving import PushFrames, Receiver, upload_name
from fedserver.uploads import Uploads

_log = logging.getLogger(__name__)
AT_ONCE = 1  # large trials in memory
MOST = 32  # trials that are here or wait; more are asked to come back
OF_ADDRESS = 8  # of those from one address: several devices may share one
OF_CLIENT = 2  # and of those with one key: the connection of the first may have broken
_RETRY = pb.TrialReply(answer=answer_code(Answer.RETRY))
Context = Any


class Trials:
    """Receives and judges one trial after the other."""

    def __init__(self, backend: Backend, opening: Opening, most: int) -> None:
        """``opening`` reads updates, of which one has ``most`` bytes."""
        self._core, self._callers = backend.core, backend.callers
        self._opening = opening
        server, stall = backend.run.config.server, backend.run.config.timeouts.stall
        self._uploads = Uploads(AT_ONCE, most, stall, server.min_rate)
        self._receiver = Receiver(self._uploads, most, stall)
        self._turns = Turns(server.max_enrolments)
        self._places = Shared(MOST, OF_ADDRESS, OF_CLIENT)
        self._reading = asyncio.Lock()  # trials leave a thread for updates

    async def trial(self, frames: PushFrames, context: Context) -> pb.TrialReply:
        """Says which verdict an update would get that is based on the newest version.

        The client need not be enrolled. The update is dropped: neither the coordinator
        nor the journal learns of it.
        """
        try:
            header = await self._receiver.header(frames)
            cid = await self._callers.cid(header.key, context)
            await self._callers.check_disk(context)
            if self._callers.draining:
                return _RETRY
            with self._places.place(neighbours_of(context.peer()), cid) as is_there:
                if not is_there:
                    return _RETRY
                return await self._tried(cid, header, frames)
        except ProtocolError as error:
            _log.warning("refused a trial: %s", error)
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            raise AssertionError("an aborted call goes on") from error

    async def _tried(
        self, cid: str, header: pb.PushHeader, frames: PushFrames
    ) -> pb.TrialReply:
        """Receives one trial, and says what came of it."""
        await self._turns.turn()
        name = upload_name(cid, header)
        if name is None:
            return _RETRY
        try:
            upload = await self._receiver.receive(name, header, frames)
            if upload is None:
                return _RETRY
            try:
                push = read_push(header, cid, upload.buffer, upload.name[2])
                verdict, reason = await self._verdict(push)
            finally:
                self._uploads.end(upload)
        finally:
            self._uploads.forget(cid)
        return pb.TrialReply(
            answer=answer_code(verdict), reason=reason, received=len(push.payload)
        )

    async def _verdict(self, push: Push) -> tuple[Verdict, str]:
        async with self._reading, self._opening.room:
            opened = await self._opening.open(push.payload)
            return await self._core.ask(lambda told: _judged(told, push, opened))


def _judged(told: Coordinator, push: Push, opened: Opened) -> tuple[Verdict, str]:
    """Judges an update as one of the newest version; changes nothing."""
    state = told.state
    newest = ModelName(state.epoch, state.version)
    push = replace(push, epoch=state.epoch, base=newest)
    update = read_update(push, state, opened)
    try:
        decision = judge(update, state)
    except Exception as error:  # noqa: BLE001 -- any error rejects the update
        flaw = raised(error)
        return flaw.verdict, flaw.reason
    return decision.verdict, decision.reason
