"""The gRPC service of one run, and the objects that carry out its methods."""

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from fedwire.v1 import federation_pb2 as pb

from fedcore.coordinator.acts import why_not_freed
from fedcore.coordinator.events import NameFreed
from fedcore.errors import ConfigError
from fedrun.run import Run
from fedserver.acts import Acts
from fedserver.answers import Answers
from fedserver.attendance import Attendance
from fedserver.callers import Backend, Callers
from fedserver.core import Core
from fedserver.enrolment import Enrolment
from fedserver.identity import OPERATOR, by_socket
from fedserver.pulls import Pulls
from fedserver.pushes import Pushes
from fedserver.reports import Reports
from fedserver.sessions import Sessions
from fedserver.tracing import VersionSpans
from fedserver.trials import Trials

Context = Any
Status = Callable[[bool], Awaitable[str]]


class FederationService:
    """One coroutine for each method of the service."""

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
            run: what is served.
            core: decides.
            answers: calls that wait for it.
            sessions: the processes of clients.
            status: yields all that is known, or what everybody may know.
            versions: makes a span of each version.
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
        """Takes nothing new from now on; uploads that have begun may finish."""
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
        """Frees a client's name for others, if the operator of this machine asks."""
        if not by_socket(context):
            await context.abort(
                grpc.StatusCode.PERMISSION_DENIED,
                "names are freed where the run is: fedserver free RUN NAME",
            )
        freed = NameFreed(at=self._core.now(), name=request.name)
        try:
            await self._core.ask(
                lambda _: None,
                after=freed,
                unless=lambda c: why_not_freed(freed, c.state),
            )
        except ConfigError:
            return pb.FreeReply(was_taken=False)
        return pb.FreeReply(was_taken=True)
