"""Takes pushes: an update is received whole, made durable, and then acknowledged."""

import asyncio
import logging
import zlib
from collections.abc import AsyncIterator
from typing import Any, Self

import grpc
from fedwire.convert import INLINE, answer_code, push_reply, read_answer, read_push
from fedwire.frames import read_chunk, read_header
from fedwire.v1 import federation_pb2 as pb

from fedcore.coordinator.events import UpdatePushed
from fedcore.errors import ProtocolError, UnavailableError
from fedcore.params import content_digest
from fedcore.protocol import Answer, Push
from fedcore.typing import Seconds
from fedrun.config import FederationConfig
from fedrun.json_lines import concern
from fedserver.callers import Backend
from fedserver.limits import Limit, Newest
from fedserver.opening import Opening
from fedserver.uploads import Name, Upload, Uploads

_log = logging.getLogger(__name__)
RETRY: Seconds = 1.0  # after which a client is to push again
IN_THREAD = 256 << 10  # payloads from this size on are hashed beside the event loop
ROOM = 256 << 20  # bytes of updates in memory, if nothing else is configured
VERDICT: Seconds = 60.0  # to wait for it, before the client asks again
Context = Any


class PushFrames:
    """The messages of a push: a header, and then the chunks of its payload."""

    def __init__(self, frames: AsyncIterator[bytes]) -> None:
        self._frames = frames

    async def header(self) -> pb.PushHeader:
        """Reads the header. Must be called once, before the first chunk is taken.

        Raises:
            ProtocolError: the first message is no header.
        """
        return read_header(await anext(self._frames, b""))

    def __aiter__(self) -> Self:
        """Iterates over the frames after the header."""
        return self

    async def __anext__(self) -> bytes:
        """Returns the next frame."""
        return await anext(self._frames)


class Pushes:
    """All updates that are being received and decided on, one for each client."""

    def __init__(self, backend: Backend) -> None:
        self._core, self._answers = backend.core, backend.answers
        self._sessions, self._callers = backend.sessions, backend.callers
        self._tracer, self._versions = backend.tracer, backend.versions
        run = backend.run
        self._stall = run.config.timeouts.stall
        self._newest = Newest()
        self._judging: dict[str, asyncio.Task[pb.PushReply]] = {}  # by cid
        algorithm = run.coordinator.algorithm
        limit = run.config.server.max_update_bytes
        self.max_update_bytes = limit or 8 * algorithm.spec.dim + (1 << 20)
        self._uploads = _bounded_uploads(run.config, self.max_update_bytes)
        self._opening = Opening(algorithm, ROOM)

    async def push(self, frames: PushFrames, context: Context) -> pb.PushReply:
        """Takes an update in whole, has it made durable, and returns its verdict."""
        try:
            async with asyncio.timeout(self._stall):
                header = await frames.header()
            concern(seq=header.seq)
            self._tracer.note(seq=header.seq, base=header.base, steps=header.steps)
            self._check_size(header.size or len(header.payload))
            cid = await self._callers.cid(header.key, context)
            if cid not in self._callers.enrolled:
                return _no_verdict(Answer.UNKNOWN)
            self._sessions.hear(cid)
            await self._callers.check_disk(context)
            if self._callers.draining:
                return _no_verdict(Answer.RETRY)
            name = _name(cid, header)
            if name is None:
                return _no_verdict(Answer.RETRY)
            if not self._uploads.is_waiting(name):
                with self._tracer.span("receive", bytes=header.size):
                    upload = await self._receive(name, header, frames)
                if upload is None:
                    return _no_verdict(Answer.RETRY)
                self._decide(cid, header, upload)
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
        self._opening.close()

    # ---------------------------------------------------------------- receiving

    def _check_size(self, size: int) -> None:
        if size > self.max_update_bytes:
            raise ProtocolError(
                f"an update of {size} bytes; the limit of this server is "
                f"{self.max_update_bytes} (server.max_update_bytes)"
            )

    async def _receive(
        self, name: Name, header: pb.PushHeader, frames: PushFrames
    ) -> Upload | None:
        """Returns the payload; None if it did not arrive whole, sound and in time."""
        with self._newest.call(name[0]) as limit:
            try:
                upload = await self._place(name, header, limit)
            except (UnavailableError, TimeoutError):
                return None
            return await self._filled(upload, frames, limit)

    async def _place(self, name: Name, header: pb.PushHeader, limit: Limit) -> Upload:
        """Waits for room, and returns a place for an update.

        Raises:
            UnavailableError: the client waits for a verdict.
            TimeoutError: there was no room for too long, or a newer update arrived.
        """

        def take() -> Upload:
            if header.size:
                return self._uploads.begin(name, header.size, limit.end)
            return self._uploads.hold(name, header.payload, limit.end)

        async with limit.within(self._stall):
            return await self._uploads.turn(name, take, is_inline=not header.size)

    async def _filled(
        self, upload: Upload, frames: PushFrames, limit: Limit
    ) -> Upload | None:
        """Receives the payload of an upload; returns None as :meth:`_receive` does."""
        is_kept = False
        try:
            async with limit.within(0) as waiting:
                waiting.reschedule(self._uploads.ends(upload))
                async for frame in frames:
                    if upload.is_inline:
                        raise ProtocolError(
                            "a frame after a payload that was in the first one"
                        )
                    upload.write(read_chunk(frame))
                    waiting.reschedule(self._uploads.ends(upload))
            if upload.is_whole:
                is_kept = await _is_unharmed(upload)
                if not is_kept:
                    self._uploads.end(upload)
        except (UnavailableError, TimeoutError):
            pass  # damaged on its way, too slow, or a newer one arrived
        except ProtocolError:
            self._uploads.end(upload)
            raise
        finally:
            if not is_kept:
                self._uploads.cut(upload)
        return upload if is_kept else None

    # ----------------------------------------------------------------- deciding

    def _decide(self, cid: str, header: pb.PushHeader, upload: Upload) -> None:
        """Has an update decided, and keeps it until then, even if no call waits."""
        try:
            push = read_push(header, cid, upload.buffer, upload.name[2])
        except ProtocolError:
            self._uploads.end(upload)
            raise
        self._uploads.decide(upload)
        task = asyncio.create_task(self._judge(push))
        self._judging[push.cid] = task

        def through(_: Any) -> None:
            self._uploads.end(upload)
            del self._judging[push.cid]
            if not task.cancelled():
                task.exception()  # calls that wait get it; there may be none

        task.add_done_callback(through)

    async def _judge(self, push: Push) -> pb.PushReply:
        async with self._opening.room:
            with self._tracer.span("decode"):
                opened = await self._opening.open(push.payload)
            self._versions.arrive(push.cid, push.seq)
            with self._tracer.span("commit"):
                self._core.submit(
                    UpdatePushed(at=self._core.now(), push=push, opened=opened),
                    lambda error: self._answers.fail(
                        error, "push", push.cid, push.seq, push.digest
                    ),
                )
                answer = await self._answers.push(push.cid, push.seq, push.digest)
        return push_reply(answer.ack)

    async def _verdict(self, cid: str) -> pb.PushReply:
        """Waits for the verdict on this client's update."""
        async with asyncio.timeout(VERDICT):
            reply = await asyncio.shield(self._judging[cid])
        self._sessions.hear(cid)
        return reply


def _bounded_uploads(config: FederationConfig, max_update_bytes: int) -> Uploads:
    return Uploads(
        config.server.max_uploads,
        config.server.max_upload_bytes or max(ROOM, 4 * max_update_bytes),
        config.timeouts.stall,
        config.server.min_rate,
    )


def _name(cid: str, header: pb.PushHeader) -> Name | None:
    """Returns the name of an update; None if the update was damaged on its way."""
    if header.size:
        return cid, header.seq, header.digest.hex()
    if len(header.payload) > INLINE:
        raise ProtocolError(
            f"a payload of {len(header.payload)} bytes in the first frame; the "
            f"limit is {INLINE}"
        )
    if zlib.crc32(header.payload) != header.crc32:
        return None
    return cid, header.seq, content_digest(header.payload)


async def _is_unharmed(upload: Upload) -> bool:
    """Returns whether the bytes of a whole payload are those that its digest names."""
    if upload.is_inline:
        return True  # its name was made of it
    if len(upload.buffer) < IN_THREAD:
        found = content_digest(upload.buffer)
    else:
        found = await asyncio.to_thread(content_digest, upload.buffer)
    return found == upload.name[2] and not upload.is_released


def _no_verdict(answer: Answer) -> pb.PushReply:
    wait = RETRY if answer is Answer.RETRY else 0.0
    return pb.PushReply(answer=answer_code(answer), retry_after=wait)
