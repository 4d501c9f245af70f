"""A client's calls to its server: they block, can be resumed, and explain failures."""

import math
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import grpc
from fedwire.connect import Address, explaining, is_unanswered
from fedwire.convert import (
    digest_bytes,
    model_name,
    patch_name,
    pull_request,
    push_header,
    read_answer,
    read_pull_reply,
    read_push_reply,
    read_seconds,
)
from fedwire.frames import (
    CHUNK,
    chunk_frames,
    growing,
    header_frame,
    peek_chunk,
    read_chunk,
    read_reply,
)
from fedwire.service import PROTOCOLS, Stub
from fedwire.v1 import federation_pb2 as pb

from fedclient.wire.phases import OFF, Phases
from fedclient.wire.transfer_counter import TransferCounter
from fedcore.errors import ProtocolError, UnavailableError
from fedcore.params import ParamSpec
from fedcore.payloads import room
from fedcore.protocol import Ack, Answer, ModelName, Pull, Push, Reply, Verdict
from fedcore.typing import Bytes, Seconds

CALL: Seconds = 30.0  # a short call that takes longer has failed
PULL: Seconds = 120.0  # a pull waits for work, but not forever
PER_MEGABYTE: Seconds = 30.0  # the slowest accepted link: 0.3 Mbit/s
OVERHEAD = 1 << 16  # bytes by which a patch may exceed the dense model


def _for_ever(held: bool) -> Seconds:
    return math.inf


@dataclass(frozen=True)
class Refusal:
    """The answer to a pull that brings no model."""

    answer: Verdict | Answer
    retry_after: Seconds
    reason: str = ""
    """Why the requested task is refused; empty if the answer has another cause."""


@dataclass
class Partial:
    """A download that was interrupted."""

    name: str = ""
    body: memoryview = field(default_factory=lambda: room(0))
    received: int = 0


class Connection:
    """A channel to one server, for the client with this key."""

    def __init__(
        self,
        address: Address,
        spec: ParamSpec,
        key: bytes = b"",
        room: Callable[[int], memoryview] = room,
    ) -> None:
        """Calls ``room`` to get memory for a download."""
        self.address, self.key, self._room = address, key, room
        self._spec = spec
        self.transferred = TransferCounter()
        self.phases: Phases = OFF
        self.begins: Callable[[bool], Seconds] = _for_ever
        """Is called when a call begins, with whether the server may hold it.

        It returns the maximum duration of the call, or of the connection if the call
        may be held.
        """
        self.open()
        self._partial = Partial()
        self.session = secrets.randbits(64)

    def open(self) -> None:
        """Makes a channel, which connects at the first call."""
        self._channel = self.address.channel()
        self._stub = Stub(self._channel, self.transferred.count)

    def close(self) -> None:
        """Ends all calls, and closes the channel."""
        self._channel.close()

    @contextmanager
    def _calling(self, *, held: bool = False) -> Iterator[Seconds]:
        """Explains the errors of a call; reconnects before a call after silence.

        A new connection also resolves the host's name anew.

        Args:
            held: whether the server may hold the call, or the call carries a model.

        Yields:
            The maximum duration of a short call.
        """
        limit = self.begins(held)
        try:
            with explaining(self.address):
                if held and limit < math.inf:
                    self._connect(limit)
                yield min(CALL, limit)
        except UnavailableError as error:
            if is_unanswered(error.__cause__):
                self.close()
                self.open()
            raise

    def _connect(self, seconds: Seconds) -> None:
        """Waits until the channel is connected or has failed; the call reports which.

        Raises:
            UnavailableError: neither happens in time.
        """
        known = threading.Event()
        ends = (
            grpc.ChannelConnectivity.READY,
            grpc.ChannelConnectivity.TRANSIENT_FAILURE,
        )

        def look(state: grpc.ChannelConnectivity) -> None:
            if state in ends:
                known.set()

        self._channel.subscribe(look, try_to_connect=True)
        try:
            if not known.wait(seconds):
                raise UnavailableError(f"{self.address} does not answer")
        finally:
            self._channel.unsubscribe(look)

    def enrol(self, request: pb.EnrolRequest) -> pb.EnrolReply:
        """Asks to be enrolled.

        Raises:
            UnavailableError: the server does not answer.
            RefusedError: the server refuses this client.
        """
        request.protocols.extend(PROTOCOLS)
        request.spec = self._spec.to_json()
        with self._calling() as limit:
            reply: pb.EnrolReply = self._stub.enrol(request, timeout=limit)
        if reply.protocol not in PROTOCOLS:
            raise ProtocolError(f"{self.address} chose protocol {reply.protocol}")
        if not 0 < reply.heartbeat < math.inf:
            raise ProtocolError(
                f"{self.address} wants a heartbeat every {reply.heartbeat} s"
            )
        return reply

    def check(self, request: pb.CheckRequest) -> pb.CheckReply:
        """Asks whether a client would be enrolled, without enrolling it.

        Raises:
            UnavailableError: the server does not answer.
            RefusedError: it is too old, or will not answer this client.
        """
        request.enrol.protocols.extend(PROTOCOLS)
        request.enrol.spec = self._spec.to_json()
        with self._calling() as limit:
            reply: pb.CheckReply = self._stub.check(request, timeout=limit)
        return reply

    def trial(self, push: Push) -> pb.TrialReply:
        """Sends an update that does not count; returns the verdict it would get."""
        with self._calling(held=True):
            frames, patience = self._frames(push, 0), self._patience(CALL)
            reply: pb.TrialReply = self._stub.trial(frames, timeout=patience)
        return reply

    def pull(self, pull: Pull) -> Reply | Refusal:
        """Asks for the model and for work; resumes an interrupted download."""
        partial = self._partial
        request = pull_request(pull, self.key, partial.name, partial.received)
        call = self.phases.call("request", "download", "down")
        with self._calling(held=True), call:
            headers, patience = self.phases.headers(), self._patience(PULL)
            frames = self._stub.pull(request, timeout=patience, metadata=headers)
            if (frame := next(frames, None)) is None:
                raise ProtocolError(f"{self.address}: an empty answer to a pull")
            self.phases.turn()
            first = read_reply(frame)
            if first.refused:
                answer = read_answer(first.refused)
                return Refusal(answer, read_seconds(first.retry_after), first.reason)
            self.transferred.carry("down", 0, first.patch, len(first.patch))
            body = first.patch or self._download(first, request, frames)
            next(frames, None)  # read to its end: a call that is left open is reset
            reply = read_pull_reply(first, pull, body)
            self.phases.note_version(reply.patch.version)
        self._partial = Partial()
        return reply

    def _download(
        self, first: pb.PullReply, request: pb.PullRequest, frames: Iterator[bytes]
    ) -> Bytes:
        size = sum(first.lengths)
        if size > 4 * self._spec.dim + OVERHEAD:
            raise ProtocolError(
                f"{self.address}: a patch of {size} bytes for a model of "
                f"{4 * self._spec.dim}"
            )
        name, partial = patch_name(first, request), self._partial
        if not first.from_byte or partial.name != name:
            partial = self._partial = Partial(name, self._room(size))
        for frame in frames:
            part = read_chunk(frame)
            self.transferred.carry("down", *part, size)
            end = part.offset + len(part.data)
            if part.offset != partial.received or end > size:
                raise ProtocolError(f"{self.address}: chunks of a patch do not fit")
            partial.body[part.offset : end] = part.data
            partial.received = end
        if partial.received != size:
            raise ProtocolError(
                f"{self.address}: a patch ends at byte {partial.received} of {size}"
            )
        return partial.body.toreadonly()

    def push(self, push: Push, *, again: bool) -> Ack:
        """Sends an update; with ``again``, resumes an interrupted upload."""
        start = 0
        call = self.phases.call("upload", "verdict", "up")
        with self._calling(held=True) as limit, call:
            if again and len(push.payload) > CHUNK:
                request = pb.ResumeRequest(
                    key=self.key, seq=push.seq, digest=digest_bytes(push.digest)
                )
                start = self._stub.resume(request, timeout=limit).received
            frames = self._frames(push, min(start, len(push.payload)))
            headers, patience = self.phases.headers(), self._patience(CALL)
            reply = self._stub.push(frames, timeout=patience, metadata=headers)
        return read_push_reply(reply, push)

    def _frames(self, push: Push, start: int) -> Iterator[bytes]:
        header = push_header(push, self.key)
        self.transferred.carry("up", 0, header.payload, len(header.payload))
        yield header_frame(header)
        if header.size:
            for frame in chunk_frames([push.payload], start, growing()):
                self.transferred.carry("up", *peek_chunk(frame), header.size)
                yield frame
        self.phases.turn()

    def report(
        self,
        model: ModelName,
        values: Mapping[str, float],
        samples: int,
        text: str = "",
    ) -> None:
        """Sends the metrics of an evaluation, and the model's text output."""
        self._call(
            self._stub.report,
            pb.ReportRequest(
                key=self.key,
                model=model_name(model),
                values=values,
                samples=samples,
                text=text,
            ),
        )

    def report_failure(self, error: str) -> None:
        """Reports that the user's code raised."""
        self._call(self._stub.report, pb.ReportRequest(key=self.key, error=error))

    def report_skipped(self, samples: int, why: str) -> None:
        """Reports that the user's code left out samples."""
        request = pb.ReportRequest(key=self.key, error=why, skipped=samples)
        self._call(self._stub.report, request)

    def leave(self) -> None:
        """Tells the server that this client leaves for good."""
        self._call(self._stub.leave, pb.LeaveRequest(key=self.key))

    def ask_while_waiting(self, why: str) -> pb.Notice | None:
        """Tells the server why this client waits; returns a notice to stop, if any.

        Raises:
            UnavailableError: the server does not answer.
        """
        beat = pb.Beat(key=self.key, session=self.session, waiting=why)
        with self._calling() as limit:
            notices = list(self._stub.attend(iter([beat]), timeout=limit))
        return notices[0] if notices else None

    def attend(self, beats: Iterator[pb.Beat]) -> Iterator[pb.Notice]:
        """Sends heartbeats; yields the server's notices."""
        notices: Iterator[pb.Notice] = self._stub.attend(beats)
        return notices

    def _call(self, method: object, request: object) -> None:
        with self._calling() as limit:
            method(request, timeout=limit)  # type: ignore[operator]

    def _patience(self, least: Seconds) -> Seconds:
        return least + PER_MEGABYTE * 4 * self._spec.dim / 1e6
