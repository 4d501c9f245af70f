"""Answers pulls: a client waits for work, and downloads the model."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import grpc
from fedwire.convert import INLINE, patch_name, pull_reply, read_pull
from fedwire.frames import chunk_frames, reply_frame
from fedwire.v1 import federation_pb2 as pb
from fedwire.values import answer_code, epoch_name

from fedcore.coordinator.actions import Refuse, SendReply
from fedcore.coordinator.events import ClientPulled
from fedcore.errors import ProtocolError
from fedcore.protocol import Answer, Pull
from fedcore.typing import Seconds
from fedrun.run import fresh_name
from fedserver.callers import Backend
from fedserver.downloads import Download, Downloads
from fedserver.limits import Limit, Newest

RETRY: Seconds = 1.0  # after which a client is to ask again
PLACE: Seconds = 60.0  # beyond ``timeouts.hold``, to wait for a place to download
Context = Any
Write = Callable[[bytes], Awaitable[None]]


class Stalled(Exception):  # noqa: N818 -- no fault of the server
    """A client does not read what it is sent."""


class Pulls:
    """All pulls that are being answered, one for each client.

    Attributes:
        informed: ids of the clients that know that the run has ended.
    """

    def __init__(self, backend: Backend) -> None:
        self._core, self._answers = backend.core, backend.answers
        self._sessions, self._callers = backend.sessions, backend.callers
        self._tracer = backend.tracer
        config = backend.run.config
        self._timeouts = config.timeouts
        self._newest = Newest()
        self._downloads = Downloads(config.server.max_downloads)
        self._nonces = itertools.count(1)
        self.informed: set[str] = set()

    async def pull(
        self, request: pb.PullRequest, context: Context, write: Write
    ) -> None:
        """Sends model and work, once there is work.

        Raises:
            Stalled: the client does not read what it is sent.
        """
        cid = await self._callers.cid(request.key, context)
        try:
            pull = read_pull(request, cid, next(self._nonces))
        except ProtocolError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        if self._callers.draining:
            await write(_refusal(Answer.RETRY))
        elif pull.cid not in self._callers.enrolled:
            await write(_refusal(Answer.UNKNOWN))
        else:
            self._sessions.hear(pull.cid)
            await self._callers.check_disk(context)
            with self._newest.call(pull.cid) as limit:
                await self._answer(pull, request, write, limit)

    async def _answer(
        self, pull: Pull, request: pb.PullRequest, write: Write, limit: Limit
    ) -> None:
        """Waits for the answer to a pull, and sends it."""
        self._core.submit(
            ClientPulled(at=self._core.now(), pull=pull, fresh_epoch=fresh_name()),
            lambda error: self._answers.fail(error, "pull", pull.cid, pull.nonce),
        )
        async with AsyncExitStack() as stack:
            download: Download | None = None
            try:
                async with limit.within(self._timeouts.hold + PLACE):
                    with self._tracer.span("wait"):
                        answer = await self._answers.pull(pull.cid, pull.nonce)
                    if _is_large(answer):  # its first frame is made when it may go
                        place = self._downloads.place(pull.cid, limit)
                        download = await stack.enter_async_context(place)
            except TimeoutError:  # a newer pull arrived, or there was no place
                await self._send([_refusal(Answer.RETRY)], Limit(), write)
            except asyncio.CancelledError:
                if not self._callers.draining:
                    raise
                await self._send([_refusal(Answer.RETRY)], Limit(), write)
            else:
                frames = _frames(answer, request, download)
                self._tracer.note(**_facts_of(answer))
                with self._tracer.span("send"):
                    await self._send(frames, limit, write, download)
                if isinstance(answer, SendReply) and answer.reply.done:
                    self.informed.add(pull.cid)

    async def _send(
        self,
        frames: Iterable[bytes],
        limit: Limit,
        write: Write,
        download: Download | None = None,
    ) -> None:
        """Sends frames as fast as the client takes them."""
        stall = self._timeouts.stall
        try:
            for frame in frames:
                async with limit.within(stall):
                    await write(frame)
                if download is not None:
                    download.touch(len(frame))
        except TimeoutError:
            raise Stalled(
                f"a message was not taken within {stall:g} s (timeouts.stall), or the "
                "client has pulled again, or others waited for its place"
            ) from None
        if download is not None:
            download.is_taken = True


def _facts_of(answer: SendReply | Refuse) -> dict[str, Any]:
    """Returns what a trace tells of an answer."""
    if isinstance(answer, Refuse):
        return {"refused": answer.answer.value}
    reply = answer.reply
    return {
        "version": reply.patch.version,
        "task": reply.task and reply.task.kind,
        "bytes": reply.patch.nbytes,
    }


def _is_large(answer: SendReply | Refuse) -> bool:
    """Returns whether an answer takes more than one message."""
    return isinstance(answer, SendReply) and answer.reply.patch.nbytes > INLINE


def _frames(
    answer: SendReply | Refuse, request: pb.PullRequest, download: Download | None
) -> Iterator[bytes]:
    """Yields the frames of an answer; resumes a download that was cut off."""
    if isinstance(answer, Refuse):
        yield _refusal(answer.answer, answer.retry_after, answer.reason)
        return
    patch = answer.reply.patch
    reply = pull_reply(answer.reply, epoch_name(request.epoch))
    if reply.patch:
        yield reply_frame(reply)
        return
    if request.partial and request.partial == patch_name(reply, request):
        reply.from_byte = min(request.partial_bytes, patch.nbytes)
    yield reply_frame(reply)
    if download is not None:
        yield from chunk_frames(patch.parts, reply.from_byte, download.next_size)


def _refusal(answer: Answer, retry_after: Seconds = 0.0, reason: str = "") -> bytes:
    if answer is Answer.RETRY:
        retry_after = retry_after or RETRY
    reply = pb.PullReply(
        refused=answer_code(answer), retry_after=retry_after, reason=reason
    )
    return reply_frame(reply)
