"""Child processes of the server that run the user's code: they make and test models.

The server itself never imports that code. If the config names an app, the server starts
these processes; in a container deployment, another container takes their place.
"""

import asyncio
import contextlib
import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from fedcore.errors import ConfigError, UserCodeError, WorkloadError
from fedcore.params import ParamSpec
from fedcore.typing import JSON, Seconds
from fedrun.cli.exit_codes import exit_code
from fedrun.config import FederationConfig
from fedrun.durable import make_folder
from fedrun.evaluation import Evaluation
from fedrun.files import is_of_another_program
from fedrun.journal import Configured, exists
from fedrun.run import require_first_model
from fedview.results import Results

_log = logging.getLogger(__name__)
EVALUATOR = "evaluator (server)"  # unlike a user's own evaluator
LAST_WORDS = 4096  # bytes
_RESTART_SECONDS: Seconds = 5.0
_LAST_WORDS_COME: Seconds = 0.2  # seconds after the end of a process
_ENDS: Seconds = 2.0  # seconds from SIGTERM to SIGKILL; its state is on disk
# The app cannot evaluate, its device is missing, it raised repeatedly, or the operator
# has evicted it: another start would not help.
_HOPELESS = (os.EX_DATAERR, os.EX_SOFTWARE, os.EX_CONFIG, os.EX_NOPERM)


def make_model(config: FederationConfig, folder: Path) -> None:
    """Writes version 0 to the config's ``model``, if there is no such file yet.

    Raises:
        ConfigError: there is no model and no app that could make it.
        UserCodeError: the app raised.
        WorkloadError: the app could not make it for another reason.
    """
    if config.model.is_file():
        return
    if config.app is None:
        raise ConfigError(
            f"{config.model}: no such file, and no app to make it from; run: fedclient "
            f"model --app APP -o {config.model}"
        )
    words = ["--app", config.app, "-o", str(config.model), "--seed", str(config.seed)]
    done = _run([*_fedclient(), "model", *words], folder)
    if done.returncode:
        reason = "; ".join(_errors(done.stderr)) or done.stderr.strip()
        is_raised = done.returncode == exit_code(UserCodeError())
        if is_raised:  # the traceback shows where
            sys.stderr.write(done.stderr.partition("\nerror: ")[0] + "\n")
        kind = UserCodeError if is_raised else WorkloadError
        raise kind(f"app {config.app!r} made no model: {reason}")


@contextmanager
def fit_model(config: FederationConfig, folder: Path) -> Iterator[Path]:
    """Yields the file with which a new run begins; it exists while the block runs.

    It is the config's ``model``, which is made if it is missing. An existing file is
    compared with the app, if the app is on this machine. If its tensors need another
    order or float32, a converted copy is yielded instead.

    Raises:
        ConfigError: there is no model and no app that could make it.
        WorkloadError: the app could not make it, or the file is of another model.
    """
    if exists(config.server.journal) or not config.model.is_file():
        make_model(config, folder)
        yield config.model
        return
    place = config.server.journal.absolute().parent
    make_folder(place)
    with tempfile.TemporaryDirectory(prefix=".model-", dir=place) as beside:
        fitted = Path(beside) / config.model.name
        compare_model(config, folder, fitted)
        yield fitted if fitted.is_file() else config.model


def check_model(config: FederationConfig, folder: Path) -> None:
    """Compares a model file, if there is one, with the run, or else with the app.

    Raises:
        SpecMismatchError: the run exists, and began with another model.
        WorkloadError: the file is of another model than the app.
    """
    if exists(config.server.journal):
        told = Results(config.server.journal).of(Configured)[-1]
        require_first_model(config, ParamSpec.from_json(told.spec), told)
    elif config.model.is_file():
        with tempfile.TemporaryDirectory() as beside:
            compare_model(config, folder, Path(beside) / config.model.name)


def compare_model(config: FederationConfig, folder: Path, out: Path) -> None:
    """Compares the config's ``model`` with its app, if the app is on this machine.

    Logs the conversions that the file needs before a run can begin with it, and the
    parts that could not be compared.

    Args:
        config: names both.
        folder: the config's folder, in which the app is looked for.
        out: the converted file, written if the run cannot begin with the original.

    Raises:
        WorkloadError: the file is of another model; the message lists the differences.
    """
    said = _compare(config, folder, out)
    if isinstance(said, str):
        if said:
            _log.warning("%s is not compared with the app: %s", config.model, said)
        if is_of_another_program(config.model):
            _log.warning(
                "%s is of another program, so its tensors are taken in the order of "
                "the file, and clients whose app has another order are refused; "
                "fedclient model --app APP --from %s -o OUT writes them in the app's",
                config.model,
                config.model.name,
            )
        return
    if said["misfit"]:
        raise WorkloadError(said["misfit"])
    if said["changes"]:
        _log.warning("%s: %s", config.model, "; ".join(said["changes"]))


def _compare(config: FederationConfig, folder: Path, out: Path) -> JSON | str:
    """Returns the report of a child process that has the app, or why there is none."""
    if config.app is None:
        return ""
    try:
        command = [*_fedclient(), "model", "--app", config.app]
    except ConfigError as error:
        return str(error)
    source = ["--from", str(config.model), "-o", str(out), "--if-needed"]
    done = _run([*command, *source], folder)
    if done.returncode:
        return "; ".join(_errors(done.stderr)) or done.stderr.strip()
    found: JSON = json.loads(done.stdout.splitlines()[-1])
    return found


def evaluate_models(app: str, paths: Sequence[Path]) -> list[Evaluation]:
    """Returns the metrics of model files on an app's test data.

    Raises:
        WorkloadError: the app could not evaluate them.
    """
    words = ["evaluate-file", "--json", "--app", app, *map(str, paths)]
    done = _run([*_fedclient(), *words])
    if done.returncode:
        said = _errors(done.stderr)
        raise WorkloadError(
            "\n".join(said) or f"app {app!r} could not evaluate the models"
        )
    lines = map(json.loads, done.stdout.splitlines())
    return list(map(Evaluation.from_json, lines))


async def keep_evaluating(
    config: FederationConfig,
    folder: Path,
    host: str,
    over: asyncio.Event | None = None,
    starts: Callable[[], None] = lambda: None,
) -> None:
    """Runs the evaluator until the run has ended, and restarts it if it dies.

    The evaluator ends when its standard input closes, so at the latest with this
    process.

    Args:
        config: the federation.
        folder: the folder in which the app is looked for.
        host: the server's address.
        over: is set once the run has ended; after that, it starts once at most.
        starts: is called before each start.
    """
    assert config.app is not None
    over = over or asyncio.Event()
    state = config.server.journal / "evaluator"
    command = [*_fedclient(), "evaluate", host, "--app", config.app]
    command += [
        "--state",
        str(state),
        "--name",
        EVALUATOR,
        "--quiet",
        "--until-stdin-closes",
    ]
    for methods in config.methods:
        command += ["--methods", str(methods.file)]
    if config.evaluate.device is not None:
        command += ["--device", config.evaluate.device]
    while True:
        is_last = over.is_set()
        starts()
        status, said = await _run_to_end(command, folder)
        if status == 0:
            return
        why = "; ".join(_errors(said)) or said.strip() or f"its status is {status}"
        if status in _HOPELESS or is_last:
            _log.warning("the evaluator ended, and does not start again: %s", why)
            return
        _log.warning("the evaluator ended, and starts again: %s", why)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(over.wait(), _RESTART_SECONDS)


async def _run_to_end(command: Sequence[str], folder: Path) -> tuple[int, str]:
    """Runs a command to its end; returns its exit code and its last error output.

    If this is cancelled, the process gets SIGTERM and later SIGKILL; if it is cancelled
    a second time, SIGKILL at once.
    """
    stdin, held = os.pipe()  # stays open as long as this process lives
    words = _LastWords()
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=folder,
            stdin=stdin,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=words.into,
        )
        try:
            status = await process.wait()
        finally:
            await _end(process)
    finally:
        for descriptor in (stdin, held, words.into):
            os.close(descriptor)
    return status, words.text()


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ends a process if it runs, by SIGKILL if necessary."""
    if process.returncode is not None:
        return
    try:
        process.terminate()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(process.wait(), _ENDS)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


class _LastWords:
    """Reads a pipe on a thread, and keeps the last part of its content.

    Nothing waits for the pipe to close, because a process that the dead one had started
    may hold it open.
    """

    def __init__(self) -> None:
        """Opens the pipe; the caller closes ``into`` after handing it to a process."""
        self._said = b""
        self._source, self.into = os.pipe()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while more := os.read(self._source, LAST_WORDS):
            self._said = (self._said + more)[-LAST_WORDS:]
        os.close(self._source)

    def text(self) -> str:
        """Returns the last output."""
        self._thread.join(_LAST_WORDS_COME)
        return self._said.decode(errors="replace")


def _errors(said: str) -> list[str]:
    """Returns the errors in the output of a process, one line each."""
    start = "error: "
    return [
        line.removeprefix(start) for line in said.splitlines() if line.startswith(start)
    ]


def _run(
    command: Sequence[str], folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end, in this folder or in the current one."""
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False
    )


def _fedclient() -> list[str]:
    if find_spec("fedclient") is None:
        raise ConfigError(
            "app: this server has no fedclient beside it; leave app out, and run "
            "fedclient model and fedclient evaluate where the app lives"
        )
    return [sys.executable, "-m", "fedclient"]
