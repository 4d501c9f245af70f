"""The work of ``fedserver run``: the server with its live view and its evaluator."""

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from fedcore import kernels
from fedcore.coordinator.events import Decided, Evaluated, Failed, Stepped
from fedcore.coordinator.settings import find_unreported
from fedcore.memory import keep
from fedcore.text import printable
from fedcore.typing import Seconds
from fedrun.config import FederationConfig
from fedrun.journal.store import Row
from fedrun.json_lines import note_ids
from fedrun.run import Run, open_run, require_run
from fedrun.tracing import make_tracer
from fedserver.calls.connections import allow_many
from fedserver.children import fit_model, keep_evaluating
from fedserver.server import EVALUATOR_STARTS, Server
from fedserver.view.json_log import JsonLog, logging_aside
from fedserver.view.live import LiveView
from fedserver.view.progress import Progress
from fedserver.view.web.port import require_packages
from fedview.results.divergence import Divergence, classes_of

_log = logging.getLogger(__name__)
_MOST_ERRORS = 3  # errors of an evaluator that are logged
_LEAVES: Seconds = 5.0  # time that an evaluator needs to leave once it knows of the end
_KEPT = 64 << 20  # bytes that updates and versions need again and again


def serve(
    config: FederationConfig,
    folder: Path,
    *,
    amend: bool,
    evaluator: bool,
    log: Literal["text", "json"] | None,
    must_resume: bool = False,
    on_listening: Callable[[str], None] | None = None,
) -> str | None:
    """Serves a federation; returns why the run ended, or None if it was stopped.

    Args:
        config: the federation.
        folder: the folder of the config file, in which the app is looked for.
        amend: whether to resume with a changed algorithm.
        evaluator: whether to start one, if the config names an app.
        log: ``text`` draws a live view, ``json`` prints lines of JSON, None shows
            nothing.
        must_resume: whether to refuse to begin a new run.
        on_listening: is called with the server's address once it listens.

    Raises:
        JournalError: ``must_resume`` is set and there is no run to resume.
    """
    keep(_KEPT, _KEPT // 2)
    if must_resume:
        require_run(config.server.journal)
    if config.server.web is not None:
        require_packages()
    tracer = make_tracer("fedserver", config.server.telemetry)
    with fit_model(config, folder) as model:
        allow_many()
        run = open_run(config, time.time(), amend=amend, model=model)
    if run.coordinator.state.closed:
        _log.warning(
            "the run in %s has ended already (%s), and clients will hear this; a later "
            "stop continues it, another server.journal begins a new one",
            config.server.journal,
            run.coordinator.state.closed,
        )
    note_ids(run=run.run_id)
    progress = Progress()
    progress.listeners.append(evaluation_warnings(progress, config))
    progress.listeners.append(_divergence(run))
    progress.listeners.append(short_versions(progress))
    progress.listeners.append(unmeasured(run))
    with contextlib.ExitStack() as stack:
        stack.enter_context(logging_aside())
        stack.callback(tracer.close)
        server = Server(run, progress, tracer=tracer)
        json_log: JsonLog | None = None
        if log == "json":
            json_log = JsonLog(progress)
            stack.callback(json_log.close)
        elif log == "text":
            stack.enter_context(LiveView(progress))

        async def both() -> str | None:
            _catch_signals(server)
            serving = asyncio.create_task(server.serve())
            ready = asyncio.create_task(server.ready.wait())
            await asyncio.wait([serving, ready], return_when=asyncio.FIRST_COMPLETED)
            ready.cancel()
            if json_log is not None and server.ready.is_set():
                json_log.say(
                    "listening",
                    address=progress.address,
                    replayed=run.recovered,
                    kernels=kernels.in_use(),
                    web=None if server.web is None else server.web.address,
                )
            if on_listening is not None and server.ready.is_set():
                try:
                    on_listening(progress.address)
                except BaseException:
                    server.stop()  # in order, or its threads would outlive this call
                    await serving
                    raise
            helper = None
            wanted = evaluator and config.app is not None
            address = server.operator_socket
            if wanted and address is not None and server.ready.is_set():
                start = _Start()
                evaluating = keep_evaluating(
                    config, folder, address, server.over, start.note
                )
                helper = asyncio.create_task(evaluating)
                server.evaluator_starts = lambda: not helper.done() and start.may_go_on
            try:
                return await serving
            finally:
                if helper is not None:
                    await _let_finish(helper, server)
                if json_log is not None:
                    json_log.say("stopped", ended=server.ended)

        return asyncio.run(both())


class _Start:
    """The latest start of the server's own evaluator."""

    def __init__(self) -> None:
        self.note()

    def note(self) -> None:
        """Notes that the evaluator's process starts now."""
        self._at = time.monotonic()

    @property
    def may_go_on(self) -> bool:
        """Whether the evaluator may not have made its first call yet."""
        return time.monotonic() - self._at < EVALUATOR_STARTS


def evaluation_warnings(
    progress: Progress, config: FederationConfig
) -> Callable[[Row], None]:
    """Returns a listener that warns once of evaluation errors and missing targets."""
    target, errors = dict(config.stop.target), set[str]()

    def look(record: Row) -> None:
        if not isinstance(record, Evaluated | Failed):
            return
        if not progress.is_evaluator(record.cid):
            return
        if isinstance(record, Evaluated):
            for sentence in find_unreported(target, record.values):
                _log.warning("%s", sentence)
            target.clear()
        elif record.error not in errors and len(errors) < _MOST_ERRORS:
            errors.add(record.error)
            _log.warning("%s: %s", progress.name(record.cid), record.error)

    return look


def _divergence(run: Run) -> Callable[[Row], None]:
    """Returns a listener that warns once of a loss that shows divergence."""
    state = run.coordinator.state
    divergence = Divergence(classes_of(run.coordinator.algorithm.model))
    divergence.evaluators.update(
        row.cid for row in state.clients.values() if row.role == "evaluator"
    )

    def look(record: Row) -> None:
        divergence.observe(record)
        for warning in divergence.news():
            _log.warning("%s", warning)

    return look


def short_versions(progress: Progress) -> Callable[[Row], None]:
    """Returns a listener that warns once of versions with fewer updates.

    Such versions are made when clients are gone.
    """

    def look(record: Row) -> None:
        if isinstance(record, Stepped) and (said := progress.coverage.short.news()):
            _log.warning("%s", said)

    return look


def unmeasured(run: Run) -> Callable[[Row], None]:
    """Returns a listener that warns once of a device that measures no energy."""
    coordinator = run.coordinator
    asks = coordinator.algorithm.config.uses_energy

    def look(record: Row) -> None:
        nonlocal asks
        if not (asks and isinstance(record, Decided) and record.measured):
            return
        if record.measured.joules is None:
            asks = False
            _log.warning(
                "%s measured no energy of its task; such a device is held to the limit "
                "of joules by what others measure, or not at all if none does",
                printable(coordinator.state.clients[record.cid].name),
            )

    return look


def _catch_signals(server: Server) -> None:
    """Makes SIGTERM and Ctrl-C stop the server, in every phase from here on."""
    loop = asyncio.get_running_loop()
    for which in (signal.SIGTERM, signal.SIGINT):
        # Windows has no such handlers, and only the main thread gets signals.
        with contextlib.suppress(NotImplementedError, RuntimeError):
            loop.add_signal_handler(which, server.interrupt)


async def _let_finish(helper: "asyncio.Task[None]", server: Server) -> None:
    """Lets the evaluator leave by itself at the end of a run; ends it otherwise.

    The server has stopped by then, so the evaluator can report nothing more.
    """
    hurries = asyncio.create_task(server.hurries.wait())
    if server.ended is not None and server.evaluator_knows:
        await asyncio.wait(
            [helper, hurries], timeout=_LEAVES, return_when=asyncio.FIRST_COMPLETED
        )
    helper.cancel()
    await asyncio.wait([helper, hurries], return_when=asyncio.FIRST_COMPLETED)
    helper.cancel()  # at once, after a second signal
    hurries.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await helper
