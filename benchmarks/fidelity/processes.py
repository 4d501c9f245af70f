"""Processes of the other commands, with a log each; none outlives its starter."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedcore.errors import UnavailableError
from fedcore.typing import Seconds

# Clients share this machine: a thread each is enough.
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
_LAST_LINES = 5
_POLITE: Seconds = 10.0


@dataclass
class Process:
    """A command of latecomer, which can be killed and started again."""

    words: list[str]
    """As they are typed: ``fedclient``, ``join``, and so on."""
    place: Path
    """Where it runs."""
    log: Path
    _process: subprocess.Popen[bytes] | None = None
    _read: int = 0  # bytes of the log that were looked at
    _lines: list[dict[str, Any]] = field(default_factory=list)

    def start(self) -> None:
        """Starts it, for the first time or again."""
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *self.words],
                cwd=self.place,
                env={**os.environ, **_ENVIRONMENT, **self._found(self.place)},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @staticmethod
    def _found(place: Path) -> dict[str, str]:
        """The app is found from where it lies, by whatever this process starts too."""
        paths = [str(place.resolve()), os.environ.get("PYTHONPATH", "")]
        return {"PYTHONPATH": os.pathsep.join(filter(None, paths))}

    @property
    def status(self) -> int | None:
        """Its exit status; None while it runs."""
        return None if self._process is None else self._process.poll()

    @property
    def is_running(self) -> bool:
        """Whether it lives."""
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL: it has no chance to do anything."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM, and a while later SIGKILL."""
        self._end(signal.SIGTERM)

    def _end(self, which: signal.Signals) -> None:
        if self._process is None:
            return
        if self.is_running:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, which)
        try:
            self._process.wait(_POLITE)
        except subprocess.TimeoutExpired:
            self.kill()

    def lines(self) -> list[dict[str, Any]]:
        """The JSON lines that it wrote."""
        with self.log.open("rb") as file:
            file.seek(self._read)
            whole, _, _ = file.read().rpartition(b"\n")
        self._read += len(whole) + bool(whole)
        self._lines += [
            json.loads(line) for line in whole.splitlines() if line.startswith(b"{")
        ]
        return self._lines

    def check(self) -> None:
        """Does nothing unless it has failed.

        Raises:
            UnavailableError: with the end of its log.
        """
        if self.status:
            text = self.log.read_text(errors="replace").splitlines()
            raise UnavailableError(
                f"{' '.join(self.words[:2])} ended with status {self.status}; the end "
                f"of {self.log}:\n" + "\n".join(text[-_LAST_LINES:])
            )
