"""The gRPC service: calls become events, actions become answers."""

import asyncio
import itertools
import json
import logging
import zlib
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
)
from contextlib import AsyncExitStack
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
from fedcore.protocol import Answer, Pull, Push
from fedcore.typing import JSON, Seconds
from fedcore.workload import LONG_TEXT
from fedrun.run import Run, fresh_name
from fedserver.answers import Answers
from fedserver.core import Core
from fedserver.limits import Limit, Newest
from fedserver.sessions import Session, Sessions
from fedserver.uploads import Name, Upload, Uploads

_log = logging.getLogger(__name__)
RETRY: Seconds = 1.0
LONG_NAME = 256  # characters of a client's id or name: the server keeps them
IN_THREAD = 256 << 10  # payloads from this size on are hashed beside the event loop
ROOM = 256 << 20  # bytes of updates in memory, if nothing else is said
WAIT: Seconds = 60.0  # for a verdict, or for a place, before the client asks again
Context = Any
Write = Callable[[bytes], Awaitable[None]]


class Stalled(Exception):  # noqa: N818 -- no fault of the server
    """A client does not take what it is sent."""


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
        self._pulls = Newest()
        self._downloads = asyncio.Semaphore(run.config.server.max_downloads)
        self._judging: dict[str, asyncio.Task[pb.PushReply]] = {}  # by cid
        self._codes: dict[str, str] = {}
        self._nonces = itertools.count(1)
        # Who has been told this process's settings: a restart may have changed them.
        self._enrolled: set[str] = set()
        self.draining = False
        self.told: set[str] = set()  # who knows that the run has ended
        limit = run.config.server.max_update_bytes
        self.max_update_bytes = limit or 8 * self._spec.dim + (1 << 20)
        self._uploads = self._bounded_uploads()

    def _bounded_uploads(self) -> Uploads:
        config = self._run.config
        least = 4 * self.max_update_bytes
        return Uploads(
            config.server.max_uploads,
            config.server.max_upload_bytes or max(ROOM, least),
            config.timeouts.stall,
            config.server.min_rate,
        )

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
        silent = WAIT + self._run.config.timeouts.lost
        try:
            async with asyncio.timeout(silent) as limit:
                async for _ in beats:
                    self._sessions.hear(session.cid)
                    limit.reschedule(asyncio.get_running_loop().time() + silent)
        except TimeoutError:
            pass  # who is there attends again
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
        self, request: pb.PullRequest, context: Context, write: Write
    ) -> None:
        """Model and work, once there is some.

        Raises:
            Stalled: the client does not take what it is sent.
        """
        try:
            pull = read_pull(request, next(self._nonces))
        except ProtocolError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        await self._check_owner(pull.cid, context)
        self._sessions.hear(pull.cid)
        if self.draining:
            await write(_refusal(Answer.RETRY))
        elif pull.cid not in self._enrolled:
            await write(_refusal(Answer.UNKNOWN))
        else:
            with self._pulls.call(pull.cid) as limit:
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
            try:
                async with limit.within(self._run.config.timeouts.hold + WAIT):
                    answer = await self._answers.pull(pull.cid, pull.nonce)
                    if _is_large(answer):  # its first frame is made when it may go
                        await stack.enter_async_context(self._downloads)
            except TimeoutError:  # a newer pull has come, or there was no place
                await self._send([_refusal(Answer.RETRY)], Limit(), write)
            except asyncio.CancelledError:
                if not self.draining:
                    raise
                await self._send([_refusal(Answer.RETRY)], Limit(), write)
            else:
                await self._send(_frames(answer, request), limit, write)
                if isinstance(answer, SendReply) and answer.reply.done:
                    self.told.add(pull.cid)

    async def _send(self, frames: Iterable[bytes], limit: Limit, write: Write) -> None:
        """Sends frames as fast as the client takes them."""
        stall = self._run.config.timeouts.stall
        try:
            for frame in frames:
                async with limit.within(stall):
                    await write(frame)
        except TimeoutError:
            raise Stalled(
                f"a message was not taken within {stall:g} s (timeouts.stall), or the "
                "client has pulled again"
            ) from None

    # ----------------------------------------------------------------- pushes

    async def push(
        self, frames: AsyncIterator[bytes], context: Context
    ) -> pb.PushReply:
        """An update: taken in whole, made durable, and then acknowledged."""
        try:
            async with asyncio.timeout(self._run.config.timeouts.stall):
                header = read_header(await anext(frames, b""))
            self._check_size(header.size or len(header.payload))
            await self._check_owner(header.cid, context)
            self._sessions.hear(header.cid)
            if header.cid not in self._enrolled:
                return _no_verdict(Answer.UNKNOWN)
            if self.draining:
                return _no_verdict(Answer.RETRY)
            name = _name(header)
            if name is None:
                return _no_verdict(Answer.RETRY)
            if not self._uploads.is_waiting(name):
                upload = await self._receive(name, header, frames)
                if upload is None:
                    return _no_verdict(Answer.RETRY)
                self._decide(header, upload)
            return await self._verdict(header.cid)
        except ProtocolError as error:
            _log.warning("refused a push: %s", error)
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            raise AssertionError("an aborted call goes on") from error

    def _check_size(self, size: int) -> None:
        if size > self.max_update_bytes:
            raise ProtocolError(
                f"an update of {size} bytes; the limit of this server is "
                f"{self.max_update_bytes} (server.max_update_bytes)"
            )

    def _decide(self, header: pb.PushHeader, upload: Upload) -> None:
        """Has an update decided on. It is held until then, whoever still waits."""
        try:
            push = read_push(header, upload.buffer, upload.name[2])
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
                task.exception()  # those who wait are told; there may be none

        task.add_done_callback(through)

    async def _judge(self, push: Push) -> pb.PushReply:
        self._core.submit(
            UpdatePushed(at=self._core.now(), push=push),
            lambda error: self._answers.fail(
                error, "push", push.cid, push.seq, push.digest
            ),
        )
        answer = await self._answers.push(push.cid, push.seq, push.digest)
        return push_reply(answer.ack)

    async def _verdict(self, cid: str) -> pb.PushReply:
        """On the update of this client that is being decided on."""
        async with asyncio.timeout(WAIT):
            reply = await asyncio.shield(self._judging[cid])
        self._sessions.hear(cid)
        return reply

    async def _receive(
        self, name: Name, header: pb.PushHeader, frames: AsyncIterator[bytes]
    ) -> Upload | None:
        """The payload; None if it did not arrive whole and unharmed, or in time."""
        limit = Limit()
        try:
            if header.size:
                upload = self._uploads.begin(name, header.size, limit.end)
            else:
                upload = self._uploads.hold(name, header.payload, limit.end)
        except UnavailableError:
            return None
        is_kept = False
        try:
            async with limit.within(0) as waiting:
                waiting.reschedule(self._uploads.ends(upload))
                async for frame in frames:
                    if upload.is_inline:
                        raise ProtocolError(
                            "a frame behind a payload that was in the first one"
                        )
                    upload.write(read_chunk(frame))
                    waiting.reschedule(self._uploads.ends(upload))
            if upload.is_whole:
                is_kept = await _is_unharmed(upload)
                if not is_kept:
                    self._uploads.end(upload)
        except (UnavailableError, TimeoutError):
            pass  # damaged on its way, too slow, or a newer one has come
        except ProtocolError:
            self._uploads.end(upload)
            raise
        finally:
            if not is_kept:
                self._uploads.cut(upload)
        return upload if is_kept else None

    async def resume(
        self, request: pb.ResumeRequest, context: Context
    ) -> pb.ResumeReply:
        """How much of an upload is here."""
        name = (request.cid, request.seq, request.digest.hex())
        return pb.ResumeReply(received=self._uploads.received(name))


def _name(header: pb.PushHeader) -> Name | None:
    """What tells an update from others; None if it was damaged on its way."""
    if header.size:
        return header.cid, header.seq, header.digest.hex()
    if len(header.payload) > INLINE:
        raise ProtocolError(
            f"a payload of {len(header.payload)} bytes in the first frame; the "
            f"limit is {INLINE}"
        )
    if zlib.crc32(header.payload) != header.crc32:
        return None
    return header.cid, header.seq, content_digest(header.payload)


async def _is_unharmed(upload: Upload) -> bool:
    if upload.is_inline:
        return True  # its name was made of it
    if len(upload.buffer) < IN_THREAD:
        found = content_digest(upload.buffer)
    else:
        found = await asyncio.to_thread(content_digest, upload.buffer)
    return found == upload.name[2] and not upload.is_released


def _is_large(answer: SendReply | Refuse) -> bool:
    """Whether it takes more than one message."""
    return isinstance(answer, SendReply) and answer.reply.patch.nbytes > INLINE


def _frames(answer: SendReply | Refuse, request: pb.PullRequest) -> Iterator[bytes]:
    """The frames of an answer; a download that was cut off goes on where it stopped."""
    if isinstance(answer, Refuse):
        yield _refusal(answer.answer)
        return
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
