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
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from fedcore.errors import ConfigError, WorkloadError
from fedrun.config import FederationConfig
from fedrun.evaluation import Evaluation

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
