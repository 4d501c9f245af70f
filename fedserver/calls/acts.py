"""The operator's acts on a run: pause, resume, evict, readmit and snapshot.

An act is an event of the coordinator and a record of the journal. The run's server
carries it out; if no server has the run, it is carried out in the run's journal.
"""

import getpass
import os
from collections.abc import Callable
from typing import Any

import grpc
from fedwire.v1 import federation_pb2 as pb

from fedcore.coordinator import Coordinator
from fedcore.coordinator.answers import objection, why_out
from fedcore.coordinator.events import (
    Act,
    Evicted,
    Paused,
    Readmitted,
    SnapshotOrdered,
    Unpaused,
)
from fedcore.errors import ConfigError
from fedcore.typing import Seconds
from fedserver.calls.callers import OPERATOR, Backend, check_text

Context = Any
_KINDS: dict[int, type[Act]] = {
    pb.ACT_PAUSE: Paused,
    pb.ACT_RESUME: Unpaused,
    pb.ACT_EVICT: Evicted,
    pb.ACT_READMIT: Readmitted,
    pb.ACT_SNAPSHOT: SnapshotOrdered,
}


def event_of(request: pb.OperateRequest, at: Seconds) -> Act | None:
    """Returns the event of an act; None if this version does not know it."""
    kind = _KINDS.get(request.act)
    if kind is None:
        return None
    said: dict[str, Any] = {"at": at, "by": request.by, "reason": request.reason}
    if kind in (Evicted, Readmitted):
        said["name"] = request.name
    return kind(**said)


def this_operator() -> str:
    """Returns the name of the user that runs this process."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return f"uid {os.getuid()}"


class Acts:
    """Carries out the operator's acts on one run while it is served."""

    def __init__(self, backend: Backend) -> None:
        self._run, self._core = backend.run, backend.core
        self._sessions, self._callers = backend.sessions, backend.callers

    async def operate(
        self, request: pb.OperateRequest, context: Context
    ) -> pb.OperateReply:
        """Carries out an act, and answers once it is durable."""
        await self._check(request, context)
        act = event_of(request, self._core.now())
        if act is None:
            await context.abort(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"this server knows no act {request.act}",
            )
            raise AssertionError("an aborted call goes on")
        before = self._run.journal.store.last
        try:
            version, gone = await self._core.ask(
                _after(act), after=act, unless=lambda c: objection(act, c.state)
            )
        except ConfigError as error:  # impossible now, or already done
            return pb.OperateReply(objection=str(error))
        for cid in gone:
            self._shut_out(cid, why_out(request.name, request.reason))
        reply = pb.OperateReply(version=version)
        if isinstance(act, SnapshotOrdered):
            number = self._run.journal.newest_snapshot()
            if number is None or number <= before:
                reply.objection = (
                    "the snapshot could not be written; the server's log says why"
                )
            else:
                reply.snapshot = str(self._run.journal.snapshots.path(number))
        return reply

    async def _check(self, request: pb.OperateRequest, context: Context) -> None:
        """Aborts the call unless the operator sent it and the request makes sense."""
        operator = self._callers.gate.operator(context)
        if operator is None:
            await context.abort(
                grpc.StatusCode.PERMISSION_DENIED,
                "operators act where the run is (give the folder RUN in place of "
                f"HOST), or show a certificate of the organizational unit {OPERATOR!r}",
            )
        request.by = operator or request.by
        await self._callers.check_disk(context)
        await check_text("name", request.name, context)
        await check_text("user", request.by, context)
        await check_text("reason", request.reason, context)

    def _shut_out(self, cid: str, why: str) -> None:
        """Tells a client that it is evicted, and accepts nothing more from it."""
        self._callers.enrolled.discard(cid)
        self._sessions.dismiss(cid, why)


def _after(act: Act) -> Callable[[Coordinator], tuple[int, list[str]]]:
    """Returns a question: the version after an act, and the clients that it evicted."""

    def ask(coordinator: Coordinator) -> tuple[int, list[str]]:
        state = coordinator.state
        gone: list[str] = []
        if isinstance(act, Evicted):
            gone = [row.cid for row in state.roster.rows_of(act.name) if row.is_out]
        return state.version, gone

    return ask
