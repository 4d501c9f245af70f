"""The gRPC service: calls become events, actions become answers."""

import asyncio
import itertools
import logging
import zlib
from collections import Counter
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
from fedwire.keys import cid_of
from fedwire.service import PROTOCOLS
from fedwire.v1 import federation_pb2 as pb

from fedcore.coordinator import Coordinator
from fedcore.coordinator.actions import Refuse, SendReply
from fedcore.coordinator.events import (
    ClientEnrolled,
    ClientFailed,
    ClientLeft,
    ClientPulled,
    ModelMeasured,
    NameFreed,
    Role,
    SamplesSkipped,
    UpdatePushed,
)
from fedcore.errors import ProtocolError, SpecMismatchError, UnavailableError
from fedcore.params import ParamSpec, content_digest
from fedcore.protocol import MOST_COUNTED, Answer, Epoch, Pull, Push
from fedcore.text import is_printable, wrong_metrics
from fedcore.typing import Seconds
from fedcore.workload import LONG_TEXT, LONGEST_WHY
from fedrun.run import Run, fresh_name
from fedserver.answers import Answers
from fedserver.core import Core
from fedserver.downloads import Download, Downloads
from fedserver.identity import EVALUATOR, OPERATOR, Gate, Named, by_door
from fedserver.limits import Limit, Newest, Turns
from fedserver.opening import Opening
from fedserver.sessions import Session, Sessions
from fedserver.uploads import Name, Upload, Uploads

_log = logging.getLogger(__name__)
RETRY: Seconds = 1.0
LONG_NAME = 256  # characters of a client's name: the server keeps them
MOST_PROTOCOLS = 64
LONG_SPEC = 1 << 16  # characters of a model's description, or four times our own
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
        status: Callable[[bool], Awaitable[str]],
    ) -> None:
        """``status`` yields all that is known, or what everybody may know."""
        self._run, self._core = run, core
        self._gate = Gate(run.config)
        self._answers, self._sessions = answers, sessions
        self._status = status
        self._spec = run.coordinator.algorithm.spec
        self._pulls, self._pushes = Newest(), Newest()
        self._downloads = Downloads(run.config.server.max_downloads)
        self._judging: dict[str, asyncio.Task[pb.PushReply]] = {}  # by cid
        self._told_spec = self._spec.to_json()
        self._newcomers = Turns(run.config.server.max_enrolments)
        self._codes: dict[str, str] = {}  # by clients' names
        self._uses: Counter[str] = Counter()
        self._nonces = itertools.count(1)
        # Who has been told this process's settings: a restart may have changed them.
        self._enrolled: set[str] = set()
        self._doubled: set[str] = set()  # who has the data of another one, as was said
        self.draining = False
        self.told: set[str] = set()  # who knows that the run has ended
        limit = run.config.server.max_update_bytes
        self.max_update_bytes = limit or 8 * self._spec.dim + (1 << 20)
        self._uploads = self._bounded_uploads()
        self._opening = Opening(run.coordinator.algorithm, ROOM)

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
        cid = await self._caller(request.key, context)
        await self._check_disk(context)
        await self._check_fit(request, context)
        named = await self._named(request, cid, context)
        role = await self._role(request, named, context)
        await self._check_room(cid, named, context)
        enrolled = ClientEnrolled(
            at=self._core.now(),
            cid=cid,
            name=named.name,
            role=role,
            index=request.index,
            count=max(1, request.count),
            owner=named.owner,
            certified=named.certified,
        )
        gone, is_owner, epoch, doubles = await self._core.ask(
            lambda coordinator: _standing(coordinator, cid, named), after=enrolled
        )
        if not gone:
            if not is_owner:
                await context.abort(
                    grpc.StatusCode.FAILED_PRECONDITION,
                    f"the name {named.name!r} belongs to another client; choose "
                    "another --name, or the operator frees it with: fedserver free RUN "
                    f"{named.name!r}",
                )
            self._enrolled.add(cid)
            self._enrolled.discard(self._sessions.claim(named.name, cid))
            self._sessions.hear(cid)
        code = self._compare_code(named.name, request.code)
        warnings = code, self._note_double(enrolled, doubles)
        config = self._run.config
        return pb.EnrolReply(
            protocol=max(set(PROTOCOLS) & set(request.protocols)),
            run_id=self._run.run_id,
            epoch=epoch_number(epoch),
            origin=digest_bytes(self._run.coordinator.state.published.origin),
            algorithm=config.algorithm.model_dump_json(),
            seed=config.seed,
            name=named.name,
            share_labels=config.share_labels and config.algorithm.uses_labels,
            heartbeat=config.timeouts.heartbeat,
            max_update_bytes=self.max_update_bytes,
            gone=gone,
            warning="; ".join(filter(None, warnings)),
        )

    def _note_double(self, client: ClientEnrolled, others: list[str]) -> str:
        """Says, once, that clients train on the same data; a warning for the client."""
        if not others:
            return ""
        place = f"index {client.index} of count {client.count}"
        advice = (
            "where the app shares data out by them, they train on the same part, and "
            "another part is missing; give each client an --index of its own"
        )
        if client.cid not in self._doubled:
            self._doubled.add(client.cid)
            names = " and ".join([*others, client.name])
            _log.warning("%s joined with %s: %s", names, place, advice)
        return f"another client of this run has {place}, too: {advice}"

    async def _check_disk(self, context: Context) -> None:
        """While the disk takes nothing, there is nothing that could be answered."""
        if self._core.trouble:
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                "the server's disk is full or fails; come back later: nothing is lost, "
                "and the run goes on once the disk works",
            )

    async def _caller(self, key: bytes, context: Context) -> str:
        """The id of the client that calls; whoever is none is refused."""
        try:
            cid = cid_of(key)
        except ProtocolError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        await self._check_certificate(cid, context)
        return cid

    async def _named(
        self, request: pb.EnrolRequest, cid: str, context: Context
    ) -> Named:
        try:
            named = self._gate.named(context, request.name or cid, request.owner)
        except ProtocolError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        await _check_text("name", named.name, context)
        return named

    async def _role(
        self, request: pb.EnrolRequest, named: Named, context: Context
    ) -> Role:
        """The role that a client asks for, if it may have it."""
        if request.role != pb.ROLE_EVALUATOR:
            return "trainer"
        if not self._gate.may_evaluate(context, named.name):
            await context.abort(
                grpc.StatusCode.PERMISSION_DENIED,
                f"{named.name!r} may not evaluate this run: name it in the server's "
                f"config (evaluate.evaluators: [{named.name}]), or give it a "
                f"certificate of the organizational unit {EVALUATOR!r}",
            )
        return "evaluator"

    async def _check_room(self, cid: str, named: Named, context: Context) -> None:
        """Refuses new clients, and new names, when there are as many as may be."""
        state, most = self._run.coordinator.state, self._run.config.server.max_clients
        if (cid not in state.clients and len(state.clients) >= most) or (
            named.name not in state.owners and len(state.owners) >= most
        ):
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"this run has all the {most} clients that it takes "
                "(server.max_clients)",
            )
        if cid not in state.clients:
            await self._newcomers.turn()

    async def _check_fit(self, request: pb.EnrolRequest, context: Context) -> None:
        """Refuses whoever cannot take part, with a sentence."""
        await _check_text("run_id", request.run_id, context)
        await _check_text("code", request.code, context)
        refuse = grpc.StatusCode.FAILED_PRECONDITION
        if len(request.protocols) > MOST_PROTOCOLS:
            await context.abort(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"{len(request.protocols)} protocols, the limit is {MOST_PROTOCOLS}",
            )
        if not set(PROTOCOLS) & set(request.protocols):
            theirs = ", ".join(map(str, request.protocols)) or "none"
            ours = ", ".join(map(str, PROTOCOLS))
            text = f"this server speaks protocol {ours}, the client {theirs}"
            await context.abort(refuse, text)
        if request.run_id and request.run_id != self._run.run_id:
            await context.abort(  # it may be back: the client waits
                grpc.StatusCode.NOT_FOUND,
                f"the state directory belongs to run {request.run_id}, this server "
                f"has run {self._run.run_id}: to join that one use another --state",
            )
        if request.spec == self._told_spec:
            return
        longest = max(LONG_SPEC, 4 * len(self._told_spec))
        if len(request.spec) > longest:
            await context.abort(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"a model description of {len(request.spec)} characters, the limit is "
                f"{longest}",
            )
        try:
            self._spec.require(ParamSpec.from_json(request.spec), "the client's model")
        except SpecMismatchError as error:
            await context.abort(refuse, str(error))

    async def _check_certificate(self, cid: str, context: Context) -> None:
        """Where each client has its certificate, it speaks for itself alone."""
        row = self._run.coordinator.state.clients.get(cid)
        name = self._gate.certified_name(context)
        if name is not None and row is not None and row.name != name:
            await context.abort(
                grpc.StatusCode.PERMISSION_DENIED,
                f"the certificate is that of {name!r}, the client id that of another",
            )

    def _compare_code(self, name: str, code: str) -> str:
        """A warning if this client's code differs from that of the others."""
        before = self._codes.pop(name, "")
        if before:
            self._uses[before] -= 1
            if not self._uses[before]:
                del self._uses[before]
        if not code:
            return ""
        is_other = bool(self._uses) and code not in self._uses
        self._codes[name] = code
        self._uses[code] += 1
        if is_other:
            return f"the app's code {code} differs from that of other clients"
        return ""

    async def attend(
        self, beats: AsyncIterator[pb.Beat], context: Context
    ) -> AsyncGenerator[pb.Notice, None]:
        """Hears a client's heartbeats, and tells it what it must know."""
        first = await anext(beats, None)
        if first is None:
            return
        cid = await self._caller(first.key, context)
        if cid not in self._run.coordinator.state.clients:
            return
        session = self._sessions.attend(cid, first.session)
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
        cid = await self._caller(request.key, context)
        await self._check_disk(context)
        left = ClientLeft(at=self._core.now(), cid=cid)
        await self._core.ask(lambda _: None, after=left)
        self._sessions.forget(cid)
        self._enrolled.discard(cid)
        return pb.LeaveReply()

    async def report(
        self, request: pb.ReportRequest, context: Context
    ) -> pb.ReportReply:
        """What an evaluation measured, or that a user's code failed."""
        cid = await self._caller(request.key, context)
        await self._check_disk(context)
        await _check_report(request, context)
        if cid not in self._enrolled:
            return pb.ReportReply()
        self._sessions.hear(cid)
        if request.skipped:
            skipped = SamplesSkipped(
                at=self._core.now(),
                cid=cid,
                count=min(request.skipped, MOST_COUNTED),
                why=request.error[:LONGEST_WHY],
            )
            self._core.submit(skipped)
            return pb.ReportReply()
        if request.error:
            text = request.error[-LONG_TEXT:]
            event = ClientFailed(at=self._core.now(), cid=cid, error=text)
            self._core.submit(event)
            return pb.ReportReply()
        epoch = await self._core.ask(lambda coordinator: coordinator.state.epoch)
        if epoch_name(request.model.epoch) == epoch:
            measured = ModelMeasured(
                at=self._core.now(),
                cid=cid,
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
        is_operator = self._gate.is_operator(context)
        if self._gate.is_closed and not is_operator:
            await context.abort(
                grpc.StatusCode.PERMISSION_DENIED,
                "the status is for operators: show a certificate of the organizational "
                f"unit {OPERATOR!r}",
            )
        return pb.StatusReply(json=await self._status(is_operator))

    async def free(self, request: pb.FreeRequest, context: Context) -> pb.FreeReply:
        """The operator, on this machine, gives a name back to everybody."""
        if not by_door(context):
            await context.abort(
                grpc.StatusCode.PERMISSION_DENIED,
                "names are freed where the run is: fedserver free RUN NAME",
            )
        name = request.name
        was_taken = await self._core.ask(lambda c: name in c.state.owners)
        freed = NameFreed(at=self._core.now(), name=name)
        await self._core.ask(lambda _: None, after=freed)
        return pb.FreeReply(was_taken=was_taken)

    # ------------------------------------------------------------------ pulls

    async def pull(
        self, request: pb.PullRequest, context: Context, write: Write
    ) -> None:
        """Model and work, once there is some.

        Raises:
            Stalled: the client does not take what it is sent.
        """
        cid = await self._caller(request.key, context)
        try:
            pull = read_pull(request, cid, next(self._nonces))
        except ProtocolError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        if self.draining:
            await write(_refusal(Answer.RETRY))
        elif pull.cid not in self._enrolled:
            await write(_refusal(Answer.UNKNOWN))
        else:
            self._sessions.hear(pull.cid)
            await self._check_disk(context)
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
            download: Download | None = None
            try:
                async with limit.within(self._run.config.timeouts.hold + WAIT):
                    answer = await self._answers.pull(pull.cid, pull.nonce)
                    if _is_large(answer):  # its first frame is made when it may go
                        place = self._downloads.place(pull.cid, limit)
                        download = await stack.enter_async_context(place)
            except TimeoutError:  # a newer pull has come, or there was no place
                await self._send([_refusal(Answer.RETRY)], Limit(), write)
            except asyncio.CancelledError:
                if not self.draining:
                    raise
                await self._send([_refusal(Answer.RETRY)], Limit(), write)
            else:
                frames = _frames(answer, request, download)
                await self._send(frames, limit, write, download)
                if isinstance(answer, SendReply) and answer.reply.done:
                    self.told.add(pull.cid)

    async def _send(
        self,
        frames: Iterable[bytes],
        limit: Limit,
        write: Write,
        download: Download | None = None,
    ) -> None:
        """Sends frames as fast as the client takes them."""
        stall = self._run.config.timeouts.stall
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

    # ----------------------------------------------------------------- pushes

    async def push(
        self, frames: AsyncIterator[bytes], context: Context
    ) -> pb.PushReply:
        """An update: taken in whole, made durable, and then acknowledged."""
        try:
            async with asyncio.timeout(self._run.config.timeouts.stall):
                header = read_header(await anext(frames, b""))
            self._check_size(header.size or len(header.payload))
            cid = await self._caller(header.key, context)
            if cid not in self._enrolled:
                return _no_verdict(Answer.UNKNOWN)
            self._sessions.hear(cid)
            await self._check_disk(context)
            if self.draining:
                return _no_verdict(Answer.RETRY)
            name = _name(cid, header)
            if name is None:
                return _no_verdict(Answer.RETRY)
            if not self._uploads.is_waiting(name):
                upload = await self._receive(name, header, frames)
                if upload is None:
                    return _no_verdict(Answer.RETRY)
                self._decide(cid, header, upload)
            return await self._verdict(cid)
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

    def _decide(self, cid: str, header: pb.PushHeader, upload: Upload) -> None:
        """Has an update decided on. It is held until then, whoever still waits."""
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
                task.exception()  # those who wait are told; there may be none

        task.add_done_callback(through)

    async def _judge(self, push: Push) -> pb.PushReply:
        async with self._opening.room:
            opened = await self._opening.open(push.payload)
            self._core.submit(
                UpdatePushed(at=self._core.now(), push=push, opened=opened),
                lambda error: self._answers.fail(
                    error, "push", push.cid, push.seq, push.digest
                ),
            )
            answer = await self._answers.push(push.cid, push.seq, push.digest)
        return push_reply(answer.ack)

    def close(self) -> None:
        """Nothing more will come."""
        self._opening.close()

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
        with self._pushes.call(name[0]) as limit:
            try:
                upload = await self._place(name, header, limit)
            except (UnavailableError, TimeoutError):
                return None
            return await self._filled(upload, frames, limit)

    async def _place(self, name: Name, header: pb.PushHeader, limit: Limit) -> Upload:
        """A place for an update, once there is room.

        Raises:
            UnavailableError: the client waits for a verdict.
            TimeoutError: there was no room for too long, or a newer one has come.
        """

        def take() -> Upload:
            if header.size:
                return self._uploads.begin(name, header.size, limit.end)
            return self._uploads.hold(name, header.payload, limit.end)

        async with limit.within(self._run.config.timeouts.stall):
            return await self._uploads.turn(name, take, is_inline=not header.size)

    async def _filled(
        self, upload: Upload, frames: AsyncIterator[bytes], limit: Limit
    ) -> Upload | None:
        """The upload, once its payload is here; None as :meth:`_receive` says."""
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
        cid = await self._caller(request.key, context)
        name = (cid, request.seq, request.digest.hex())
        return pb.ResumeReply(received=self._uploads.received(name))


def _name(cid: str, header: pb.PushHeader) -> Name | None:
    """What tells an update from others; None if it was damaged on its way."""
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


def _frames(
    answer: SendReply | Refuse, request: pb.PullRequest, download: Download | None
) -> Iterator[bytes]:
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
    if download is not None:
        yield from chunk_frames(patch.parts, told.from_byte, download.next_size)


def _refusal(answer: Answer) -> bytes:
    wait = RETRY if answer is Answer.RETRY else 0.0
    return reply_frame(pb.PullReply(refused=answer_code(answer), retry_after=wait))


def _no_verdict(answer: Answer) -> pb.PushReply:
    wait = RETRY if answer is Answer.RETRY else 0.0
    return pb.PushReply(answer=answer_code(answer), retry_after=wait)


def _standing(
    coordinator: Coordinator, cid: str, named: Named
) -> tuple[bool, bool, Epoch, list[str]]:
    """Whether a client has left and has this name, the history, and its doubles."""
    state = coordinator.state
    row = state.clients.get(cid)
    is_owner = (
        row is not None
        and row.name == named.name
        and state.owners.get(named.name) == named.owner
    )
    has_left = row is not None and row.left
    return has_left, is_owner, state.epoch, state.doubles(cid)


async def _check_text(which: str, text: str, context: Context) -> None:
    """Refuses what is too long to be kept, or may not be shown."""
    reason = ""
    if len(text) > LONG_NAME:
        reason = f"a {which} of {len(text)} characters, the limit is {LONG_NAME}"
    elif not is_printable(text):
        reason = f"a {which} must be printable text, got {text!a}"
    if reason:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, reason)


async def _check_report(request: pb.ReportRequest, context: Context) -> None:
    """Refuses a report that is too large to be kept, or may not be shown."""
    reason = wrong_metrics(request.values)
    if not is_printable(request.error, lines=True):
        reason = "an error must be printable text in lines"
    if reason:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, reason)
