"""Records the phases of a client's tasks, for ``fedclient join --phases``.

The file has a line of JSON for each phase, written when the phase has ended, so that a
killed process leaves only whole lines. A line before them names the client; a restarted
client appends. :mod:`fedrun.phase_file` reads the file.
"""

import contextlib
import fcntl
import json
import logging
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType

from fedclient.wire.transfer_counter import TransferCounter
from fedcore.errors import ConfigError
from fedcore.typing import JSON, Seconds
from fedrun.phase_file import FORMAT, first_client
from fedrun.plain_files import open_to_write
from fedrun.tracing import Headers
from fedrun.traffic import Way

_log = logging.getLogger("fedclient")
_NOTHING = contextlib.nullcontext()


class Phases:
    """The recorder that records nothing, at no cost."""

    def begin(self, client: str, run_id: str) -> None:
        """Sets the client and the run of the phases that follow."""

    def one(self, phase: str) -> AbstractContextManager[None]:
        """Records the block as a phase."""
        return _NOTHING

    def call(self, first: str, second: str, way: Way) -> AbstractContextManager[None]:
        """Records the block, which is a call, as two phases that :meth:`turn` divides.

        Args:
            first: the phase until then.
            second: the phase from then on; it is not recorded if the call fails.
            way: the direction whose bytes are counted.
        """
        return _NOTHING

    def turn(self) -> None:
        """Ends the first phase of a call; any thread may call this."""

    def note_version(self, version: int) -> None:
        """Notes the version that the call has brought."""

    def headers(self) -> Headers:
        """Returns the metadata of a call in the current phase."""
        return ()

    def close(self) -> None:
        """Ends the recording; closes the file if there is one."""


OFF = Phases()


class Both(Phases):
    """Records the same phases with two recorders."""

    def __init__(self, first: Phases, second: Phases) -> None:
        """Uses the second recorder for the metadata of calls."""
        self._both, self._second = (first, second), second

    def begin(self, client: str, run_id: str) -> None:
        """Sets the client and the run of the phases that follow."""
        for each in self._both:
            each.begin(client, run_id)

    @contextlib.contextmanager
    def one(self, phase: str) -> Iterator[None]:
        """Records the block as a phase."""
        first, second = self._both
        with first.one(phase), second.one(phase):
            yield

    @contextlib.contextmanager
    def call(self, first: str, second: str, way: Way) -> Iterator[None]:
        """Records the block, which is a call, as two phases."""
        one, other = self._both
        with one.call(first, second, way), other.call(first, second, way):
            yield

    def turn(self) -> None:
        """Ends the first phase of a call."""
        for each in self._both:
            each.turn()

    def note_version(self, version: int) -> None:
        """Notes the version that the call has brought."""
        for each in self._both:
            each.note_version(version)

    def headers(self) -> Headers:
        """Returns the metadata of a call in the current phase."""
        return self._second.headers()

    def close(self) -> None:
        """Ends both recordings."""
        for each in self._both:
            each.close()


class PhaseLog(Phases):
    """Records phases in a file; an error of the disk only ends the recording."""

    def __init__(self, path: Path, transferred: TransferCounter) -> None:
        """Opens the file, and appends if the same client has written it before.

        Raises:
            ConfigError: the file exists and has another format, or belongs to another
                client.
            OSError: it cannot be written.
        """
        self._path, self._transferred = path, transferred
        self._before = first_client(path)
        self._file: int | None = open_to_write(path, os.O_APPEND)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise ConfigError(
                f"--phases {path}: another client is writing it; name another file"
            ) from None
        except OSError:
            _log.debug("%s: this file system has no locks", path)
        self._began = False
        self._origin = time.monotonic()
        self._task, self._last = -1, ""
        self._turned: Seconds | None = None
        self._version: int | None = None

    def begin(self, client: str, run_id: str) -> None:
        """Writes the client and the run of the phases that follow.

        Raises:
            ConfigError: the file is of another client.
        """
        if self._before not in (None, client):
            raise ConfigError(
                f"--phases {self._path}: holds the phases of {self._before!r}, and "
                f"this client is {client!r}; name another file"
            )
        if not self._began:
            head = {"format": FORMAT, "client": client, "run": run_id}
            self._write(head, newline=self._before is not None)
        self._began = True

    def one(self, phase: str) -> AbstractContextManager[None]:
        """Records the block as a phase."""
        return _Recorded(self, phase, "", None)

    def call(self, first: str, second: str, way: Way) -> AbstractContextManager[None]:
        """Records the block as two phases; a request begins a task.

        An upload before any request begins one too: a client that was killed sends the
        update that it had on its disk.
        """
        if first == "request" or self._task < 0:
            self._task, self._last = self._task + 1, ""
        self._turned = self._version = None
        return _Recorded(self, first, second, way)

    def turn(self) -> None:
        """Ends the first phase of a call."""
        self._turned = time.monotonic()

    def note_version(self, version: int) -> None:
        """Notes the version that the call has brought."""
        self._version = version

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def framed(self, way: Way | None) -> int:
        """Returns the bytes of all messages in a direction so far."""
        return 0 if way is None else self._transferred.load(way).framed

    def record(
        self, first: str, second: str, start: Seconds, nbytes: int, *, failed: bool
    ) -> None:
        """Writes the phases of a block that has ended.

        Args:
            first: its phase, or the first one of a call.
            second: the second phase of a call; empty if there is none.
            start: the beginning of the block, by the monotonic clock.
            nbytes: the bytes that crossed the network.
            failed: whether it raised.
        """
        end = time.monotonic()
        if not second or failed:
            self._row(first, start, end, nbytes)
            return
        middle = end if self._turned is None else min(max(start, self._turned), end)
        is_upload = first == "upload"
        self._row(first, start, middle, nbytes if is_upload else 0)
        self._row(second, middle, end, 0 if is_upload else nbytes, self._version)

    def _row(
        self,
        phase: str,
        start: Seconds,
        end: Seconds,
        nbytes: int,
        version: int | None = None,
    ) -> None:
        row: dict[str, JSON] = {
            "task": self._task,
            "phase": phase,
            "start": round(start - self._origin, 6),
            "duration": round(end - start, 6),
            "bytes": nbytes,
            "depends_on": self._last or None,
        }
        self._last = phase
        self._write(row if version is None else {**row, "version": version})

    def _write(self, line: dict[str, JSON], *, newline: bool = False) -> None:
        if self._file is None:
            return
        # The last line of a killed process may be incomplete.
        text = "\n" * newline + json.dumps(line) + "\n"
        try:
            os.write(self._file, text.encode())
        except OSError as error:
            _log.warning("%s: %s; phases are no longer recorded", self._path, error)
            self.close()


class _Recorded(AbstractContextManager[None]):
    """A block of which :class:`PhaseLog` records start, end and bytes."""

    def __init__(self, log: PhaseLog, first: str, second: str, way: Way | None) -> None:
        self._log, self._first, self._second, self._way = log, first, second, way

    def __enter__(self) -> None:
        self._before = self._log.framed(self._way)
        self._start = time.monotonic()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        nbytes = self._log.framed(self._way) - self._before
        self._log.record(
            self._first, self._second, self._start, nbytes, failed=error is not None
        )
