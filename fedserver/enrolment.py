"""Enrols clients, or refuses them with a sentence."""

import logging
from collections import Counter
from typing import Any, NamedTuple

import grpc
from fedwire.convert import digest_bytes, epoch_number
from fedwire.service import PROTOCOLS
from fedwire.v1 import federation_pb2 as pb

from fedcore.coordinator import Coordinator
from fedcore.coordinator.acts import why_out
from fedcore.coordinator.claims import eviction
from fedcore.coordinator.events import ClientEnrolled, Role
from fedcore.errors import ProtocolError, SpecMismatchError
from fedcore.params import ParamSpec
from fedcore.protocol import Epoch
from fedserver.callers import Backend, check_text
from fedserver.identity import EVALUATOR, Named
from fedserver.limits import Turns

_log = logging.getLogger(__name__)
MOST_PROTOCOLS = 64
LONG_SPEC = 1 << 16  # characters of a model's description, or four times our own
Context = Any


class Enrolment:
    """Checks a client's request, and sends it the settings of the run."""

    def __init__(self, backend: Backend, max_update_bytes: int) -> None:
        """``max_update_bytes`` is the largest update that the server will take."""
        self._run, self._core = backend.run, backend.core
        self._sessions, self._callers = backend.sessions, backend.callers
        self._max_update_bytes = max_update_bytes
        self._spec = self._run.coordinator.algorithm.model
        self._spec_json = self._spec.to_json()
        self._newcomers = Turns(self._run.config.server.max_enrolments)
        self._codes = Codes()
        self._doubled: set[str] = set()  # clients that were logged as doubles

    async def enrol(self, request: pb.EnrolRequest, context: Context) -> pb.EnrolReply:
        """Enrols a client."""
        cid = await self._callers.cid(request.key, context)
        await self._callers.check_disk(context)
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
        standing = await self._core.ask(
            lambda coordinator: _standing(coordinator, cid, named), after=enrolled
        )
        if standing.evicted:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, standing.evicted)
        if not standing.has_left:
            if not standing.is_owner:
                await context.abort(
                    grpc.StatusCode.FAILED_PRECONDITION,
                    f"the name {named.name!r} belongs to another client; choose "
                    "another --name, or the operator frees it with: fedserver free RUN "
                    f"{named.name!r}",
                )
            self._callers.enrolled.add(cid)
            self._callers.enrolled.discard(self._sessions.claim(named.name, cid))
            self._sessions.hear(cid)
        warnings = (
            self._codes.compare(named.name, request.code),
            self._note_double(enrolled, standing.doubles),
        )
        config = self._run.config
        return pb.EnrolReply(
            protocol=max(set(PROTOCOLS) & set(request.protocols)),
            run_id=self._run.run_id,
            epoch=epoch_number(standing.epoch),
            origin=digest_bytes(self._run.coordinator.state.published.origin),
            algorithm=self._algorithm(named.name),
            seed=config.seed,
            name=named.name,
            share_labels=config.share_labels and config.algorithm.uses_labels,
            heartbeat=config.timeouts.heartbeat,
            max_update_bytes=self._max_update_bytes,
            gone=standing.has_left,
            warning="; ".join(filter(None, warnings)),
        )

    def _algorithm(self, name: str) -> str:
        """Returns the algorithm with the settings of the client of this name.

        Nobody is told the settings and names of others.
        """
        own = self._run.coordinator.algorithm.of_client(name)
        return own.config.model_dump_json()

    def _note_double(self, client: ClientEnrolled, others: list[str]) -> str:
        """Logs, once, that clients train on the same data; warns the client."""
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

    async def _named(
        self, request: pb.EnrolRequest, cid: str, context: Context
    ) -> Named:
        try:
            gate = self._callers.gate
            named = gate.named(context, request.name or cid, request.owner)
        except ProtocolError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        await check_text("name", named.name, context)
        return named

    async def _role(
        self, request: pb.EnrolRequest, named: Named, context: Context
    ) -> Role:
        """Returns the role that a client asks for, if it may have it."""
        if request.role != pb.ROLE_EVALUATOR:
            return "trainer"
        if not self._callers.gate.may_evaluate(context, named.name):
            await context.abort(
                grpc.StatusCode.PERMISSION_DENIED,
                f"{named.name!r} may not evaluate this run: name it in the server's "
                f"config (evaluate.evaluators: [{named.name}]), or give it a "
                f"certificate of the organizational unit {EVALUATOR!r}",
            )
        return "evaluator"

    async def _check_room(self, cid: str, named: Named, context: Context) -> None:
        """Refuses new clients and new names once ``server.max_clients`` are known."""
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
        """Refuses a client of another protocol, run or model."""
        await check_text("run_id", request.run_id, context)
        await check_text("code", request.code, context)
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
            await context.abort(  # the client waits: its run's server may come back
                grpc.StatusCode.NOT_FOUND,
                f"the state directory belongs to run {request.run_id}, this server "
                f"has run {self._run.run_id}: to join that one use another --state",
            )
        if request.spec == self._spec_json:
            return
        longest = max(LONG_SPEC, 4 * len(self._spec_json))
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
        is_other = bool(self._uses) and code not in self._uses
        self._codes[name] = code
        self._uses[code] += 1
        if is_other:
            return f"the app's code {code} differs from that of other clients"
        return ""


class _Standing(NamedTuple):
    """What the coordinator says of a client that has asked to be enrolled."""

    has_left: bool
    is_owner: bool  # of the name that it asked for
    evicted: str  # why it is refused, in a sentence; empty: it is not evicted
    epoch: Epoch
    doubles: list[str]


def _standing(coordinator: Coordinator, cid: str, named: Named) -> _Standing:
    state = coordinator.state
    row = state.clients.get(cid)
    is_owner = (
        row is not None
        and row.name == named.name
        and state.owners.get(named.name) == named.owner
    )
    has_left = row is not None and row.left
    reason = eviction(cid, named.name, state)
    evicted = ""
    if reason is not None:
        evicted = why_out(named.name if row is None else row.name, reason)
    return _Standing(has_left, is_owner, evicted, state.epoch, state.doubles(cid))
