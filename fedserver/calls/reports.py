"""Takes reports of clients: evaluations, omitted samples, and errors of user code."""

from typing import Any

import grpc
from fedwire.convert import epoch_name
from fedwire.v1 import federation_pb2 as pb

from fedcore.coordinator.events import Evaluated, Failed, Skipped
from fedcore.protocol import MOST_COUNTED
from fedcore.text import is_printable, wrong_metrics
from fedcore.user_code import LONG_TEXT, LONGEST_WHY
from fedserver.calls.callers import Backend

Context = Any


class Reports:
    """Turns reports into events of the run."""

    def __init__(self, backend: Backend) -> None:
        self._core, self._callers = backend.core, backend.callers
        self._sessions = backend.sessions

    async def report(
        self, request: pb.ReportRequest, context: Context
    ) -> pb.ReportReply:
        """Takes the metrics of an evaluation, or an error of the user's code."""
        cid = await self._callers.cid(request.key, context)
        await self._callers.check_disk(context)
        await _check(request, context)
        if cid in self._callers.enrolled:
            self._sessions.hear(cid)
            await self._take(cid, request)
        return pb.ReportReply()

    async def _take(self, cid: str, request: pb.ReportRequest) -> None:
        at = self._core.now()
        if request.skipped:
            skipped = Skipped(
                at=at,
                cid=cid,
                count=min(request.skipped, MOST_COUNTED),
                why=request.error[:LONGEST_WHY],
            )
            self._core.submit(skipped)
        elif request.error:
            error = request.error[-LONG_TEXT:]
            self._core.submit(Failed(at=at, cid=cid, error=error))
        elif epoch_name(request.model.epoch) == await self._core.ask(
            lambda coordinator: coordinator.state.epoch
        ):
            measured = Evaluated(
                at=self._core.now(),
                cid=cid,
                version=request.model.version,
                values=dict(request.values),
                samples=request.samples,
                text=request.text,
            )
            await self._core.ask(lambda _: None, after=measured)


async def _check(request: pb.ReportRequest, context: Context) -> None:
    """Aborts the call if a report is too large to be stored, or not printable."""
    reason = wrong_metrics(request.values)
    if not is_printable(request.error, lines=True):
        reason = "an error must be printable text in lines"
    if not is_printable(request.text, lines=True):
        reason = "a text must be printable, in lines"
    if reason:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, reason)
