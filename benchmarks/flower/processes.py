"""Flower's and our commands as processes, with nothing written to the user's home."""

import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from benchmarks.flower.watched import descendants
from tools.local import free_port

APPS = Path(__file__).parents[2] / "examples" / "flower"
BIN = Path(sys.executable).parent
STARTED = 90.0  # seconds that a SuperLink may take


def copied(app: str, folder: Path) -> Path:
    """Copies an example app, since ``flwr run`` rewrites its pyproject.toml."""
    target = folder / app
    shutil.copytree(APPS / app, target, dirs_exist_ok=True)
    return target


class Commands:
    """Starts commands in one folder, and ends those that are left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {
            **os.environ,
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "FLWR_HOME": str(folder / "flwr"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_raylet_start_wait_time_s": "300",  # on a busy machine 30 are too few
            "OMP_NUM_THREADS": "1",
        }
        self._closing = ExitStack()

    def __enter__(self) -> Self:
        """Returns itself; what is started in the block is killed at its end."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        """Kills what is left."""
        self._closing.close()

    def run(self, words: Sequence[str], limit: float = 900.0) -> tuple[str, float]:
        """Runs a command to its end; returns its output and how many seconds it took.

        Raises:
            RuntimeError: it failed.
        """
        began = time.monotonic()
        done = subprocess.run(
            [str(BIN / words[0]), *words[1:]],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )
        took = time.monotonic() - began
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)}: {done.stdout}\n{done.stderr}")
        return done.stdout + done.stderr, took

    def start(self, words: Sequence[str], log: str) -> subprocess.Popen[bytes]:
        """Starts a command in a group of its own, which is killed at the end.

        Args:
            words: the command.
            log: the file in the folder that takes its output; it is continued.
        """
        file: IO[bytes] = self._closing.enter_context((self.folder / log).open("ab"))
        process = subprocess.Popen(
            [str(BIN / words[0]), *words[1:]],
            cwd=self.folder,
            env=self.env,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._closing.callback(end, process)
        return process

    @contextmanager
    def super_link(self, *options: str) -> Iterator[int]:
        """A SuperLink, which ``flwr run APP link`` finds; yields its port."""
        port = free_port()
        process = self.start_super_link(port, *options)
        try:
            yield port
        finally:
            end(process)

    def start_super_link(self, port: int, *options: str) -> subprocess.Popen[bytes]:
        """Starts a SuperLink, for the first time or again, and waits for it."""
        words = ["flower-superlink", "--insecure", "--host", "127.0.0.1", *options]
        words += ["--port", str(port), "--disable-runtime-dependency-installation"]
        home = self.folder / "flwr"
        home.mkdir(exist_ok=True)
        (home / "config.toml").write_text(
            '[superlink]\ndefault = "link"\n\n[superlink.link]\n'
            f'address = "127.0.0.1:{port}"\ninsecure = true\n'
        )
        process = self.start(words, "superlink.log")
        wait_for_health(port, process)
        return process


def wait_for_health(port: int, process: subprocess.Popen[bytes]) -> None:
    """Waits until a SuperLink answers.

    Raises:
        RuntimeError: it has ended, or does not answer in time.
    """
    limit = time.monotonic() + STARTED
    while process.poll() is None and time.monotonic() < limit:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise RuntimeError("the SuperLink has not started; see superlink.log")


def end(process: subprocess.Popen[bytes]) -> None:
    """Kills a process and all that it started, in whichever session."""
    if process.poll() is None:
        for pid in [*descendants(process.pid)]:
            with suppress(ProcessLookupError):
                os.kill(pid, 9)
        process.wait()
