"""Enrols clients or refuses them with a reason; judges trial updates for checks."""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib.metadata import version as version_of
from typing import Any, NamedTuple

import grpc
from fedwire.convert import answer_code, digest_bytes, epoch_number, read_push
from fedwire.service import PROTOCOLS
from fedwire.v1 import federation_pb2 as pb
from google.protobuf.message import Message

from fedcore.coordinator import Coordinator
from fedcore.coordinator.actions import Refuse
from fedcore.coordinator.answers import check_enrolment, eviction, why_out
from fedcore.coordinator.events import ClientEnrolled, Opened
from fedcore.coordinator.rounds import describe_raised, judge, read_update
from fedcore.coordinator.state import ServerState
from fedcore.errors import ProtocolError, SpecMismatchError
from fedcore.params import ParamSpec
from fedcore.protocol import Answer, Epoch, ModelName, Push, Verdict
from fedserver.calls.callers import EVALUATOR, Backend, Named, Shared, Turns, wrong_text
from fedserver.calls.connections import neighbours_of
from fedserver.calls.pushes import Opening, PushFrames, Receiver, Uploads, upload_name

# ------------ takes trials: updates that are received, read and judged, but never count
#
# ``fedclient check`` sends a trial. Anybody may send one, under any number of keys.
# Trials therefore have a place of their own, in which no trial takes room from an
# update; one of them is read at a time; no client and no address has more than a share
# of the place; and the server keeps nothing of a trial.


_log = logging.getLogger(__name__)
AT_ONCE = 1  # number of large trials in memory
MOST = 32  # trials that are here or wait; further ones are asked to come back
OF_ADDRESS = 8  # trials from one address, which several devices may share
OF_CLIENT = 2  # trials with one key: the connection of the first may have broken
_RETRY = pb.TrialReply(answer=answer_code(Answer.RETRY))
Context = Any


class Trials:
    """Receives and judges trials, one after the other."""

    def __init__(self, backend: Backend, opening: Opening, most: int) -> None:
        """Reads updates with ``opening``; one update has at most ``most`` bytes."""
        self._core, self._callers = backend.core, backend.callers
        self._opening = opening
        server, stall = backend.run.config.server, backend.run.config.timeouts.stall
        self._uploads = Uploads(AT_ONCE, most, stall, server.min_rate)
        self._receiver = Receiver(self._uploads, most, stall)
        self._turns = Turns(server.max_enrolments)
        self._places = Shared(MOST, OF_ADDRESS, OF_CLIENT)
        self._reading = asyncio.Lock()  # trials leave a thread for updates

    async def trial(self, frames: PushFrames, context: Context) -> pb.TrialReply:
        """Returns the verdict that an update based on the newest version would get.

        The client need not be enrolled. The update is dropped: neither the coordinator
        nor the journal learns of it.
        """
        try:
            header = await self._receiver.header(frames)
            cid = await self._callers.cid(header.key, context)
            await self._callers.check_disk(context)
            if self._callers.draining:
                return _RETRY
            with self._places.place(neighbours_of(context.peer()), cid) as is_there:
                if not is_there:
                    return _RETRY
                return await self._try(cid, header, frames)
        except ProtocolError as error:
            _log.warning("refused a trial: %s", error)
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            raise AssertionError("an aborted call goes on") from error

    async def _try(
        self, cid: str, header: pb.PushHeader, frames: PushFrames
    ) -> pb.TrialReply:
        """Receives one trial, and returns the outcome."""
        await self._turns.turn()
        name = upload_name(cid, header)
        if name is None:
            return _RETRY
        try:
            upload = await self._receiver.receive(name, header, frames)
            if upload is None:
                return _RETRY
            try:
                push = read_push(header, cid, upload.buffer, upload.name[2])
                verdict, reason = await self._verdict(push)
            finally:
                self._uploads.end(upload)
        finally:
            self._uploads.forget(cid)
        return pb.TrialReply(
            answer=answer_code(verdict), reason=reason, received=len(push.payload)
        )

    async def _verdict(self, push: Push) -> tuple[Verdict, str]:
        async with self._reading, self._opening.room:
            opened = await self._opening.open(push.payload)
            return await self._core.ask(lambda told: _judge(told, push, opened))


def _judge(told: Coordinator, push: Push, opened: Opened) -> tuple[Verdict, str]:
    """Judges an update as if it were based on the newest version; changes nothing."""
    state = told.state
    newest = ModelName(state.epoch, state.version)
    push = replace(push, epoch=state.epoch, base=newest)
    update = read_update(push, state, opened)
    try:
        decision = judge(update, state)
    except Exception as error:  # noqa: BLE001 -- any error rejects the update
        flaw = describe_raised(error)
        return flaw.verdict, flaw.reason
    return decision.verdict, decision.reason


# ---------------------------------------- enrols clients, or refuses them with a reason


MOST_PROTOCOLS = 64
LONG_SPEC = 1 << 16  # length of a model's description, or 4 times ours
LONG_REST = 1 << 14  # maximum size in bytes of the rest of a request


class Objection(NamedTuple):
    """A reason why a client cannot be enrolled."""

    about: str
    """The subject: protocol, run, model, name, role, room or request."""
    code: grpc.StatusCode
    text: str


class Enrolment:
    """Checks a client's request, and sends the client the settings of the run."""

    def __init__(self, backend: Backend, max_update_bytes: int) -> None:
        """Sets ``max_update_bytes``, the largest size of an accepted update."""
        self._run, self._core = backend.run, backend.core
        self._sessions, self._callers = backend.sessions, backend.callers
        self._max_update_bytes = max_update_bytes
        self._spec = self._run.coordinator.algorithm.model
        self._spec_json = self._spec.to_json()
        self._longest_spec = max(LONG_SPEC, 4 * len(self._spec_json))
        most = self._run.config.server.max_enrolments
        self._newcomers, self._checks = Turns(most), Turns(most)
        self._codes = Codes()
        self._doubled: set[str] = set()  # clients that were logged as doubles

    async def enrol(self, request: pb.EnrolRequest, context: Context) -> pb.EnrolReply:
        """Enrols a client."""
        cid = await self._callers.cid(request.key, context)
        await self._callers.check_disk(context)
        named = await self._identify(request, cid, context)
        for objection in self._objections(request, cid, named, context):
            await context.abort(objection.code, objection.text)
        await self._require_short(request, context)
        if cid not in self._run.coordinator.state.clients:
            await self._newcomers.turn()
        event = self._event(request, cid, named)
        standing = await self._core.ask(
            lambda coordinator: _standing(coordinator, cid, named), after=event
        )
        if standing.evicted:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, standing.evicted)
        if not standing.has_left:
            if not standing.is_owner:
                taken = _name_taken(named.name)
                await context.abort(taken.code, taken.text)
            self._callers.enrolled.add(cid)
            self._callers.enrolled.discard(self._sessions.claim(named.name, cid))
            self._sessions.hear(cid)
        warnings = (
            self._codes.compare(named.name, request.code),
            self._note_double(event, self._here(standing.doubles)),
        )
        return self._reply(request, named.name, standing, warnings)

    async def check(self, request: pb.CheckRequest, context: Context) -> pb.CheckReply:
        """Returns what :meth:`enrol` would answer, but writes and keeps nothing."""
        wanted = request.enrol
        await self._require_short(request, context)
        cid = await self._callers.cid(wanted.key, context)
        await self._checks.turn()
        await self._callers.check_disk(context)
        named = await self._identify(wanted, cid, context)
        objections = list(self._objections(wanted, cid, named, context))
        event = self._event(wanted, cid, named)
        standing, version = await self._core.ask(
            lambda coordinator: _would_stand(coordinator, event)
        )
        if standing.evicted:
            denied = grpc.StatusCode.PERMISSION_DENIED
            objections.append(Objection("evicted", denied, standing.evicted))
        elif not standing.is_owner and not standing.has_left:
            objections.append(_name_taken(named.name))
        warnings = (
            self._codes.difference(named.name, wanted.code),
            _warn_of_double(event, self._here(standing.doubles)),
        )
        return pb.CheckReply(
            package=version_of("latecomer"),
            protocols=PROTOCOLS,
            version=version,
            objections=[
                pb.Objection(about=each.about, text=each.text) for each in objections
            ],
            enrol=None
            if objections
            else self._reply(wanted, named.name, standing, warnings),
        )

    async def _require_short(self, request: Message, context: Context) -> None:
        """Aborts a call that is too long: waiting calls must not fill the memory."""
        size, limit = request.ByteSize(), self._longest_spec + LONG_REST
        if size > limit:
            await context.abort(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"a request of {size} bytes, the limit is {limit}",
            )

    def _event(
        self, request: pb.EnrolRequest, cid: str, named: Named
    ) -> ClientEnrolled:
        is_evaluator = request.role == pb.ROLE_EVALUATOR
        return ClientEnrolled(
            at=self._core.now(),
            cid=cid,
            name=named.name,
            role="evaluator" if is_evaluator else "trainer",
            index=request.index,
            count=max(1, request.count),
            owner=named.owner,
            certified=named.certified,
        )

    def _reply(
        self,
        request: pb.EnrolRequest,
        name: str,
        standing: "_Standing",
        warnings: Iterable[str],
    ) -> pb.EnrolReply:
        """Returns the settings of the run for the client of this name."""
        config = self._run.config
        return pb.EnrolReply(
            protocol=max(set(PROTOCOLS) & set(request.protocols)),
            run_id=self._run.run_id,
            epoch=epoch_number(standing.epoch),
            origin=digest_bytes(self._run.coordinator.state.published.origin),
            algorithm=self._algorithm(name),
            seed=config.seed,
            name=name,
            share_labels=config.share_labels and config.algorithm.uses_labels,
            heartbeat=config.timeouts.heartbeat,
            max_update_bytes=self._max_update_bytes,
            gone=standing.has_left,
            warning="; ".join(filter(None, warnings)),
        )

    def _algorithm(self, name: str) -> str:
        """Returns the algorithm with the settings of the client of this name only.

        The names and settings of other clients are removed.
        """
        own = self._run.coordinator.algorithm.of_client(name)
        return own.config.model_dump_json()

    def _here(self, names: list[str]) -> list[str]:
        """Returns the names, each once, whose clients gave a recent sign of life."""
        named = self._run.coordinator.state.roster.rows_of
        ids = {name: [row.cid for row in named(name)] for name in names}
        return [
            name for name, own in ids.items() if any(map(self._sessions.is_here, own))
        ]

    def _note_double(self, client: ClientEnrolled, others: list[str]) -> str:
        """Logs once that clients share their data; returns the client's warning."""
        if others and client.cid not in self._doubled:
            self._doubled.add(client.cid)
            names = " and ".join([*others, client.name])
            _log.warning("%s joined with %s: %s", names, _place(client), _ADVICE)
        return _warn_of_double(client, others)

    async def _identify(
        self, request: pb.EnrolRequest, cid: str, context: Context
    ) -> Named:
        invalid = grpc.StatusCode.INVALID_ARGUMENT
        try:
            gate = self._callers.gate
            named = gate.named(context, request.name or cid, request.owner)
        except ProtocolError as error:
            await context.abort(invalid, str(error))
        if reason := wrong_text("name", named.name):
            await context.abort(invalid, reason)
        return named

    def _objections(
        self, request: pb.EnrolRequest, cid: str, named: Named, context: Context
    ) -> Iterator[Objection]:
        """Yields the known reasons why a client of this name cannot be enrolled.

        Only the coordinator knows whether the name belongs to another client.
        """
        yield from self._misfits(request)
        is_evaluator = request.role == pb.ROLE_EVALUATOR
        if is_evaluator and not self._callers.gate.may_evaluate(context, named.name):
            yield Objection(
                "role",
                grpc.StatusCode.PERMISSION_DENIED,
                f"{named.name!r} may not evaluate this run: name it in the server's "
                f"config (evaluate.evaluators: [{named.name}]), or give it a "
                f"certificate of the organizational unit {EVALUATOR!r}",
            )
        state, most = self._run.coordinator.state, self._run.config.server.max_clients
        if (cid not in state.clients and len(state.clients) >= most) or (
            named.name not in state.roster.owners and len(state.roster.owners) >= most
        ):
            yield Objection(
                "room",
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"this run has all the {most} clients that it takes "
                "(server.max_clients)",
            )

    def _misfits(self, request: pb.EnrolRequest) -> Iterator[Objection]:
        """Yields why a client of another protocol, run or model cannot be enrolled."""
        refuse, invalid = (
            grpc.StatusCode.FAILED_PRECONDITION,
            grpc.StatusCode.INVALID_ARGUMENT,
        )
        for which, text in ("run_id", request.run_id), ("code", request.code):
            if reason := wrong_text(which, text):
                yield Objection("request", invalid, reason)
        if len(request.protocols) > MOST_PROTOCOLS:
            text = f"{len(request.protocols)} protocols, the limit is {MOST_PROTOCOLS}"
            yield Objection("protocol", invalid, text)
        elif not set(PROTOCOLS) & set(request.protocols):
            theirs = ", ".join(map(str, request.protocols)) or "none"
            ours = ", ".join(map(str, PROTOCOLS))
            text = f"this server speaks protocol {ours}, the client {theirs}"
            yield Objection("protocol", refuse, text)
        if request.run_id and request.run_id != self._run.run_id:
            yield Objection(  # the client waits, because its run's server may come back
                "run",
                grpc.StatusCode.NOT_FOUND,
                f"the state directory belongs to run {request.run_id}, this server "
                f"has run {self._run.run_id}: to join that one use another --state",
            )
        if request.spec == self._spec_json:
            return
        if len(request.spec) > self._longest_spec:
            text = (
                f"a model description of {len(request.spec)} characters, the limit is "
                f"{self._longest_spec}"
            )
            yield Objection("model", invalid, text)
            return
        try:
            self._spec.require(ParamSpec.from_json(request.spec), "the client's model")
        except SpecMismatchError as error:
            yield Objection("model", refuse, str(error))


def _name_taken(name: str) -> Objection:
    return Objection(
        "name",
        grpc.StatusCode.FAILED_PRECONDITION,
        f"the name {name!r} belongs to another client; choose another --name, or the "
        f"operator frees it with: fedserver free RUN {name!r}",
    )


_ADVICE = (
    "where the app shares data out by them, they train on the same part, and another "
    "part is missing; give each client an --index of its own"
)


def _place(client: ClientEnrolled) -> str:
    return f"index {client.index} of count {client.count}"


def _warn_of_double(client: ClientEnrolled, others: list[str]) -> str:
    """Returns a warning that others have the client's part of the data; or nothing."""
    if not others:
        return ""
    return f"another client of this run has {_place(client)}, too: {_ADVICE}"


class Codes:
    """The hashes of the clients' apps, by the clients' names."""

    def __init__(self) -> None:
        self._codes: dict[str, str] = {}
        self._uses: Counter[str] = Counter()

    def compare(self, name: str, code: str) -> str:
        """Notes a client's code; returns a warning if no other client has it."""
        before = self._codes.pop(name, "")
        if before:
            self._uses[before] -= 1
            if not self._uses[before]:
                del self._uses[before]
        if not code:
            return ""
        warning = self.difference(name, code)
        self._codes[name] = code
        self._uses[code] += 1
        return warning

    def difference(self, name: str, code: str) -> str:
        """Returns a warning if no client of another name has this code; else empty."""
        own = self._codes.get(name)
        same = self._uses[code] - (own == code)
        others = len(self._uses) - (own is not None and self._uses[own] == 1)
        if code and not same and others:
            return f"the app's code {code} differs from that of other clients"
        return ""


class _Standing(NamedTuple):
    """The coordinator's view of a client that asks to be enrolled."""

    has_left: bool
    is_owner: bool  # of the requested name
    evicted: str  # why the client is refused; empty if it is not evicted
    epoch: Epoch
    doubles: list[str]


def _standing(coordinator: Coordinator, cid: str, named: Named) -> _Standing:
    state = coordinator.state
    row = state.clients.get(cid)
    is_owner = (
        row is not None
        and row.name == named.name
        and state.roster.owners.get(named.name) == named.owner
    )
    has_left = row is not None and row.left
    return _Standing(
        has_left,
        is_owner,
        _why_evicted(cid, named.name, state),
        state.epoch,
        state.roster.doubles(cid),
    )


def _would_stand(
    coordinator: Coordinator, event: ClientEnrolled
) -> tuple[_Standing, int]:
    """Returns the standing of a client if it enrolled now, and the version."""
    state = coordinator.state
    claim = check_enrolment(event, state)
    refused = claim.answer if isinstance(claim, Refuse) else None
    evicted = _why_evicted(event.cid, event.name, state)
    standing = _Standing(
        has_left=refused is Answer.OBSOLETE,
        is_owner=bool(evicted) or refused is None,
        evicted=evicted,
        epoch=state.epoch,
        doubles=state.roster.others_at((event.index, event.count), event.name),
    )
    return standing, state.version


def _why_evicted(cid: str, name: str, state: ServerState) -> str:
    """Returns why a client may not come back; empty if it may."""
    reason, row = eviction(cid, name, state), state.clients.get(cid)
    if reason is None:
        return ""
    return why_out(name if row is None else row.name, reason)
