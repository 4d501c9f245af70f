"""Takes pushes: receives a whole update, makes it durable, and acknowledges it."""

import asyncio
import logging
import time
import zlib
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Self

import grpc
from fedwire.convert import INLINE, answer_code, push_reply, read_answer, read_push
from fedwire.frames import Part, read_chunk, read_header
from fedwire.v1 import federation_pb2 as pb

from fedcore import payloads
from fedcore.algorithm import Algorithm
from fedcore.coordinator.events import Opened, UpdatePushed
from fedcore.coordinator.rounds import open_update
from fedcore.errors import ProtocolError, UnavailableError
from fedcore.params import content_digest
from fedcore.payloads import room
from fedcore.protocol import Answer, Push
from fedcore.typing import Bytes, Seconds
from fedrun.json_lines import concern
from fedrun.run import Run
from fedserver.calls.callers import Backend, Limit, Line, Newest
from fedserver.core import Core

# ------------------------------------------------ decodes updates on threads of its own
#
# A payload of a few bytes may describe every value of the model. The uplink's codec
# declares how much decoding may cost, and the server refuses an update that would cost
# more. Threads decode the others, so that the core thread only has to add them.


THREADS = 2
LIGHT = 1 << 14  # values; below this, decoding is cheaper than switching threads
PER_VALUE = 16  # bytes of a decoded update per entry: the index and the value
LEAST, MOST = 4, 256  # updates at a time that are being decoded or wait for the core


class Opening:
    """Decodes the updates of one federation."""

    def __init__(self, algorithm: Algorithm, most_bytes: int) -> None:
        """Lets at most ``most_bytes`` of decoded updates wait for the core thread."""
        self._spec = algorithm.spec
        self._declared = algorithm.config.list_formats(algorithm.spec)
        steps = max(self._declared.values())
        values = min(steps, self._spec.dim)
        together = most_bytes // max(1, PER_VALUE * values)
        self.room = asyncio.Semaphore(min(MOST, max(LEAST, together)))
        self._threads = ThreadPoolExecutor(THREADS, "opening")

    async def open(self, data: Bytes) -> Opened:
        """Decodes an update."""
        if self._declared.get(payloads.format_of(data), 0) <= LIGHT:
            return open_update(data, self._spec, self._declared)
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, open_update, data, self._spec, self._declared
        )

    def close(self) -> None:
        """Ends the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)


# ------- keeps updates in memory from their first byte to their verdict, within bounds
#
# Each client has one update at a time; a newer one ends the older one. An update that
# finds no room waits in a line. An interrupted transfer continues where it stopped,
# unless another one needed its buffer. A transfer that is too slow is stopped after a
# while, or at once when its room is needed.


Name = tuple[str, int, str]  # cid, sequence number, digest of the payload
IDLE: Seconds = 120.0  # an upload that makes no progress for this long is dropped
BRIEF: Seconds = 5.0  # a client may stall for this long while others need room
NEW = 5  # clients that have never delivered an update may do so 1/NEW as long


class NoRoomError(UnavailableError):
    """There is no free place, or not enough memory."""


def _no_transfer() -> None:
    """Does nothing, because the transfer has ended."""


@dataclass(slots=True)
class Upload:
    """One payload, or the part of it that has been received."""

    name: Name
    buffer: Bytes
    received: int = 0
    in_use: bool = False
    is_decided_on: bool = False  # the payload is whole, and waits for its verdict
    is_released: bool = False
    is_inline: bool = False
    began: Seconds = 0.0  # of the current transfer
    touched: Seconds = field(default_factory=time.monotonic)
    stop: Callable[[], None] = _no_transfer  # ends the current transfer

    def write(self, part: Part) -> None:
        """Writes the next chunk; a chunk at byte 0 begins again.

        Raises:
            ProtocolError: it is not the next chunk, or there is no room for it.
            UnavailableError: another upload needed the buffer.
        """
        if self.is_released:
            raise UnavailableError("the buffer was needed for another upload")
        if part.offset not in (0, self.received):
            raise ProtocolError(f"expected byte {self.received}, got {part.offset}")
        end = part.offset + len(part.data)
        if end > len(self.buffer):
            raise ProtocolError(f"{end} bytes in an update of {len(self.buffer)}")
        assert isinstance(self.buffer, memoryview)
        self.buffer[part.offset : end] = part.data
        self.received = end
        self.touched = time.monotonic()

    @property
    def is_whole(self) -> bool:
        """Whether the payload is complete."""
        return not self.is_released and self.received == len(self.buffer)

    def release(self) -> None:
        """Frees the memory; a transfer that still writes to it fails."""
        self.buffer, self.is_released = b"", True


class Uploads:
    """All updates in memory, one for each client."""

    def __init__(
        self,
        most: int,
        most_bytes: int,
        patience: Seconds,
        slowest: float,
        room: Callable[[int], memoryview] = room,
    ) -> None:
        """Begins without any update.

        Args:
            most: the maximum number of transfers of large payloads at a time.
            most_bytes: the maximum size of all payloads in memory, until their verdict.
            patience: seconds in all for which an upload may stall.
            slowest: the minimum rate of an upload, in bytes a second.
            room: returns memory for an update.
        """
        self._room = room
        self._most, self._most_bytes = most, most_bytes
        self._patience, self._slowest = patience, slowest
        self._open: dict[str, Upload] = {}  # by cid
        self._spent: dict[str, Seconds] = {}  # seconds spent on transfers that failed
        self._known: set[str] = set()  # ids of clients that have delivered an update
        self._lines = {True: Line(most), False: Line(most)}  # by: is it in one piece?
        self._since: dict[str, Seconds] = {}  # the arrival time of each waiting client
        self.nbytes = 0  # that are held now
        self._large = 0  # payloads that are held and did not come in one piece

    async def turn(
        self, name: Name, take: Callable[[], Upload], *, is_inline: bool
    ) -> Upload:
        """Waits for room; returns the result of :meth:`begin` or :meth:`hold`.

        A client that was asked to come back keeps its place in the line.

        Raises:
            UnavailableError: too many clients wait, or this one waits for a verdict.
        """
        if self.received(name):
            return take()  # its room is kept

        def taken() -> Upload | None:
            try:
                return take()
            except NoRoomError:
                return None

        since = self._since.setdefault(name[0], time.monotonic())
        upload = await self._lines[is_inline].turn(taken, since)
        self._since.pop(name[0], None)
        return upload

    def begin(
        self, name: Name, size: int, stop: Callable[[], None] = _no_transfer
    ) -> Upload:
        """Returns the buffer of an upload: a new one, or one that holds the first part.

        ``stop`` is called if the transfer must end before it is complete.

        Raises:
            NoRoomError: there is no room.
            UnavailableError: the client waits for a verdict.
        """
        upload = self._take_up(name, size)
        if upload is None:
            self._drop_idle()
            self._make_room(size, is_inline=False)
            upload = Upload(name, self._room(size))
            self._keep(upload)
        upload.in_use, upload.stop = True, stop
        upload.began = upload.touched = time.monotonic()
        return upload

    def hold(
        self, name: Name, payload: Bytes, stop: Callable[[], None] = _no_transfer
    ) -> Upload:
        """Holds a small payload that was received in one piece.

        Raises:
            NoRoomError: there is no room.
            UnavailableError: the client waits for a verdict.
        """
        before = self._take_up(name, -1)
        assert before is None
        self._make_room(len(payload), is_inline=True)
        upload = Upload(name, payload, len(payload), in_use=True, is_inline=True)
        upload.began, upload.stop = time.monotonic(), stop
        self._keep(upload)
        return upload

    def _take_up(self, name: Name, size: int) -> Upload | None:
        """Returns an upload to resume; drops any other upload of the client."""
        before = self._open.get(name[0])
        if before is None:
            return None
        if before.is_decided_on:
            raise UnavailableError("another message of this client is being decided on")
        if before.name == name and not before.in_use and len(before.buffer) == size:
            return before
        self._drop(before)  # if it is in use, its connection broke unnoticed
        return None

    def is_waiting(self, name: Name) -> bool:
        """Returns whether this message waits for its verdict already."""
        upload = self._open.get(name[0])
        return upload is not None and upload.is_decided_on and upload.name == name

    def received(self, name: Name) -> int:
        """Returns the number of bytes of an upload that have arrived."""
        upload = self._open.get(name[0])
        if upload is None or upload.name != name or upload.in_use:
            return 0
        return upload.received

    def ends(self, upload: Upload) -> Seconds:
        """Returns the time on the monotonic clock at which a transfer must end."""
        return upload.began + self._patience + upload.received / self._slowest

    def cut(self, upload: Upload) -> None:
        """Ends a transfer, but keeps the received part so that it can be resumed.

        In this way an upload over the slowest link gets through in parts, while there
        is room.
        """
        if upload.is_inline:
            self.end(upload)
        else:
            self._end_transfer(upload)
            self._move()

    def decide(self, upload: Upload) -> None:
        """Keeps a complete and undamaged payload until :meth:`end`."""
        upload.is_decided_on, upload.stop = True, _no_transfer
        self._spent.pop(upload.name[0], None)
        self._known.add(upload.name[0])

    def end(self, upload: Upload) -> None:
        """Frees the buffer of an upload."""
        if self._open.get(upload.name[0]) is upload:
            del self._open[upload.name[0]]
            self.nbytes -= len(upload.buffer)
            self._large -= not upload.is_inline
            self._end_transfer(upload)
            self._move()

    def forget(self, cid: str) -> None:
        """Drops everything about a client, unless it has a newer transfer."""
        upload = self._open.get(cid)
        if upload is not None and not upload.in_use:
            self._drop(upload)
        self._spent.pop(cid, None)
        self._since.pop(cid, None)

    def _move(self) -> None:
        """Lets the waiting clients check for room."""
        for line in self._lines.values():
            line.move()

    def _keep(self, upload: Upload) -> None:
        self._open[upload.name[0]] = upload
        self.nbytes += len(upload.buffer)
        self._large += not upload.is_inline

    def _drop_idle(self) -> None:
        now = time.monotonic()
        for upload in list(self._open.values()):
            if not upload.in_use and now - upload.touched > IDLE:
                self._drop(upload)

    def _make_room(self, size: int, *, is_inline: bool) -> None:
        now = time.monotonic()
        while not self._has_room(size, is_inline=is_inline):
            slow = min(
                self._open.values(), key=lambda u: self._lead(u, now), default=None
            )
            if slow is None or self._lead(slow, now) >= 0:
                raise NoRoomError("there is no room for another update")
            self._drop(slow)

    def _has_room(self, size: int, *, is_inline: bool) -> bool:
        if self.nbytes + size > self._most_bytes:
            return False
        return is_inline or self._large < self._most

    def _lead(self, upload: Upload, now: Seconds) -> float:
        """Returns the bytes by which it is ahead of the slowest rate."""
        if upload.is_decided_on:
            return 0.0
        if not upload.in_use:  # uploads that have waited the longest go first
            return -1e18 + upload.touched
        cid = upload.name[0]
        spent = self._spent.get(cid, 0.0) + now - upload.began
        brief = BRIEF if cid in self._known else BRIEF / NEW
        return min(0.0, upload.received - self._slowest * (spent - brief))

    def _drop(self, upload: Upload) -> None:
        stop = upload.stop
        self.end(upload)
        upload.release()
        stop()

    def _end_transfer(self, upload: Upload) -> None:
        """Ends a transfer, and adds its time to the client's failed transfers."""
        if upload.in_use and not upload.is_decided_on:
            cid, spent = upload.name[0], time.monotonic() - upload.began
            self._spent[cid] = self._spent.get(cid, 0.0) + spent
        upload.in_use, upload.stop = False, _no_transfer


# --------------- receives the payload of an update: whole, undamaged, and within limits


IN_THREAD = 256 << 10  # payloads from this size on are hashed beside the event loop


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


class Receiver:
    """Receives payloads into uploads; a client's newer one ends its earlier one."""

    def __init__(self, uploads: Uploads, most: int, stall: Seconds) -> None:
        """Sets the maximum payload size and the longest stall of a transfer."""
        self.uploads, self._most, self._stall = uploads, most, stall
        self._newest = Newest()

    async def header(self, frames: PushFrames) -> pb.PushHeader:
        """Reads the header of a push, and checks the announced size of the payload.

        Raises:
            TimeoutError: the header does not arrive.
            ProtocolError: it is not a header, or the update is too large.
        """
        async with asyncio.timeout(self._stall):
            header = await frames.header()
        self._check_size(header.size or len(header.payload))
        return header

    def _check_size(self, size: int) -> None:
        if size > self._most:
            raise ProtocolError(
                f"an update of {size} bytes; the limit of this server is "
                f"{self._most} (server.max_update_bytes)"
            )

    async def receive(
        self, name: Name, header: pb.PushHeader, frames: PushFrames
    ) -> Upload | None:
        """Returns the payload; None unless it arrived whole, undamaged and in time."""
        with self._newest.call(name[0]) as limit:
            try:
                upload = await self._place(name, header, limit)
            except (UnavailableError, TimeoutError):
                return None
            return await self._fill(upload, frames, limit)

    async def _place(self, name: Name, header: pb.PushHeader, limit: Limit) -> Upload:
        """Waits for room, and returns a place for an update.

        Raises:
            UnavailableError: the client waits for a verdict.
            TimeoutError: there was no room for too long, or a newer update arrived.
        """

        def take() -> Upload:
            if header.size:
                return self.uploads.begin(name, header.size, limit.end)
            return self.uploads.hold(name, header.payload, limit.end)

        async with limit.within(self._stall):
            return await self.uploads.turn(name, take, is_inline=not header.size)

    async def _fill(
        self, upload: Upload, frames: PushFrames, limit: Limit
    ) -> Upload | None:
        """Receives the payload of an upload; returns None as :meth:`receive` does."""
        is_kept = False
        try:
            async with limit.within(0) as waiting:
                waiting.reschedule(self.uploads.ends(upload))
                async for frame in frames:
                    if upload.is_inline:
                        raise ProtocolError(
                            "a frame after a payload that was in the first one"
                        )
                    upload.write(read_chunk(frame))
                    waiting.reschedule(self.uploads.ends(upload))
            if upload.is_whole:
                is_kept = await _is_unharmed(upload)
                if not is_kept:
                    self.uploads.end(upload)
        except (UnavailableError, TimeoutError):
            pass  # damaged in transit, too slow, or replaced by a newer one
        except ProtocolError:
            self.uploads.end(upload)
            raise
        finally:
            if not is_kept:
                self.uploads.cut(upload)
        return upload if is_kept else None


def upload_name(cid: str, header: pb.PushHeader) -> Name | None:
    """Returns the name of an update; None if the update was damaged in transit."""
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
    """Returns whether the digest of the whole payload matches the announced one."""
    if upload.is_inline:
        return True  # the upload's name contains the digest
    if len(upload.buffer) < IN_THREAD:
        found = content_digest(upload.buffer)
    else:
        found = await asyncio.to_thread(content_digest, upload.buffer)
    return found == upload.name[2] and not upload.is_released


# --------- takes pushes: receives a whole update, makes it durable, and acknowledges it


_log = logging.getLogger(__name__)
RETRY: Seconds = 1.0  # after this time, a client pushes again
ROOM = 256 << 20  # bytes of updates in memory, if the config sets no limit
VERDICT: Seconds = 60.0  # seconds to wait for a verdict before the client asks again
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
        self._uploads = _make_uploads(run, backend.core, self.max_update_bytes)
        self._receiver = Receiver(
            self._uploads, self.max_update_bytes, run.config.timeouts.stall
        )
        self.opening = Opening(algorithm, ROOM)

    async def push(self, frames: PushFrames, context: Context) -> pb.PushReply:
        """Receives a whole update, makes it durable, and returns its verdict."""
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
                        self._uploads.end(upload)  # another message arrived meanwhile
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
        """Returns the number of bytes of an upload that have arrived."""
        cid = await self._callers.cid(request.key, context)
        name = (cid, request.seq, request.digest.hex())
        return pb.ResumeReply(received=self._uploads.received(name))

    def close(self) -> None:
        """Ends the threads that decode updates; no push may come after this."""
        self.opening.close()

    # ----------------------------------------------------------------- deciding

    def _decide_upload(self, cid: str, header: pb.PushHeader, upload: Upload) -> None:
        """Gets the verdict on a complete update, and then frees its memory."""
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
        """Decides on a client's update, even if no call waits for the verdict.

        Until then, no other update of the client is decided on.

        Args:
            cid: the client whose update it is.
            deciding: returns the answer.
        """
        task = self._judging[cid] = asyncio.create_task(deciding)

        def through(_: Any) -> None:
            del self._judging[cid]
            if not task.cancelled():
                task.exception()  # waiting calls get it; there may be none

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
        """Lets the core decide on an update; returns the answer once it is durable.

        Args:
            push: the update.
            opened: its decoded payload; None if the payload has not arrived.
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
        """Returns whether a large update can be answered only once it has arrived."""
        return self._core.glance(lambda told: told.needs_payload(push), unsure=True)

    async def _verdict(self, cid: str) -> pb.PushReply:
        """Waits for the verdict on this client's update."""
        async with asyncio.timeout(VERDICT):
            reply = await asyncio.shield(self._judging[cid])
        self._sessions.hear(cid)
        return reply


def _make_uploads(run: Run, core: Core, max_update_bytes: int) -> Uploads:
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
