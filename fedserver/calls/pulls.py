"""Answers pulls: a client waits for work, and downloads the model."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from fedwire.convert import (
    INLINE,
    answer_code,
    epoch_name,
    patch_name,
    pull_reply,
    read_pull,
)
from fedwire.frames import CHUNK, FIRST, chunk_frames, reply_frame
from fedwire.v1 import federation_pb2 as pb

from fedcore.coordinator.actions import Refuse, SendReply
from fedcore.coordinator.events import ClientPulled
from fedcore.errors import ProtocolError
from fedcore.protocol import Answer, Pull
from fedcore.typing import Seconds
from fedrun.run import fresh_name
from fedserver.calls.callers import Backend, Limit, Line, Newest

# ------------- sends few large answers at a time; ends those whose clients stand still
#
# Chunks are small until the server knows how fast a client reads, so that it does not
# mistake a client on a slow link for one that stands still.
#
# Clients that have taken an answer before come first in the line for a place. A client
# that let others wait comes behind them, and makes room at once.


BRIEF: Seconds = 5.0  # a client may stand still for this long while others wait
NEW = 5  # clients that have never taken an answer may do so 1/NEW as long
BUFFERED = 4 << 20  # bytes that buffers on the path may hold, however slow the link is


@dataclass(slots=True, eq=False)
class Download:
    """An answer that is being sent."""

    cid: str
    limit: Limit
    chunk: int = FIRST  # the client's speed in bytes a second, if known
    began: Seconds = field(default_factory=time.monotonic)
    touched: Seconds = field(default_factory=time.monotonic)
    nbytes: int = 0  # bytes that the client has taken
    is_taken: bool = False  # the client has taken all of it
    is_ended: bool = False

    def touch(self, nbytes: int) -> None:
        """Notes that the client has taken ``nbytes`` more."""
        self.touched = time.monotonic()
        self.nbytes += nbytes
        if self.nbytes >= BUFFERED:
            took = max(1e-3, self.touched - self.began)
            self.chunk = min(CHUNK, max(FIRST, int(self.nbytes / took)))

    def next_size(self) -> int:
        """Returns the largest number of bytes for the next chunk."""
        return self.chunk


class Downloads:
    """All large answers that are being sent."""

    def __init__(self, most: int) -> None:
        """Sends at most ``most`` answers at a time."""
        self._most = most
        self._open: set[Download] = set()
        self._line = Line()
        self._spent: dict[str, Seconds] = {}  # by cid, on answers that were not taken
        self._takers: dict[str, int] = {}  # by cid: the last chunk taken

    @asynccontextmanager
    async def place(self, cid: str, limit: Limit) -> AsyncIterator[Download]:
        """Waits for a place; ``limit`` can end the call that holds the place."""
        is_new, spent = cid not in self._takers, self._spent.get(cid, 0.0)

        def take() -> Download | None:
            if self.is_full:
                self._make_room(spent, is_new=is_new)
                return None
            download = Download(cid, limit, self._takers.get(cid, FIRST))
            self._open.add(download)
            return download

        download = await self._line.turn(take, is_new, spent)
        try:
            yield download
        finally:
            self._open.discard(download)
            if download.is_taken:
                self._spent.pop(cid, None)
                self._takers[cid] = download.chunk
            else:
                stood = time.monotonic() - download.touched
                self._spent[cid] = self._spent.get(cid, 0.0) + stood
            self._line.move()

    @property
    def waiting(self) -> int:
        """The number of clients that are waiting for a place."""
        return len(self._line)

    @property
    def is_full(self) -> bool:
        """Whether all places are taken."""
        return len(self._open) >= self._most

    def _make_room(self, spent: Seconds, *, is_new: bool) -> None:
        """Ends the answer that has stood still the longest, if that is too long."""
        now = time.monotonic()

        def stood(download: Download) -> Seconds:
            still = self._spent.get(download.cid, 0.0) + now - download.touched
            is_newer = download.cid not in self._takers and not is_new
            return still * (NEW if is_newer else 1)

        open_ = [each for each in self._open if not each.is_ended]
        ending = len(self._open) - len(open_)
        if ending >= len(self._line) or not open_:
            return
        slowest = max(open_, key=stood)
        if stood(slowest) > BRIEF + spent:
            slowest.is_ended = True
            slowest.limit.end()


# --------------------- answers pulls: a client waits for work, and downloads the model


RETRY: Seconds = 1.0  # after this time, a client asks again
PLACE: Seconds = 60.0  # beyond ``timeouts.hold``, to wait for a place to download
Context = Any
Write = Callable[[bytes], Awaitable[None]]


class Stalled(Exception):  # noqa: N818 -- no fault of the server
    """The client does not read the answer."""


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
        """Sends the model and a task, as soon as there is a task.

        Raises:
            Stalled: the client does not read the answer.
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
                    if _is_large(answer):  # the first frame is made when it may be sent
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
        """Sends frames as fast as the client reads them."""
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
    """Returns the attributes of an answer for a trace."""
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
    """Yields the frames of an answer; resumes an interrupted download."""
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
