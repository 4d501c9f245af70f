"""Processes beside the server that run the user's code: they make and evaluate models.

The server itself never imports that code. Where the config names an app, the server
starts these processes; in a container, another container takes their place.
"""

import asyncio
import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from fedcore.errors import ConfigError, WorkloadError
from fedcore.typing import JSON
from fedrun.config import FederationConfig
from fedrun.durable import make_folder
from fedrun.evaluation import Evaluation
from fedrun.files import is_of_another_program
from fedrun.journal import exists

_log = logging.getLogger(__name__)
EVALUATOR = "evaluator (server)"  # another name than that of a user's own
LAST_WORDS = 4096  # bytes
_RESTART_SECONDS = 5.0
# The app cannot evaluate, its device is not here, it raised again and again, or the
# operator has evicted it: another start would not help.
_HOPELESS = (os.EX_DATAERR, os.EX_SOFTWARE, os.EX_CONFIG, os.EX_NOPERM)


def make_model(config: FederationConfig, folder: Path) -> None:
    """Writes version 0 to the config's ``model``, if there is no such file yet.

    Raises:
        ConfigError: there is no model, and no app to make it from.
        WorkloadError: the app could not make it.
    """
    if config.model.is_file():
        return
    if config.app is None:
        raise ConfigError(
            f"{config.model}: no such file, and no app to make it from; run: fedclient "
            f"model APP -o {config.model}"
        )
    command = [*_fedclient(), "model", config.app, "-o", str(config.model)]
    done = subprocess.run(
        [*command, "--seed", str(config.seed)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        reason = done.stderr.strip().removeprefix("error: ")
        raise WorkloadError(f"app {config.app!r} made no model: {reason}")


@contextmanager
def fitted_model(config: FederationConfig, folder: Path) -> Iterator[Path]:
    """Yields the file that a new run begins with, which is there in the block.

    That is the config's ``model``, which is made if it is missing. If it is there, it
    is compared with the app, where that is here as well. Where its tensors must be put
    in the app's order, or made float32, it is another file.

    Raises:
        ConfigError: there is no model, and no app to make it from.
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
    """Compares a model file that a new run would begin with, if there is one.

    Raises:
        WorkloadError: it is of another model.
    """
    if config.model.is_file() and not exists(config.server.journal):
        with tempfile.TemporaryDirectory() as beside:
            compare_model(config, folder, Path(beside) / config.model.name)


def compare_model(config: FederationConfig, folder: Path, out: Path) -> None:
    """Compares the config's ``model`` with its app, where that is here.

    Says in the log what the file needs before a run can begin with it, and what could
    not be compared.

    Args:
        config: names both.
        folder: of the config, where the app is looked for.
        out: is written, if the run cannot begin with the file as it is.

    Raises:
        WorkloadError: the file is of another model; the message says how it differs.
    """
    said = _compared(config, folder, out)
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


def _compared(config: FederationConfig, folder: Path, out: Path) -> JSON | str:
    """What a child process that has the app says; or why it says nothing."""
    if config.app is None:
        return ""
    try:
        command = [*_fedclient(), "model", config.app, "--from", str(config.model)]
    except ConfigError as error:
        return str(error)
    done = subprocess.run(
        [*command, "-o", str(out), "--if-needed"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
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
    done = subprocess.run(
        [*_fedclient(), *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = _errors(done.stderr)
        raise WorkloadError(
            "\n".join(said) or f"app {app!r} could not evaluate the models"
        )
    lines = map(json.loads, done.stdout.splitlines())
    return list(map(Evaluation.from_json, lines))


async def keep_evaluating(config: FederationConfig, folder: Path, host: str) -> None:
    """Runs the evaluator until the run has ended, and starts it again if it dies.

    The evaluator ends when its standard input closes: with this process at the latest.
    """
    assert config.app is not None
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
    process: asyncio.subprocess.Process | None = None
    try:
        while True:
            process = await asyncio.create_subprocess_exec(
                *command,
                cwd=folder,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
            errors = await _last_words(process)
            if process.returncode == 0:
                return
            said = errors.decode(errors="replace").strip()
            said = "; ".join(_errors(said)) or said
            if process.returncode in _HOPELESS:
                _log.warning("the evaluator ended, and does not start again: %s", said)
                return
            _log.warning("the evaluator ended, and starts again: %s", said)
            await asyncio.sleep(_RESTART_SECONDS)
    finally:
        if process is not None and process.returncode is None:
            process.terminate()
            await process.wait()


async def _last_words(process: asyncio.subprocess.Process) -> bytes:
    """Waits for a process to end; returns the end of its standard error."""
    assert process.stderr is not None
    said = b""
    while more := await process.stderr.read(LAST_WORDS):
        said = (said + more)[-LAST_WORDS:]
    await process.wait()
    return said


def _errors(said: str) -> list[str]:
    """Returns the errors in what a process has said, each a line."""
    start = "error: "
    return [
        line.removeprefix(start) for line in said.splitlines() if line.startswith(start)
    ]


def _fedclient() -> list[str]:
    if find_spec("fedclient") is None:
        raise ConfigError(
            "app: this server has no fedclient beside it; leave app out, and run "
            "fedclient model and fedclient evaluate where the app lives"
        )
    return [sys.executable, "-m", "fedclient"]
