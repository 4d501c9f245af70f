"""Takes pushes: an update is received whole, made durable, and then acknowledged."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import grpc
from fedwire.convert import push_reply, read_push
from fedwire.v1 import federation_pb2 as pb
from fedwire.values import answer_code, read_answer

from fedcore.coordinator.events import UpdatePushed
from fedcore.coordinator.opened import Opened
from fedcore.errors import ProtocolError
from fedcore.protocol import Answer, Push
from fedcore.typing import Seconds
from fedrun.json_lines import concern
from fedrun.run import Run
from fedserver.callers import Backend
from fedserver.core import Core
from fedserver.opening import Opening
from fedserver.receiving import PushFrames, Receiver, upload_name
from fedserver.uploads import Upload, Uploads

_log = logging.getLogger(__name__)
RETRY: Seconds = 1.0  # after which a client is to push again
ROOM = 256 << 20  # bytes of updates in memory, if nothing else is configured
VERDICT: Seconds = 60.0  # to wait for it, before the client asks again
Context = Any


class Pushes:
    """All updates that are being received and decided on, one for each client."""

    def __init__(self, backend: Backend) -> None:
        self._core, self._answers = backend.core, backend.answers
        self._sessions, self._callers = backend.sessions, backend.callers
        self._tracer, self._versions = backend.tracer, backend.versions
        run = backend.run
        self._judging: dict[str, asyncio.Task[pb.PushReply]] = {}  # by cid
        algorithm = run.coordinator.algorithm
        limit = run.config.server.max_update_bytes
        self.max_update_bytes = limit or 8 * algorithm.spec.dim + (1 << 20)
        self._uploads = _bounded_uploads(run, backend.core, self.max_update_bytes)
        self._receiver = Receiver(
            self._uploads, self.max_update_bytes, run.config.timeouts.stall
        )
        self.opening = Opening(algorithm, ROOM)

    async def push(self, frames: PushFrames, context: Context) -> pb.PushReply:
        """Takes an update in whole, has it made durable, and returns its verdict."""
        try:
            header = await self._receiver.header(frames)
            concern(seq=header.seq)
            self._tracer.note(seq=header.seq, base=header.base, steps=header.steps)
            cid = await self._callers.cid(header.key, context)
            if cid not in self._callers.enrolled:
                return _no_verdict(Answer.UNKNOWN)
            self._sessions.hear(cid)
            await self._callers.check_disk(context)
            if self._callers.draining:
                return _no_verdict(Answer.RETRY)
            name = upload_name(cid, header)
            if name is None:
                return _no_verdict(Answer.RETRY)
            if not self._uploads.is_waiting(name):
                if cid in self._judging:  # another message of this client
                    return _no_verdict(Answer.RETRY)
                unread = read_push(header, cid, b"", name[2]) if header.size else None
                if unread is not None and not self._needs_payload(unread):
                    self._decide(cid, self._commit(unread, None))
                else:
                    nbytes = header.size or len(header.payload)
                    with self._tracer.span("receive", bytes=nbytes):
                        upload = await self._receiver.receive(name, header, frames)
                    if upload is not None and cid in self._judging:
                        self._uploads.end(upload)  # another one came meanwhile
                        upload = None
                    if upload is None:
                        return _no_verdict(Answer.RETRY)
                    self._decide_upload(cid, header, upload)
            reply = await self._verdict(cid)
            self._tracer.note(
                verdict=read_answer(reply.answer).value, version=reply.version
            )
            return reply
        except ProtocolError as error:
            _log.warning("refused a push: %s", error)
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            raise AssertionError("an aborted call goes on") from error

    async def resume(
        self, request: pb.ResumeRequest, context: Context
    ) -> pb.ResumeReply:
        """Says how many bytes of an upload have arrived."""
        cid = await self._callers.cid(request.key, context)
        name = (cid, request.seq, request.digest.hex())
        return pb.ResumeReply(received=self._uploads.received(name))

    def close(self) -> None:
        """Ends the threads that read updates; no push may come after this."""
        self.opening.close()

    # ----------------------------------------------------------------- deciding

    def _decide_upload(self, cid: str, header: pb.PushHeader, upload: Upload) -> None:
        """Has an update that has arrived decided; frees its memory then."""
        try:
            push = read_push(header, cid, upload.buffer, upload.name[2])
        except ProtocolError:
            self._uploads.end(upload)
            raise
        self._uploads.decide(upload)
        task = self._decide(cid, self._judge(push))
        task.add_done_callback(lambda _: self._uploads.end(upload))

    def _decide(
        self, cid: str, deciding: Coroutine[Any, Any, pb.PushReply]
    ) -> asyncio.Task[pb.PushReply]:
        """Has an update decided, even if no call waits; until then it is the only one.

        Args:
            cid: whose update it is.
            deciding: returns the answer.
        """
        task = self._judging[cid] = asyncio.create_task(deciding)

        def through(_: Any) -> None:
            del self._judging[cid]
            if not task.cancelled():
                task.exception()  # calls that wait get it; there may be none

        task.add_done_callback(through)
        return task

    async def _judge(self, push: Push) -> pb.PushReply:
        async with self.opening.room:
            with self._tracer.span("decode"):
                opened = await self.opening.open(push.payload)
            self._versions.arrive(push.cid, push.seq)
            try:
                return await self._commit(push, opened)
            finally:
                self._versions.answered(push.cid, push.seq)

    async def _commit(self, push: Push, opened: Opened | None) -> pb.PushReply:
        """Has the core decide on an update; returns its answer once it is durable.

        Args:
            push: the update.
            opened: its payload; None: it has not arrived.
        """
        event = UpdatePushed(
            at=self._core.now(), push=push, opened=opened, is_unread=opened is None
        )
        with self._tracer.span("commit"):
            self._core.submit(
                event,
                lambda error: self._answers.fail(
                    error, "push", push.cid, push.seq, push.digest
                ),
            )
            answer = await self._answers.push(push.cid, push.seq, push.digest)
        return push_reply(answer.ack)

    def _needs_payload(self, push: Push) -> bool:
        """Whether a large update can be answered only once it has arrived."""
        return self._core.glance(lambda told: told.needs_payload(push), unsure=True)

    async def _verdict(self, cid: str) -> pb.PushReply:
        """Waits for the verdict on this client's update."""
        async with asyncio.timeout(VERDICT):
            reply = await asyncio.shield(self._judging[cid])
        self._sessions.hear(cid)
        return reply


def _bounded_uploads(run: Run, core: Core, max_update_bytes: int) -> Uploads:
    config = run.config
    return Uploads(
        config.server.max_uploads,
        config.server.max_upload_bytes or max(ROOM, 4 * max_update_bytes),
        config.timeouts.stall,
        config.server.min_rate,
        core.spill.room,
    )


def _no_verdict(answer: Answer) -> pb.PushReply:
    wait = RETRY if answer is Answer.RETRY else 0.0
    return pb.PushReply(answer=answer_code(answer), retry_after=wait)
