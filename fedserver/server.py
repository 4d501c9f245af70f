"""A federation server: gRPC in front, the core thread behind, timers between them."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, assert_never

import grpc
from fedwire.connect import SERVICE
from fedwire.service import raw_handlers
from fedwire.v1 import federation_pb2 as pb
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer

from fedcore.coordinator.actions import (
    Action,
    Finish,
    Persist,
    Refuse,
    SendAck,
    SendReply,
    SetTimer,
    StartTask,
)
from fedcore.coordinator.events import Evaluated, Leased, Lost, TimerFired
from fedcore.typing import Seconds
from fedrun.journal.store import Row
from fedrun.run import Run
from fedrun.tracing import OFF, Tracer
from fedrun.traffic_file import TrafficFile
from fedserver.calls.callers import Sessions
from fedserver.calls.connections import Disconnector
from fedserver.calls.listening import bind, open_operator_socket, options
from fedserver.calls.service import FederationService, Metered
from fedserver.core import Answers, Core
from fedserver.tracing import VersionSpans
from fedserver.view.progress import Progress
from fedserver.view.status import Status

if TYPE_CHECKING:
    from fedserver.view.web.port import WebPort

_log = logging.getLogger(__name__)
_SWEEP: Seconds = 0.5
EVALUATOR_STARTS: Seconds = 60.0  # maximum duration of its start
_LOOK: Seconds = 0.1
_SAVE: Seconds = 2.0  # time between two writes of the byte counts
USUAL = 10  # the last evaluation gets this many times the longest evaluation so far,
FIRST: Seconds = 30.0  # or, if there was none, this time,
LINGERS = 3  # or this many times ``timeouts.linger``


class EvaluationTimes:
    """The longest evaluation so far, taken from the records of tasks and reports."""

    def __init__(self) -> None:
        self._began: dict[str, Seconds] = {}
        self._longest: Seconds | None = None

    def observe(self, record: Row) -> None:
        """Takes a durable record into account."""
        match record:
            case Leased(task="evaluate"):
                self._began[record.cid] = record.at
            case Evaluated() if began := self._began.pop(record.cid, None):
                self._longest = max(self._longest or 0.0, record.at - began)

    def patience(self, linger: Seconds, most: Seconds) -> Seconds:
        """Returns how long after the end the server waits for the last evaluation.

        Args:
            linger: how long the server waits for clients that do not know of the end.
            most: the limit, if evaluations are known to be long.
        """
        if self._longest is None:
            return max(FIRST, LINGERS * linger)
        return max(linger, min(most, USUAL * self._longest))


@dataclass
class Server:
    """One run, served until it has ended or the process is told to stop.

    ``operator_socket`` is the address of a socket that only this user can open. Its
    callers count as the operator: the server's own evaluator, which needs no
    certificate there, or a command. The address is written into the run's folder.
    ``tracer`` makes spans of calls and versions.
    """

    run: Run
    progress: Progress
    operator_socket: str | None = None
    tracer: Tracer = OFF
    ended: str | None = None

    def __post_init__(self) -> None:
        """Prepares the server; opens no port and starts no thread."""
        self.ready = asyncio.Event()
        self.progress.not_ready = self._not_ready
        self.over = asyncio.Event()
        """Set once the run has ended."""
        self.hurries = asyncio.Event()
        """Set when the process gets a second request to stop."""
        self._stop = asyncio.Event()
        self.evaluator_starts: Callable[[], bool] = lambda: False
        """Returns whether the server's own evaluator may be about to connect.

        It has been started or is about to be, and may not have connected yet.
        """

    async def serve(self) -> str | None:
        """Serves; returns why the run ended, or None if it was only stopped.

        Raises:
            UnavailableError: the port is taken.
            JournalError: the disk failed; every acknowledged update is on disk.
        """
        with open_operator_socket(self.run.journal.folder) as self.operator_socket:
            return await self._serve()

    async def _serve(self) -> str | None:
        self._failure: BaseException | None = None
        self._answers = Answers()
        self._sessions = Sessions(self.run.config.timeouts.lost)
        self._timers: dict[tuple[str, str], asyncio.TimerHandle] = {}
        self._core = Core(
            self.run,
            self._release,
            self._fail,
            self.progress.observe,
            self._start_again,
        )
        self.progress.watch(self.run, self._sessions, self._core)
        self._evaluations = EvaluationTimes()
        self.progress.listeners.append(self._evaluations.observe)
        status = Status(self.progress).text
        versions = VersionSpans(self.tracer)
        if self.tracer is not OFF:
            self.progress.listeners.append(versions.observe)
        self._service = FederationService(
            self.run, self._core, self._answers, self._sessions, status, versions
        )
        self._health = HealthServicer()
        self._grpc = grpc.aio.server(options=options(self.run.config.server))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._grpc)
        try:
            self.port = bind(self._grpc, self.run.config.server)
            self.web = self._web_port()
        except BaseException:
            self.run.journal.close()  # or this process could not serve the run again
            raise
        self._grpc.add_generic_rpc_handlers((raw_handlers(self._wrap_service()),))
        if self.operator_socket is not None:
            self._grpc.add_insecure_port(self.operator_socket)
        self._core.start()
        await self._grpc.start()
        if self.web is not None:
            self.web.start()
        await self._set_health(health_pb2.HealthCheckResponse.SERVING)
        self.progress.listening(self.run.config.server.host, self.port)
        self.ready.set()
        sweeper = asyncio.create_task(self._sweep())
        saver = asyncio.create_task(self._save_counts())
        try:
            await self._stop.wait()
        finally:
            sweeper.cancel()
            try:
                await self._shut_down()
            finally:
                await self._close_counts(saver)
                if self.web is not None:
                    await self.web.close()
        if self._failure is not None:
            raise self._failure
        return self.ended

    def stop(self) -> None:
        """Drains and stops the server; nothing is lost, and it can be started again."""
        self._stop.set()

    def interrupt(self) -> None:
        """Stops the server as a signal does: at once if it is stopping already."""
        if self._stop.is_set():
            self.hurries.set()
        self._stop.set()

    # ------------------------------------------------------------------ actions

    def _release(self, actions: list[Action]) -> None:
        """Carries out actions of the core, whose records are durable."""
        for action in actions:
            match action:
                case SendReply() | SendAck() | Refuse():
                    self._answers.give(action)
                case SetTimer():
                    self._set_timer(action)
                case Finish():
                    self._finish(action.reason)
                case Persist() | StartTask():
                    raise AssertionError(f"no action for a server: {action}")
                case _:
                    assert_never(action)

    def _set_timer(self, action: SetTimer) -> None:
        """Sets a timer, in place of an earlier one of the same purpose and client.

        The timer never fires too early, although the event loop may wake before its
        time.
        """
        timer = action.timer
        subject = "" if timer.kind == "deadline" else timer.subject

        def fire() -> None:
            del self._timers[timer.kind, subject]
            at = max(action.at, self._core.now())
            self._core.submit(TimerFired(at=at, timer=timer))

        before = self._timers.pop((timer.kind, subject), None)
        if before is not None:
            before.cancel()
        self._timers[timer.kind, subject] = asyncio.get_running_loop().call_later(
            max(0.0, action.at - self._core.now()), fire
        )

    def _start_again(self) -> None:
        """Forgets timers and waiting pulls, since the coordinator was restored."""
        for handle in self._timers.values():
            handle.cancel()
        self._timers.clear()
        self._core.timers_are_gone()
        self._answers.retry_pulls()

    def _finish(self, reason: str) -> None:
        """Ends the run; clients that pull in time still get the last model."""
        if self.ended is not None:
            return
        self.ended = reason
        self.over.set()
        self._sessions.tell_all(pb.Notice.KIND_ENDED, reason)
        self._ending = asyncio.create_task(self._wait_for_goodbyes())

    async def _wait_for_goodbyes(self) -> None:
        timeouts = self.run.config.timeouts
        # The server's own evaluator may need longer to start than a short run lasts.
        await _until(lambda: not self._evaluator_comes(), EVALUATOR_STARTS)
        since = asyncio.get_running_loop().time()
        await _until(self._all_know, timeouts.linger)
        # Clients that are connected finish when their sessions end; some still train.
        most = max(timeouts.lease, self._patience)
        await _until(lambda: not self._is_someone_at_work(since), most)
        for name in self._evaluating():
            _log.warning(
                "the evaluator %r has not ended %.0f s after the run, and the server "
                "ends without its last metrics: fedclient evaluate-file --app %s %s "
                "measures them now, and a larger timeouts.linger waits longer",
                name,
                self._patience,
                self.run.config.app or "APP",
                self.run.journal.folder / "models" / "last.safetensors",
            )
        self.stop()

    def _is_someone_at_work(self, since: Seconds) -> bool:
        """Returns whether the server still waits for a client that may be computing.

        A silent client counts as gone, and so does an evaluator that takes far longer
        than ever before.
        """
        waited = asyncio.get_running_loop().time() - since
        rows = self.run.coordinator.state.clients
        trains = any(rows[cid].role != "evaluator" for cid in self._sessions.attending)
        if trains and waited < self.run.config.timeouts.lease:
            return True
        if self._evaluator_comes():
            return True
        return bool(self._evaluating()) and waited < self._patience

    @property
    def _patience(self) -> Seconds:
        """The time for which the server waits for an evaluator."""
        timeouts = self.run.config.timeouts
        return self._evaluations.patience(timeouts.linger, timeouts.lease)

    def _evaluating(self) -> list[str]:
        """Returns the names of the evaluators that may be evaluating now.

        They are connected, or have pulled the last version and will connect next.
        """
        state, sessions = self.run.coordinator.state, self._sessions
        here = set(sessions.attending)
        if state.evaluated != state.version:
            here |= set(sessions.active) & self._service.informed
        rows = [state.clients[cid] for cid in sorted(here)]
        return [row.name for row in rows if row.role == "evaluator"]

    def _evaluator_comes(self) -> bool:
        """Returns whether the server's own evaluator starts and has not called yet."""
        has_come = self.evaluator_knows or self._evaluating()
        return not has_come and self.evaluator_starts()

    @property
    def evaluator_knows(self) -> bool:
        """Whether this process has told an evaluator that the run has ended."""
        clients = self.run.coordinator.state.clients
        told = [clients.get(cid) for cid in list(self._service.informed)]
        return any(row is not None and row.role == "evaluator" for row in told)

    def _all_know(self) -> bool:
        """Returns whether every client that may still ask knows of the run's end."""
        rows = self.run.coordinator.state.clients.values()
        told = self._service.informed
        return all(row.is_out or row.cid in told for row in list(rows))

    def _fail(self, error: BaseException) -> None:
        """Stops the server after the core thread died; nothing more may be answered."""
        self._failure = error
        self._stop.set()

    # ------------------------------------------------------------------ presence

    async def _sweep(self) -> None:
        """Looks for clients that fell silent, and for a stalled run."""
        was_stalled = False
        while True:
            await asyncio.sleep(_SWEEP)
            for cid in self._sessions.missing():
                self._core.submit(Lost(at=self._core.now(), cid=cid))
            stalled = self.progress.stalled
            if stalled and not was_stalled:
                _log.warning("%s", stalled)
            was_stalled = bool(stalled)

    # --------------------------------------------------------------------- HTTP

    def _web_port(self) -> "WebPort | None":
        """Takes the HTTP port, if one is configured.

        Raises:
            ConfigError: the packages of the extra are missing.
            UnavailableError: the port is taken.
        """
        listen = self.run.config.server.web
        if listen is None:
            return None
        from fedserver.view.web.port import WebPort

        return WebPort(listen, self.progress)

    def _not_ready(self) -> str:
        """Returns why the server accepts no work; empty if it does.

        When this is asked, the journal is open and recovered, and the model is loaded.
        """
        if self._failure is not None:
            return f"the server is about to end: {self._failure}"
        if self._stop.is_set():
            return "the server is draining: it is about to stop"
        if self._core.trouble:
            return "the disk is full or fails: no work is taken until it works again"
        return "" if self.ready.is_set() else "the server is starting"

    # -------------------------------------------------------------- byte counts

    def _wrap_service(self) -> Metered:
        """Wraps the service to count its bytes, on top of the counts so far."""
        self._counts = TrafficFile(self.run.journal.folder)
        traffic = self.progress.traffic = self._counts.load()
        return Metered(
            self._service,
            traffic,
            Disconnector(self.port),
            lambda cid: cid in self.run.coordinator.state.clients,
            self.tracer,
        )

    async def _save_counts(self) -> None:
        """Writes the counts from time to time, on a thread."""
        while not self._stop.is_set():
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._stop.wait(), _SAVE)
            await asyncio.to_thread(self._counts.save, self.progress.traffic)

    async def _close_counts(self, saver: "asyncio.Task[None]") -> None:
        await saver
        self._counts.save(self.progress.traffic)
        self._counts.close()

    # ---------------------------------------------------------------------- end

    async def _shut_down(self) -> None:
        """Accepts nothing new, lets open uploads finish, and closes the journal."""
        await self._set_health(health_pb2.HealthCheckResponse.NOT_SERVING)
        self._service.drain()
        self._sessions.tell_all(pb.Notice.KIND_DRAINING, "the server is about to stop")
        self._answers.cancel_pulls()
        self._sessions.close()  # or their calls would use up the whole grace
        if self._failure is None:
            await self._drain()
            await self._core.stop()
        else:
            self._answers.cancel_all()
            await self._grpc.stop(grace=None)
        self._service.close()

    async def _drain(self) -> None:
        """Waits for open calls, for ``timeouts.drain`` or until :meth:`interrupt`."""
        grace = self.run.config.timeouts.drain
        draining = asyncio.create_task(self._grpc.stop(grace=grace))
        hurries = asyncio.create_task(self.hurries.wait())
        await asyncio.wait([draining, hurries], return_when=asyncio.FIRST_COMPLETED)
        if not hurries.cancel():
            await self._grpc.stop(grace=None)
        await draining

    async def _set_health(self, status: Any) -> None:
        for name in ("", SERVICE):
            await self._health.set(name, status)


async def _until(condition: Callable[[], bool], seconds: Seconds) -> None:
    """Waits until a condition holds, for ``seconds`` at most."""
    for _ in range(round(seconds / _LOOK)):
        if condition():
            break
        await asyncio.sleep(_LOOK)
