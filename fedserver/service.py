"""The gRPC service: calls become events, actions become answers."""

import asyncio
import itertools
import json
import logging
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from typing import Any

import grpc
from fedwire.convert import (
    INLINE,
    answer_code,
    digest_bytes,
    epoch_name,
    epoch_number,
    patch_name,
    pull_reply,
    push_reply,
    read_pull,
    read_push,
)
from fedwire.frames import chunk_frames, read_chunk, read_header, reply_frame
from fedwire.service import PROTOCOLS
from fedwire.v1 import federation_pb2 as pb

from fedcore.coordinator.actions import Refuse, SendReply
from fedcore.coordinator.events import (
    ClientEnrolled,
    ClientFailed,
    ClientLeft,
    ClientPulled,
    ModelMeasured,
    Role,
    UpdatePushed,
)
from fedcore.errors import ProtocolError, SpecMismatchError, UnavailableError
from fedcore.params import ParamSpec, content_digest
from fedcore.protocol import Answer, Push
from fedcore.typing import JSON, Bytes, Seconds
from fedcore.workload import LONG_TEXT
from fedrun.run import Run, fresh_name
from fedserver.answers import Answers
from fedserver.core import Core
from fedserver.sessions import Session, Sessions
from fedserver.uploads import Name, Upload, Uploads

_log = logging.getLogger(__name__)
RETRY: Seconds = 1.0
LONG_NAME = 256  # characters of a client's id or name: the server keeps them
IN_THREAD = 256 << 10  # payloads from this size on are hashed beside the event loop
Context = Any


class FederationService:
    """One coroutine for each method of the service."""

    def __init__(
        self,
        run: Run,
        core: Core,
        answers: Answers,
        sessions: Sessions,
        status: Callable[[], JSON],
    ) -> None:
        self._run, self._core = run, core
        self._answers, self._sessions = answers, sessions
        self._status = status
        self._spec = run.coordinator.algorithm.spec
        self._uploads = Uploads(run.config.server.max_uploads)
        self._codes: dict[str, str] = {}
        self._nonces = itertools.count(1)
        # Who has been told this process's settings: a restart may have changed them.
        self._enrolled: set[str] = set()
        self.draining = False
        self.told: set[str] = set()  # who knows that the run has ended
        limit = run.config.server.max_update_bytes
        self.max_update_bytes = limit or 8 * self._spec.dim + (1 << 20)

    # ------------------------------------------------------------- membership

    async def enrol(self, request: pb.EnrolRequest, context: Context) -> pb.EnrolReply:
        """Admits a client to the run."""
        await self._check_fit(request, context)
        for which in ("cid", "name", "code"):
            text = getattr(request, which)
            if len(text) > LONG_NAME:
                await context.abort(
                    grpc.StatusCode.INVALID_ARGUMENT,
                    f"a {which} of {len(text)} characters, the limit is {LONG_NAME}",
                )
        if not request.cid:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "cid is missing")
        await self._check_owner(request.cid, context)
        name = _certified_name(context) or request.name or request.cid
        role: Role = "evaluator" if request.role == pb.ROLE_EVALUATOR else "trainer"
        enrolled = ClientEnrolled(
            at=self._core.now(),
            cid=request.cid,
            name=name,
            role=role,
            index=request.index,
            count=max(1, request.count),
        )
        gone, epoch = await self._core.ask(
            lambda coordinator: (
                coordinator.state.clients[request.cid].left,
                coordinator.state.epoch,
            ),
            after=enrolled,
        )
        if not gone:
            self._enrolled.add(request.cid)
            self._sessions.claim(name, request.cid)
            self._sessions.hear(request.cid)
        config = self._run.config
        return pb.EnrolReply(
            protocol=max(set(PROTOCOLS) & set(request.protocols)),
            run_id=self._run.run_id,
            epoch=epoch_number(epoch),
            origin=digest_bytes(self._run.coordinator.state.published.origin),
            algorithm=config.algorithm.model_dump_json(),
            seed=config.seed,
            name=name,
            share_labels=config.share_labels and config.algorithm.uses_labels,
            heartbeat=config.timeouts.heartbeat,
            max_update_bytes=self.max_update_bytes,
            gone=gone,
            warning=self._compare_code(request),
        )

    async def _check_fit(self, request: pb.EnrolRequest, context: Context) -> None:
        """Refuses whoever cannot take part, with a sentence."""
        refuse = grpc.StatusCode.FAILED_PRECONDITION
        if not set(PROTOCOLS) & set(request.protocols):
            theirs = ", ".join(map(str, request.protocols)) or "none"
            ours = ", ".join(map(str, PROTOCOLS))
            text = f"this server speaks protocol {ours}, the client {theirs}"
            await context.abort(refuse, text)
        if request.run_id and request.run_id != self._run.run_id:
            await context.abort(
                refuse,
                f"the state directory belongs to run {request.run_id}, this server "
                f"has run {self._run.run_id}: use another --state",
            )
        try:
            self._spec.require(ParamSpec.from_json(request.spec), "the client's model")
        except SpecMismatchError as error:
            await context.abort(refuse, str(error))

    async def _check_owner(self, cid: str, context: Context) -> None:
        """Where clients show certificates, each speaks for itself alone."""
        name, row = (
            _certified_name(context),
            self._run.coordinator.state.clients.get(cid),
        )
        if name is not None and row is not None and row.name != name:
            await context.abort(
                grpc.StatusCode.PERMISSION_DENIED,
                f"the certificate is that of {name!r}, the client id that of another",
            )

    def _compare_code(self, request: pb.EnrolRequest) -> str:
        """A warning if this client's code differs from that of the others."""
        if not request.code or not request.name:
            return ""
        others = {code for name, code in self._codes.items() if name != request.name}
        self._codes[request.name] = request.code
        if others and request.code not in others:
            return f"the app's code {request.code} differs from that of other clients"
        return ""

    async def attend(
        self, beats: AsyncIterator[pb.Beat], context: Context
    ) -> AsyncGenerator[pb.Notice, None]:
        """Hears a client's heartbeats, and tells it what it must know."""
        first = await anext(beats, None)
        if first is None:
            return
        await self._check_owner(first.cid, context)
        session = self._sessions.attend(first.cid, first.session)
        listener = asyncio.create_task(self._listen(session, beats))
        try:
            while (notice := await session.notices.get()) is not None:
                yield notice
        finally:
            listener.cancel()
            self._sessions.leave(session)

    async def _listen(self, session: Session, beats: AsyncIterator[pb.Beat]) -> None:
        try:
            async for _ in beats:
                self._sessions.hear(session.cid)
        finally:
            session.notices.put_nowait(None)

    async def leave(self, request: pb.LeaveRequest, context: Context) -> pb.LeaveReply:
        """A client is gone for good."""
        await self._check_owner(request.cid, context)
        left = ClientLeft(at=self._core.now(), cid=request.cid)
        await self._core.ask(lambda _: None, after=left)
        self._sessions.forget(request.cid)
        self._enrolled.discard(request.cid)
        return pb.LeaveReply()

    async def report(
        self, request: pb.ReportRequest, context: Context
    ) -> pb.ReportReply:
        """What an evaluation measured, or that a user's code failed."""
        await self._check_owner(request.cid, context)
        self._sessions.hear(request.cid)
        if request.error:
            text = request.error[-LONG_TEXT:]
            event = ClientFailed(at=self._core.now(), cid=request.cid, error=text)
            self._core.submit(event)
            return pb.ReportReply()
        epoch = await self._core.ask(lambda coordinator: coordinator.state.epoch)
        if epoch_name(request.model.epoch) == epoch:
            measured = ModelMeasured(
                at=self._core.now(),
                cid=request.cid,
                version=request.model.version,
                values=dict(request.values),
                samples=request.samples,
            )
            await self._core.ask(lambda _: None, after=measured)
        return pb.ReportReply()

    async def status(
        self, request: pb.StatusRequest, context: Context
    ) -> pb.StatusReply:
        """The state of the run, as JSON."""
        return pb.StatusReply(json=json.dumps(self._status()))

    # ------------------------------------------------------------------ pulls

    async def pull(
        self, request: pb.PullRequest, context: Context
    ) -> AsyncGenerator[bytes, None]:
        """Model and work, once there is some."""
        try:
            pull = read_pull(request, next(self._nonces))
        except ProtocolError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        await self._check_owner(pull.cid, context)
        self._sessions.hear(pull.cid)
        if self.draining:
            yield _refusal(Answer.RETRY)
            return
        if pull.cid not in self._enrolled:
            yield _refusal(Answer.UNKNOWN)
            return
        self._core.submit(
            ClientPulled(at=self._core.now(), pull=pull, fresh_epoch=fresh_name()),
            lambda error: self._answers.fail(error, "pull", pull.cid, pull.nonce),
        )
        try:
            answer = await self._answers.pull(pull.cid, pull.nonce)
        except asyncio.CancelledError:
            if not self.draining:
                raise
            yield _refusal(Answer.RETRY)
            return
        if isinstance(answer, Refuse):
            yield _refusal(answer.answer)
            return
        for frame in _reply_frames(answer, request):
            yield frame
        if answer.reply.done:
            self.told.add(pull.cid)

    # ----------------------------------------------------------------- pushes

    async def push(
        self, frames: AsyncIterator[bytes], context: Context
    ) -> pb.PushReply:
        """An update: taken in whole, made durable, and then acknowledged."""
        try:
            header = read_header(await anext(frames, b""))
            self._check_size(header.size or len(header.payload))
            await self._check_owner(header.cid, context)
            self._sessions.hear(header.cid)
            if header.cid not in self._enrolled:
                return _no_verdict(Answer.UNKNOWN)
            if self.draining:
                return _no_verdict(Answer.RETRY)
            payload = await self._payload(header, frames)
            if payload is None:
                return _no_verdict(Answer.RETRY)
            push = read_push(header, *payload)
        except ProtocolError as error:
            _log.warning("refused a push: %s", error)
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        return await self._decide(push)

    async def _decide(self, push: Push) -> pb.PushReply:
        event = UpdatePushed(at=self._core.now(), push=push)
        self._core.submit(
            event,
            lambda error: self._answers.fail(
                error, "push", push.cid, push.seq, push.digest
            ),
        )
        answer = await self._answers.push(push.cid, push.seq, push.digest)
        self._sessions.hear(push.cid)
        return push_reply(answer.ack)

    def _check_size(self, size: int) -> None:
        if size > self.max_update_bytes:
            raise ProtocolError(
                f"an update of {size} bytes; the limit of this server is "
                f"{self.max_update_bytes} (server.max_update_bytes)"
            )

    async def _payload(
        self, header: pb.PushHeader, frames: AsyncIterator[bytes]
    ) -> tuple[Bytes, str] | None:
        """The payload and its digest; None if it did not arrive whole and unharmed."""
        if header.size:
            payload = await self._receive(header, frames)
            return None if payload is None else (payload, header.digest.hex())
        if len(header.payload) > INLINE:
            raise ProtocolError(
                f"a payload of {len(header.payload)} bytes in the first frame; the "
                f"limit is {INLINE}"
            )
        async for _ in frames:
            raise ProtocolError("a frame behind a payload that was in the first one")
        if zlib.crc32(header.payload) != header.crc32:
            return None
        return header.payload, content_digest(header.payload)

    async def _receive(
        self, header: pb.PushHeader, frames: AsyncIterator[bytes]
    ) -> Bytes | None:
        """A payload that comes in chunks."""
        name: Name = (header.cid, header.seq, header.digest.hex())
        try:
            upload = self._uploads.begin(name, header.size)
        except UnavailableError:
            return None
        try:
            async for frame in frames:
                upload.write(read_chunk(frame))
        except UnavailableError:
            return None  # damaged on its way; what came before it is sound
        except ProtocolError:
            self._uploads.end(name, upload)
            raise
        finally:
            self._uploads.pause(upload)
        if not upload.is_whole:
            return None
        self._uploads.end(name, upload)
        return upload.buffer if await _is_unharmed(upload, name) else None

    async def resume(
        self, request: pb.ResumeRequest, context: Context
    ) -> pb.ResumeReply:
        """How much of an upload is here."""
        name = (request.cid, request.seq, request.digest.hex())
        return pb.ResumeReply(received=self._uploads.received(name))


async def _is_unharmed(upload: Upload, name: Name) -> bool:
    if len(upload.buffer) < IN_THREAD:
        return content_digest(upload.buffer) == name[2]
    return await asyncio.to_thread(content_digest, upload.buffer) == name[2]


def _reply_frames(answer: SendReply, request: pb.PullRequest) -> Iterator[bytes]:
    """The frames of a reply; a download that was cut off goes on where it stopped."""
    patch = answer.reply.patch
    told = pull_reply(answer.reply, epoch_name(request.epoch))
    if told.patch:
        yield reply_frame(told)
        return
    if request.partial and request.partial == patch_name(told, request):
        told.from_byte = min(request.partial_bytes, patch.nbytes)
    yield reply_frame(told)
    yield from chunk_frames(patch.parts, told.from_byte)


def _refusal(answer: Answer) -> bytes:
    wait = RETRY if answer is Answer.RETRY else 0.0
    return reply_frame(pb.PullReply(refused=answer_code(answer), retry_after=wait))


def _no_verdict(answer: Answer) -> pb.PushReply:
    wait = RETRY if answer is Answer.RETRY else 0.0
    return pb.PushReply(answer=answer_code(answer), retry_after=wait)


def _certified_name(context: Context) -> str | None:
    """The name in the client's certificate, if it showed one."""
    auth = context.auth_context()
    for key in ("x509_subject_alternative_name", "x509_common_name"):
        for value in auth.get(key, ()):
            return str(value.decode(errors="replace"))
    return None
