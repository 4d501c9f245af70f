"""The gRPC service of one run: its methods, and the count of its messages."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import grpc
from fedwire.frames import peek_chunk, read_header, read_reply
from fedwire.keys import cid_of
from fedwire.service import PREFIX, UNARY
from fedwire.v1 import federation_pb2 as pb
from google.protobuf.message import DecodeError, Message

from fedcore.coordinator.answers import why_not_freed
from fedcore.coordinator.events import Freed
from fedcore.errors import ConfigError, HandlingError, ProtocolError
from fedcore.typing import Bytes, Seconds
from fedrun.run import Run
from fedrun.tracing import Tracer
from fedrun.traffic import CONTROL, OTHERS, UNKNOWN, Lane, Traffic, Way, codec_of
from fedserver.calls.acts import Acts
from fedserver.calls.callers import (
    OPERATOR,
    Attendance,
    Backend,
    Callers,
    Sessions,
    by_socket,
)
from fedserver.calls.connections import Disconnector
from fedserver.calls.enrolment import Enrolment, Trials
from fedserver.calls.pulls import Pulls, Stalled
from fedserver.calls.pushes import Pushes, PushFrames
from fedserver.calls.reports import Reports
from fedserver.core import Answers, Core
from fedserver.tracing import VersionSpans

# ------------- the gRPC service of one run, and the objects that carry out its methods


Context = Any
Status = Callable[[bool], Awaitable[str]]


class FederationService:
    """The service, with one coroutine for each of its methods."""

    def __init__(
        self,
        run: Run,
        core: Core,
        answers: Answers,
        sessions: Sessions,
        status: Status,
        versions: VersionSpans,
    ) -> None:
        """Prepares the methods.

        Args:
            run: the run that is served.
            core: takes the decisions.
            answers: the calls that wait for the core.
            sessions: the client processes.
            status: returns the whole status, or the public part of it.
            versions: makes a span for each version.
        """
        self._core, self._status = core, status
        tracer = versions.tracer
        callers = self._callers = Callers(run, core, tracer)
        backend = Backend(run, core, answers, sessions, callers, tracer, versions)
        self.pulls, self.pushes = Pulls(backend), Pushes(backend)
        attendance = Attendance(backend, self.pulls.informed)
        most = self.pushes.max_update_bytes
        enrolment = Enrolment(backend, most)
        self.enrol, self.check = enrolment.enrol, enrolment.check
        self.trial = Trials(backend, self.pushes.opening, most).trial
        self.attend, self.leave = attendance.attend, attendance.leave
        self.pull = self.pulls.pull
        self.push, self.resume = self.pushes.push, self.pushes.resume
        self.report = Reports(backend).report
        self.operate = Acts(backend).operate

    @property
    def informed(self) -> set[str]:
        """The ids of the clients that know that the run has ended."""
        return self.pulls.informed

    def drain(self) -> None:
        """Accepts nothing new from now on; uploads that have begun may finish."""
        self._callers.draining = True

    def close(self) -> None:
        """Ends the threads of the service; no call may come after this."""
        self.pushes.close()

    async def status(
        self, request: pb.StatusRequest, context: Context
    ) -> pb.StatusReply:
        """Returns the state of the run, as JSON."""
        gate = self._callers.gate
        is_operator = gate.is_operator(context)
        if gate.is_closed and not is_operator:
            await context.abort(
                grpc.StatusCode.PERMISSION_DENIED,
                "the status is for operators: show a certificate of the organizational "
                f"unit {OPERATOR!r}",
            )
        return pb.StatusReply(json=await self._status(is_operator))

    async def free(self, request: pb.FreeRequest, context: Context) -> pb.FreeReply:
        """Frees a client's name for others, if this machine's operator asks for it."""
        if not by_socket(context):
            await context.abort(
                grpc.StatusCode.PERMISSION_DENIED,
                "names are freed where the run is: fedserver free RUN CLIENT",
            )
        freed = Freed(at=self._core.now(), name=request.name)
        try:
            await self._core.ask(
                lambda _: None,
                after=freed,
                unless=lambda c: why_not_freed(freed, c.state),
            )
        except ConfigError:
            return pb.FreeReply(was_taken=False)
        return pb.FreeReply(was_taken=True)


# ------------------------- counts each message of the service when it is taken or given
#
# A message counts with the bytes that gRPC hands over or takes, and a payload with its
# bytes in messages. A message to a client counts once gRPC has taken it, whether or not
# the client still gets it.


LONGEST: Seconds = 60.0  # a short call is ended after this time
Raw = Callable[[bytes, Context], Awaitable[bytes]]


class Metered:
    """A federation service that takes and returns bytes, and counts all messages."""

    def __init__(
        self,
        service: FederationService,
        traffic: Traffic,
        disconnector: Disconnector,
        is_known: Callable[[str], bool],
        tracer: Tracer,
    ) -> None:
        """Sets ``is_known``, which tells whether a client's id belongs to the run."""
        self._tracer = tracer
        self._service, self._traffic = service, traffic
        self._disconnector, self._is_known = disconnector, is_known
        # The codec is in a payload's first bytes, which are missing in a resumed
        # payload.
        self._begun: dict[tuple[str, Way], str] = {}
        for name, (request, _) in UNARY.items():
            setattr(self, name.lower(), self._unary(name.lower(), request))

    def _unary(self, name: str, kind: type[Message]) -> Raw:
        method = getattr(self._service, name)

        async def call(raw: bytes, context: Context) -> bytes:
            cid = OTHERS
            try:
                request: Any = await _read(kind, raw, context)
                try:
                    async with _one_call(context), asyncio.timeout(LONGEST):
                        reply = await method(request, context)
                    data: bytes = reply.SerializeToString()
                finally:
                    cid = self._account(getattr(request, "key", b""))
            finally:
                self._control(cid, "up", raw)
            self._control(cid, "down", data)
            return data

        return call

    async def pull(self, raw: bytes, context: Context) -> None:
        """Sends the model and a task, as soon as there is a task."""
        request = await _read(pb.PullRequest, raw, context)
        cid = self._account(request.key)
        self._control(cid, "up", raw)
        download = _Transfer("down")

        async def write(frame: bytes) -> None:
            await context.write(frame)
            download.saw(frame)

        metadata = context.invocation_metadata()
        try:
            async with _one_call(context):
                with self._tracer.serve("pull", metadata):
                    await self._service.pull(request, context, write)
        except Stalled as error:
            self._disconnector.end(context.peer())
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, str(error))
        finally:
            self._enter(cid, download)

    async def push(self, frames: AsyncIterator[bytes], context: Context) -> bytes:
        """Takes an update, returns its verdict, and counts both."""
        upload = _Upload(frames)
        cid = OTHERS
        metadata = context.invocation_metadata()
        try:
            async with _one_call(context):
                with self._tracer.serve("push", metadata):
                    reply = await self._service.push(upload, context)
        finally:
            cid = self._account(upload.key)
            self._enter(cid, upload.transfer)
        data: bytes = reply.SerializeToString()
        self._control(cid, "down", data)
        return data

    async def trial(self, frames: AsyncIterator[bytes], context: Context) -> bytes:
        """Takes a trial; its bytes count for no client, and not as a payload."""
        upload = _Upload(frames)
        try:
            async with _one_call(context):
                reply = await self._service.trial(upload, context)
        finally:
            lane = Lane(OTHERS, "up", CONTROL)
            self._traffic.count(lane, framed=upload.transfer.framed)
        data: bytes = reply.SerializeToString()
        self._control(OTHERS, "down", data)
        return data

    async def attend(
        self, raw: AsyncIterator[bytes], context: Context
    ) -> AsyncIterator[bytes]:
        """Takes heartbeats, yields notices, and counts both."""
        cid = OTHERS

        async def beats() -> AsyncIterator[pb.Beat]:
            nonlocal cid
            async for data in raw:
                beat = await _read(pb.Beat, data, context)
                if beat.key:
                    cid = self._account(beat.key)
                self._control(cid, "up", data)
                yield beat

        async with aclosing(self._service.attend(beats(), context)) as notices:
            async for notice in notices:
                data = notice.SerializeToString()
                yield data
                self._control(cid, "down", data)

    def _account(self, key: bytes) -> str:
        """Returns the client that a message counts for; OTHERS if it is unknown."""
        with contextlib.suppress(ProtocolError):  # the service answers it
            if self._is_known(cid := cid_of(key)):
                return cid
        return OTHERS

    def _control(self, cid: str, way: Way, data: bytes) -> None:
        self._traffic.count(Lane(cid, way, CONTROL), framed=PREFIX + len(data))

    def _enter(self, cid: str, transfer: "_Transfer") -> None:
        """Counts the payload of a call that has ended or was interrupted."""
        way, codec = transfer.way, transfer.codec
        if codec == UNKNOWN and not transfer.is_from_the_start:
            codec = self._begun.get((cid, way), UNKNOWN)
        if codec != CONTROL:
            if transfer.is_whole:
                self._begun.pop((cid, way), None)
            elif cid != OTHERS:
                self._begun[cid, way] = codec
        self._traffic.count(
            Lane(cid, way, codec),
            framed=transfer.framed,
            payload=transfer.payload,
            transfers=transfer.is_whole,
        )


class _Transfer:
    """The bytes of one call's messages, and of the payload in them."""

    def __init__(self, way: Way) -> None:
        self.way = way
        self.codec = CONTROL
        self.framed = self.payload = 0
        self.is_whole = False
        self.is_from_the_start = False
        self._size = -1  # of the payload; -1 before the first message

    def saw(self, frame: bytes) -> None:
        """Counts a message that was sent or received."""
        self.framed += PREFIX + len(frame)
        with contextlib.suppress(ProtocolError):  # the service answers it
            if self._size < 0:
                self._size = 0
                reply = read_reply(frame)
                self.begin(reply.patch, sum(reply.lengths) or len(reply.patch))
            elif self._size:
                self._take(*peek_chunk(frame))

    def begin(self, payload: bytes, size: int) -> None:
        """Counts the part of a payload of ``size`` bytes in the first message."""
        self._size = size
        if size:
            self.codec = UNKNOWN
        self._take(0, payload)

    def _take(self, offset: int, data: Bytes) -> None:
        if not len(data):
            return
        if not offset:
            self.codec, self.is_from_the_start = codec_of(data), True
        self.payload += len(data)
        self.is_whole = offset + len(data) == self._size


class _Upload(PushFrames):
    """The messages of a push, counted as the service takes them."""

    def __init__(self, frames: AsyncIterator[bytes]) -> None:
        super().__init__(frames)
        self.transfer = _Transfer("up")
        self.key = b""

    async def header(self) -> pb.PushHeader:
        frame = await anext(self._frames, None)
        if frame is None:
            return read_header(b"")  # raises what a missing header is answered with
        self.transfer.framed += PREFIX + len(frame)
        header = read_header(frame)
        self.key = header.key
        self.transfer.begin(header.payload, header.size or len(header.payload))
        return header

    async def __anext__(self) -> bytes:
        frame = await anext(self._frames)
        self.transfer.saw(frame)
        return frame


@asynccontextmanager
async def _one_call(context: Context) -> AsyncIterator[None]:
    """Ends a call with a reason if the server cannot handle it."""
    try:
        yield
    except HandlingError as error:
        await context.abort(grpc.StatusCode.INTERNAL, str(error))
    except TimeoutError:
        await context.abort(
            grpc.StatusCode.DEADLINE_EXCEEDED, "the call has taken too long"
        )


async def _read(kind: type[Any], data: bytes, context: Context) -> Any:
    """Parses a message; aborts the call if it cannot be read."""
    try:
        return kind.FromString(data)
    except DecodeError as error:
        await context.abort(
            grpc.StatusCode.INVALID_ARGUMENT, f"the message cannot be read: {error}"
        )
