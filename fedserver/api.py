"""``latecomer.serve``: a federation's server from Python."""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from fedcore.errors import ConfigError, WorkloadError
from fedcore.training import initial_model
from fedcore.workload import Workload
from fedrun.config import FederationConfig, read_config
from fedrun.files import save_model
from fedserver import serving
from fedview.results import Results


def serve(
    config: FederationConfig | Mapping[str, Any] | str | Path,
    workload: Workload | None = None,
    *,
    amend: bool = False,
    must_resume: bool = False,
    evaluator: bool = True,
    log: Literal["text", "json"] | None = None,
    on_listening: Callable[[str], None] | None = None,
) -> Results:
    """Serves a federation until its run has ended; ``fedserver run`` from Python.

    Blocks. In the main thread Ctrl-C and SIGTERM stop the server in order, and the same
    call continues the run; in any other thread signals are left alone. The server
    imports no torch.

    Args:
        config: the path of a YAML file, a mapping of the same shape, or a config that
            was read before. The run is kept in the folder ``server.journal``.
        workload: makes version 0 where the file ``model`` is missing. Without it, the
            app that the config names makes it, in a process of its own.
        amend: continue a run although the algorithm in the config has changed.
        must_resume: fail if there is no run to continue, instead of starting a new one.
        evaluator: start an evaluator beside the server if the config names an app.
        log: ``text`` draws a live view, ``json`` prints a JSON object for each event.
            Without a value, nothing is printed.
        on_listening: a function that is called with the address, as HOST:PORT, once
            clients can join.

    Returns:
        The tables, models and summary of the run. ``summary["ended"]`` says why it
        ended, and is None if the server was only stopped.

    Raises:
        ConfigError: the config has mistakes, or an event loop runs in this thread.
        WorkloadError: version 0 cannot be made.
        JournalError: the folder of the run cannot be read or written, or has no run to
            continue.
        UnavailableError: the port is taken.
    """
    if log not in ("text", "json", None):
        raise ConfigError(f"log: expected 'text', 'json' or None, got {log!r}")
    if on_listening is not None and not callable(on_listening):
        raise ConfigError(f"on_listening: expected a function, got {on_listening!r}")
    _require_no_loop()
    path = Path(config) if isinstance(config, str | Path) else None
    read = read_config(config)
    if workload is not None:
        _make_model(workload, read)
    with _signals_restored():
        serving.serve(
            read,
            Path.cwd() if path is None else path.resolve().parent,
            amend=amend,
            must_resume=must_resume,
            evaluator=evaluator,
            log=log,
            on_listening=on_listening,
        )
    return Results(read.server.journal)


def _make_model(workload: object, config: FederationConfig) -> None:
    """Writes version 0 of a workload's model, unless its file is there.

    Raises:
        WorkloadError: it is no workload, or its code raises.
    """
    if not isinstance(workload, Workload):
        raise WorkloadError(
            "workload: expected a Workload or a TorchWorkload, got "
            f"{type(workload).__name__}; a name belongs into the config, as app:"
        )
    if not config.model.is_file():
        model, seed = workload.on("cpu").flat(), config.seed
        first_D = initial_model(model, seed)
        save_model(config.model, model.spec, first_D, rest=model.rest(), seed=str(seed))


def _require_no_loop() -> None:
    """Checks that this thread can run an event loop.

    Raises:
        ConfigError: one runs already, as in a notebook.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise ConfigError(
        "serve: an event loop runs in this thread, as in a notebook; call it in a "
        "thread of its own, as in: await asyncio.to_thread(latecomer.serve, config)"
    )


@contextmanager
def _signals_restored() -> Iterator[None]:
    """Puts the program's own handlers of signals back at the end of the block."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler or signal.SIG_DFL)
