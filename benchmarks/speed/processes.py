"""Child processes, and the kernel's figures about them."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fedcore.typing import JSON, Seconds

ROOT = Path(__file__).parents[2]
PATIENCE: Seconds = 20.0  # with a process that is to end by itself
_TICKS = os.sysconf("SC_CLK_TCK")


class Helper(AbstractContextManager["Helper"]):
    """A Python process that answers each line with one line of JSON."""

    def __init__(
        self,
        *words: str,
        folder: Path = ROOT,
        environment: Mapping[str, str] | None = None,
        log: Path | None = None,
    ) -> None:
        """Starts it in a folder; ``log`` takes what it says of errors."""
        self._log = log
        with open(log or os.devnull, "ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, *words],
                cwd=folder,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors if log else None,
                text=True,
            )
        self.greeting = self._hear()

    def ask(self, question: object) -> JSON:
        """Says something, and waits for the answer."""
        assert self.process.stdin is not None
        print(question, file=self.process.stdin, flush=True)
        return self._hear()

    def _hear(self) -> JSON:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.process.communicate()
            tail = self._log.read_text(errors="replace")[-2000:] if self._log else ""
            status = self.process.wait()
            raise RuntimeError(f"{self.process.args!r} ended: {status}\n{tail}")
        return json.loads(line)

    def __enter__(self) -> Self:
        """It runs already."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends its input, so that it ends what it has started, or else kills it."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(OSError, subprocess.TimeoutExpired):
            self.process.stdin.close()
            self.process.wait(PATIENCE)
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Started(AbstractContextManager["Started"]):
    """A Python process that was waited for until it said a word."""

    def __init__(self, words: Sequence[str], ready: str, folder: Path) -> None:
        """Raises RuntimeError if it ends without saying so."""
        began = time.perf_counter()
        self.process = subprocess.Popen(
            [sys.executable, *words],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self.process.stdout is not None
        said = []
        for line in self.process.stdout:
            said.append(line)
            if ready in line:
                break
        else:
            self.process.communicate()
            raise RuntimeError(f"{self.process.args!r} ended:\n{''.join(said)}")
        self.seconds: Seconds = time.perf_counter() - began

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.communicate()


def answer(told: Any) -> None:
    """What a helper says to whoever started it."""
    print(json.dumps(told), flush=True)


def cpu_seconds(pid: int) -> Seconds:
    """What all threads of a process have used so far, of user and system time."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def wait_until_idle(pid: int, patience: Seconds = 10.0) -> None:
    """Returns once a process has used no CPU time for a fifth of a second."""
    deadline, before = time.monotonic() + patience, -1.0
    while (now := cpu_seconds(pid)) > before and time.monotonic() < deadline:
        before = now
        time.sleep(0.2)


def resident_megabytes(pid: int) -> float:
    """The memory that a process holds now."""
    return _memory(pid, "VmRSS")


def peak_resident_megabytes(pid: int) -> float:
    """The most memory that it ever held."""
    return _memory(pid, "VmHWM")


def _memory(pid: int, field: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise AssertionError(f"the kernel does not tell {field}")
