"""The callers of the service: identity, limits, sessions, and checks before a call."""

import asyncio
import itertools
import re
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import takewhile
from math import inf
from typing import Any, TypeVar

import grpc
from fedwire.keys import cid_of, owner_of
from fedwire.v1 import federation_pb2 as pb

from fedcore.coordinator.answers import why_out
from fedcore.coordinator.events import Departed
from fedcore.coordinator.members import ClientRow
from fedcore.errors import ProtocolError, UnavailableError
from fedcore.hosts import is_loopback
from fedcore.text import is_printable, printable
from fedcore.typing import Seconds
from fedrun.config import FederationConfig
from fedrun.json_lines import concern
from fedrun.run import Run
from fedrun.tracing import Tracer
from fedserver.calls.connections import address_of
from fedserver.core import Answers, Core
from fedserver.tracing import VersionSpans

# ------------------------------------ identifies callers, and decides what they may do
#
# A client's key says which client it is. A certificate also says its name, and what it
# may do besides training. A caller at the operator's socket, which only the server's
# user can open, is the operator.


EVALUATOR, OPERATOR = "evaluator", "operator"  # organizational units of certificates
_OPERATED, _CERTIFIED = "server", "certificate"  # owners of names that have no key
_TCP = ("ipv4:", "ipv6:")
_SOCKET = "unix:"  # prefix of gRPC's name for a caller at a Unix socket
_ALTERNATIVE, _COMMON = "x509_subject_alternative_name", "x509_common_name"
_PART = re.compile(rb"(?:[^\\,+]|\\.)+", re.DOTALL)  # part of an RFC 2253 name
Context = Any


@dataclass(frozen=True)
class Named:
    """A client's name, and the owner of the name."""

    name: str
    owner: str
    certified: bool  # the client gets the name even if another client holds it


class Gate:
    """Decides which caller may do what, by the operator's config."""

    def __init__(self, config: FederationConfig) -> None:
        tls = config.server.tls
        self._certified = tls is not None and tls.client_ca is not None
        self._shared = tls is not None and tls.share_certificates
        self._evaluators = frozenset(config.evaluate.evaluators)

    def read_certified_name(self, context: Context) -> str | None:
        """Returns the name in the client's own certificate; None if it has none."""
        auth = {} if self._shared else context.auth_context()
        for key in (_ALTERNATIVE, _COMMON):
            for value in auth.get(key, ()):
                return str(value.decode(errors="replace"))
        return None

    def named(self, context: Context, wanted: str, owner: bytes) -> Named:
        """Returns the name that a client gets, and the owner of that name.

        Raises:
            ProtocolError: ``owner`` is not a key.
        """
        known = owner_of(owner)
        if by_socket(context):
            return Named(wanted, _OPERATED, certified=True)
        certified = self.read_certified_name(context)
        if certified is not None:
            return Named(certified, _CERTIFIED, certified=True)
        return Named(wanted, known, certified=False)

    def may_evaluate(self, context: Context, name: str) -> bool:
        """Returns whether a client of this name is allowed to be an evaluator."""
        return (
            by_socket(context)
            or name in self._evaluators
            or (self._certified and EVALUATOR in roles(context))
        )

    def is_operator(self, context: Context) -> bool:
        """Returns whether a caller is the operator, who may see the whole status."""
        if by_socket(context):
            return True
        if self._certified:
            return OPERATOR in roles(context)
        peer = context.peer()
        return peer.startswith(_TCP) and is_loopback(address_of(peer)[0])

    def operator(self, context: Context) -> str | None:
        """Returns the name of a caller that may act on the run; None if it may not.

        To act on the run takes more than to see its status: the caller needs the
        operator's socket or a certificate. The name is empty for a caller at the
        socket, because the request itself names the user.
        """
        if by_socket(context):
            return ""
        if self._certified and OPERATOR in roles(context):
            return self.read_certified_name(context) or OPERATOR
        return None

    @property
    def is_closed(self) -> bool:
        """Whether callers need a certificate that states their roles."""
        return self._certified


def by_socket(context: Context) -> bool:
    """Returns whether a call came by the operator's socket."""
    return bool(context.peer().startswith(_SOCKET))


def roles(context: Context) -> set[str]:
    """Returns the organizational units in the client's certificate."""
    found = set()
    for subject in context.auth_context().get("x509_subject", ()):
        for part in _PART.findall(subject):
            kind, _, value = part.partition(b"=")
            if kind.strip().upper() == b"OU":
                found.add(value.decode(errors="replace"))
    return found


# ------ limits calls: their duration, their number in all and for each, and their rate


Room = TypeVar("Room")
LOOK: Seconds = 0.1  # seconds between two checks for room by the first call in the line


class Limit:
    """A waiting call that other code can end."""

    def __init__(self) -> None:
        self._waiting: asyncio.Timeout | None = None
        self._is_over = False

    @asynccontextmanager
    async def within(self, seconds: Seconds) -> AsyncIterator[asyncio.Timeout]:
        """Limits the duration of the block.

        Raises:
            TimeoutError: the block took too long, or the call was ended.
        """
        async with asyncio.timeout(0 if self._is_over else seconds) as waiting:
            self._waiting = waiting
            try:
                yield waiting
            finally:
                self._waiting = None

    def end(self) -> None:
        """Ends the call: its block raises TimeoutError."""
        self._is_over = True
        if self._waiting is not None and not self._waiting.expired():
            self._waiting.reschedule(0)


class Newest:
    """The running calls of one kind; a client's newer call ends its earlier one."""

    def __init__(self) -> None:
        self._calls: dict[str, Limit] = {}

    @contextmanager
    def call(self, cid: str) -> Iterator[Limit]:
        """Registers a call of this client while the block runs."""
        before, limit = self._calls.get(cid), Limit()
        if before is not None:
            before.end()
        self._calls[cid] = limit
        try:
            yield limit
        finally:
            if self._calls.get(cid) is limit:
                del self._calls[cid]


class Shared:
    """A limited number of places for calls, with a maximum share for each caller."""

    def __init__(self, most: int, *shares: int) -> None:
        """Begins with all places free.

        Args:
            most: the number of places.
            shares: the number of places that one caller may hold, for each way to name
                callers.
        """
        self._most, self._shares = most, shares
        self._taken: list[Counter[str]] = [Counter() for _ in shares]
        self.here = 0

    @contextmanager
    def place(self, *names: str) -> Iterator[bool]:
        """Takes a place while the block runs, if this caller may have one.

        Args:
            names: the caller's names, one for each of the shares.

        Yields:
            Whether the caller has a place.
        """
        taken = list(zip(self._taken, names, self._shares, strict=True))
        is_full = self.here >= self._most
        if is_full or any(held[name] >= share for held, name, share in taken):
            yield False
            return
        self.here += 1
        for held, name, _ in taken:
            held[name] += 1
        try:
            yield True
        finally:
            self.here -= 1
            for held, name, _ in taken:
                held[name] -= 1
                if not held[name]:
                    del held[name]


class Line:
    """A queue of calls that wait for room; the first takes it once there is enough."""

    def __init__(self, most: float = inf) -> None:
        """Lets at most ``most`` calls wait."""
        self._most = most
        self._waiting: dict[tuple[float, ...], asyncio.Event] = {}
        self._numbers = itertools.count()

    def __len__(self) -> int:
        """Returns the number of waiting calls."""
        return len(self._waiting)

    async def turn(self, take: Callable[[], Room | None], *rank: float) -> Room:
        """Waits for this call's turn and for room; returns the result of ``take``.

        Args:
            take: is called while this call is first; returns None if there is no room.
            rank: calls of lower rank go first; among equals, the earlier call goes
                first.

        Raises:
            UnavailableError: too many calls wait ahead of this one.
        """
        place = *rank, next(self._numbers)
        changed = self._waiting[place] = asyncio.Event()
        if len(self._waiting) > self._most:
            self._waiting.pop(max(self._waiting)).set()
        try:
            while place in self._waiting:
                is_first = place == min(self._waiting)
                if is_first and (taken := take()) is not None:
                    return taken
                changed.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK if is_first else None):
                        await changed.wait()
            raise UnavailableError("too many wait for room")
        finally:
            self._waiting.pop(place, None)
            self.move()

    def move(self) -> None:
        """Lets the first call check for room."""
        if self._waiting:
            self._waiting[min(self._waiting)].set()


class Turns:
    """A rate limit: a fixed number of turns a second, one after the other."""

    def __init__(self, rate: int) -> None:
        self._rate, self._left, self._since = rate, float(rate), 0.0
        self._lock = asyncio.Lock()  # a call that ends while it waits uses no turn

    async def turn(self) -> None:
        """Waits for a turn; unused turns of up to one second are saved."""
        async with self._lock:
            self._save_up()
            if self._left < 1:
                await asyncio.sleep((1 - self._left) / self._rate)
                self._save_up()
            self._left -= 1

    def _save_up(self) -> None:
        now = asyncio.get_running_loop().time()
        saved = self._left + (now - self._since) * self._rate
        self._left, self._since = min(self._rate, saved), now


# ------------------- tracks which client processes are connected, and which fell silent


LONG_WHY = 256  # maximum length of the reason why a client waits


@dataclass
class Session:
    """One client process."""

    cid: str
    number: int  # random; identifies the process
    notices: "asyncio.Queue[pb.Notice | None]" = field(default_factory=asyncio.Queue)


class Sessions:
    """The client processes that send heartbeats."""

    def __init__(self, lost_after: Seconds) -> None:
        self._lost_after = lost_after
        self._sessions: dict[str, Session] = {}
        self._names: dict[str, str] = {}  # the id of the client that has a name
        self._heard: dict[str, Seconds] = {}
        self._left: set[str] = set()  # clients not heard of since their session ended
        self.waiting: dict[str, str] = {}
        """The clients' latest reasons for beginning no task, by id."""

    def claim(self, name: str, cid: str) -> str:
        """Gives a name to a client, and tells the client that held it before to stop.

        Returns:
            The id of the client that held the name; empty if there was none.
        """
        before = self._names.get(name, cid)
        self._names[name] = cid
        if before == cid:
            return ""
        if before in self._sessions:
            text = f"another client has taken the name {name!r}"
            self.tell(self._sessions[before], pb.Notice.KIND_SUPERSEDED, text)
        return before

    def attend(self, cid: str, number: int) -> Session:
        """Begins a session; tells an older process of the same client to stop."""
        before = self._sessions.get(cid)
        if before is not None and before.number != number:
            text = "another process runs with this client's state directory"
            self.tell(before, pb.Notice.KIND_SUPERSEDED, text)
        session = self._sessions[cid] = Session(cid, number)
        self.hear(cid)
        return session

    def leave(self, session: Session) -> None:
        """Ends a session."""
        if self._sessions.get(session.cid) is session:
            del self._sessions[session.cid]
            self._left.add(session.cid)

    def hear(self, cid: str) -> None:
        """Notes that a client gave a sign of life."""
        self._heard.pop(cid, None)  # the dictionary is ordered by time
        self._heard[cid] = time.monotonic()
        self._left.discard(cid)

    def dismiss(self, cid: str, text: str) -> None:
        """Tells a client to stop, and counts it as gone."""
        session = self._sessions.get(cid)
        if session is not None:
            self.tell(session, pb.Notice.KIND_SUPERSEDED, text)
            session.notices.put_nowait(None)
        self.forget(cid)

    def note_waiting(self, cid: str, why: str) -> None:
        """Notes why a client begins no task; empty if it may begin one."""
        self.waiting.pop(cid, None)
        if why:
            self.waiting[cid] = printable(why)[:LONG_WHY]

    def forget(self, cid: str) -> None:
        """Forgets a client that left."""
        self._heard.pop(cid, None)
        self._left.discard(cid)
        self.waiting.pop(cid, None)

    def missing(self) -> list[str]:
        """Returns the clients that have been silent for too long, each of them once."""
        before = time.monotonic() - self._lost_after
        heard = self._heard.items()
        silent = [cid for cid, _ in takewhile(lambda each: each[1] < before, heard)]
        for cid in silent:
            del self._heard[cid]
        return silent

    @property
    def present(self) -> set[str]:
        """The ids of the clients that are present."""
        return set(self._heard)

    def is_here(self, cid: str) -> bool:
        """Returns whether a client was heard of within ``timeouts.lost``."""
        return cid in self._heard

    @property
    def here(self) -> int:
        """The number of clients that are present."""
        return len(self._heard)

    @property
    def attending(self) -> list[str]:
        """The ids of clients whose process is connected and was recently active."""
        return [cid for cid in self._sessions if cid in self._heard]

    @property
    def active(self) -> list[str]:
        """The ids of clients that were active after their last session ended."""
        return [cid for cid in self._heard if cid not in self._left]

    def tell_all(self, kind: pb.Notice.Kind, text: str) -> None:
        """Sends a notice to every process."""
        for session in self._sessions.values():
            self.tell(session, kind, text)

    def close(self) -> None:
        """Ends all sessions."""
        for session in self._sessions.values():
            session.notices.put_nowait(None)

    def tell(self, session: Session, kind: pb.Notice.Kind, text: str) -> None:
        """Sends a notice to a process."""
        session.notices.put_nowait(pb.Notice(kind=kind, text=text))


# --------- checks the caller and the disk at the beginning of every call of the service


LONG_NAME = 256  # maximum length of a client's name, which the server stores


class Callers:
    """The clients of one run, as this process knows them.

    Attributes:
        enrolled: ids of the clients that have received the settings from this process.
            A restart may change the settings, so clients enrol anew with each process.
        draining: whether the process is about to stop and accepts nothing new.
    """

    def __init__(self, run: Run, core: Core, tracer: Tracer) -> None:
        self._run, self._core, self._tracer = run, core, tracer
        self.gate = Gate(run.config)
        self.enrolled: set[str] = set()
        self.draining = False

    async def cid(self, key: bytes, context: Context) -> str:
        """Returns the id of the client with this key; aborts the call without a key.

        A client with a certificate of its own can only act as itself.
        """
        try:
            cid = cid_of(key)
        except ProtocolError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        row = self._run.coordinator.state.clients.get(cid)
        client = None if row is None else printable(row.name)
        concern(cid=cid, client=client)
        self._tracer.note(cid=cid, client=client)
        name = self.gate.read_certified_name(context)
        if name is not None and row is not None and row.name != name:
            await context.abort(
                grpc.StatusCode.PERMISSION_DENIED,
                f"the certificate belongs to {name!r}, the client id to another client",
            )
        return cid

    async def check_disk(self, context: Context) -> None:
        """Aborts the call while the disk fails: no answer could be made durable."""
        if self._core.trouble:
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                "the server's disk is full or fails; come back later: nothing is lost, "
                "and the run goes on once the disk works",
            )


@dataclass(frozen=True, slots=True)
class Backend:
    """The parts of the server that the methods of the service share."""

    run: Run
    core: Core
    answers: Answers
    sessions: Sessions
    callers: Callers
    tracer: Tracer
    versions: VersionSpans


def wrong_text(which: str, text: str) -> str:
    """Returns why a text is too long or not printable; empty if it is fine."""
    if len(text) > LONG_NAME:
        return f"a {which} of {len(text)} characters, the limit is {LONG_NAME}"
    if not is_printable(text):
        return f"a {which} must be printable text, got {text!a}"
    return ""


async def check_text(which: str, text: str, context: Context) -> None:
    """Aborts the call if a text cannot be stored."""
    if reason := wrong_text(which, text):
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, reason)


# ------------------- receives heartbeats, sends notices, and records clients that leave


SILENT: Seconds = 60.0  # seconds beyond ``timeouts.lost`` until a silent call ends


class Attendance:
    """Keeps in touch with clients while they are connected."""

    def __init__(self, backend: Backend, informed: set[str]) -> None:
        """Adds to ``informed`` the ids of clients that learn that the run has ended."""
        self._run, self._core, self._informed = backend.run, backend.core, informed
        self._sessions, self._callers = backend.sessions, backend.callers

    async def attend(
        self, beats: AsyncIterator[pb.Beat], context: Context
    ) -> AsyncGenerator[pb.Notice, None]:
        """Receives a client's heartbeats, and yields notices for it."""
        first = await anext(beats, None)
        if first is None:
            return
        cid = await self._callers.cid(first.key, context)
        row = self._run.coordinator.state.clients.get(cid)
        if first.waiting and row is not None:
            if (notice := self._note_waiting(row, first.waiting)) is not None:
                yield notice
            return
        if row is None or row.evicted is not None:
            return
        session = self._sessions.attend(cid, first.session)
        self._sessions.note_waiting(cid, "")
        if ended := self._run.coordinator.state.closed:
            self._sessions.tell(session, pb.Notice.KIND_ENDED, ended)
        listener = asyncio.create_task(self._listen(session, beats))
        try:
            while (notice := await session.notices.get()) is not None:
                yield notice
        finally:
            listener.cancel()
            self._sessions.leave(session)

    def _note_waiting(self, row: ClientRow, why: str) -> pb.Notice | None:
        """Notes that a client waits for its device; begins no session.

        Returns:
            A notice that the client need not wait any longer; None if it has to wait.
        """
        if row.evicted is not None:
            text = why_out(row.name, row.evicted)
            return pb.Notice(kind=pb.Notice.KIND_SUPERSEDED, text=text)
        if ended := self._run.coordinator.state.closed:
            self._informed.add(row.cid)
            return pb.Notice(kind=pb.Notice.KIND_ENDED, text=ended)
        self._sessions.note_waiting(row.cid, why)
        return None

    async def _listen(self, session: Session, beats: AsyncIterator[pb.Beat]) -> None:
        silent = SILENT + self._run.config.timeouts.lost
        try:
            async with asyncio.timeout(silent) as limit:
                async for beat in beats:
                    self._sessions.hear(session.cid)
                    self._sessions.note_waiting(session.cid, beat.waiting)
                    limit.reschedule(asyncio.get_running_loop().time() + silent)
        except TimeoutError:
            pass  # a client that turns out to be present attends again
        finally:
            session.notices.put_nowait(None)

    async def leave(self, request: pb.LeaveRequest, context: Context) -> pb.LeaveReply:
        """Records in the journal that a client has left for good."""
        cid = await self._callers.cid(request.key, context)
        await self._callers.check_disk(context)
        left = Departed(at=self._core.now(), cid=cid)
        await self._core.ask(lambda _: None, after=left)
        self._sessions.forget(cid)
        self._callers.enrolled.discard(cid)
        return pb.LeaveReply()
