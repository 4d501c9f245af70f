"""A federation of real processes on this machine, which can be killed at any time.

For the demo, the benchmarks and the tests: a server and clients as a user starts them,
each with a log file, and a proxy that counts the bytes on the sockets.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

PATIENCE = 60.0


@dataclass
class Child:
    """A process with its log, which can be started again with the same command."""

    name: str
    command: list[str]
    folder: Path
    environment: Mapping[str, str]
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0
    kills: int = 0
    _lines: list[dict[str, Any]] = field(default_factory=list)
    _read: int = 0  # bytes of the log that are in _lines

    @property
    def log(self) -> Path:
        """The log of the process, over all its starts."""
        return self.folder / f"{self.name}.log"

    def lines(self) -> list[dict[str, Any]]:
        """Returns the JSON lines in the log, over all its starts."""
        if self.log.is_file():
            with self.log.open("rb") as file:
                file.seek(self._read)
                whole, _, _ = file.read().rpartition(b"\n")
            self._read += len(whole) + bool(whole)
            for line in whole.splitlines():
                if line.startswith(b"{"):
                    with contextlib.suppress(json.JSONDecodeError):
                        self._lines.append(json.loads(line))
        return self._lines

    def start(self) -> None:
        """Starts the process, for the first time or again."""
        self.starts += 1
        with self.log.open("ab") as out:
            if out.tell() and self.log.read_bytes()[-1:] != b"\n":
                out.write(b"\n")  # the process was killed while it wrote a line
            self.process = subprocess.Popen(
                self.command,
                cwd=self.folder,
                env={**os.environ, **self.environment},
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self) -> None:
        """Sends SIGKILL: the process cannot react."""
        self.kills += 1
        self._signal(signal.SIGKILL)
        self._wait()

    def pause(self, seconds: float) -> None:
        """Stops the process by SIGSTOP for a while: it lives but does nothing."""
        self._signal(signal.SIGSTOP)
        time.sleep(seconds)
        self._signal(signal.SIGCONT)

    def stop(self, timeout: float = PATIENCE) -> int:
        """Sends SIGTERM; returns the exit code."""
        self._signal(signal.SIGTERM)
        return self.wait(timeout)

    def wait(self, timeout: float = PATIENCE) -> int:
        """Waits for the end of the process; returns the exit code."""
        assert self.process is not None
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"{self.name} did not end in {timeout:g} s:\n{self.tail()}"
            ) from None

    @property
    def is_running(self) -> bool:
        """Whether the process is running."""
        return self.process is not None and self.process.poll() is None

    def tail(self, lines: int = 20) -> str:
        """Returns the end of the log."""
        if not self.log.is_file():
            return ""
        text = self.log.read_text(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def _signal(self, which: signal.Signals) -> None:
        if self.process is not None and self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, which)

    def _wait(self) -> None:
        if self.process is not None:
            self.process.wait()


@dataclass
class LocalFederation:
    """A server and its clients; all of them are killed when the block is left."""

    folder: Path
    config: dict[str, Any]
    app: str
    children: dict[str, Child] = field(default_factory=dict)
    environment: dict[str, str] = field(
        default_factory=lambda: {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    )
    within: Callable[[str], Sequence[str]] = lambda name: ()
    """The words before the command of a process of this name, such as a namespace's."""

    def __enter__(self) -> "LocalFederation":
        """Writes the config."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.rewrite(self.config)
        return self

    def __exit__(self, *_: object) -> None:
        """Kills the remaining processes."""
        for child in self.children.values():
            child.kill()

    def rewrite(self, config: dict[str, Any]) -> None:
        """Writes another config, which a server reads when it starts again."""
        self.config = config
        self.path.write_text(yaml.safe_dump(config))

    @property
    def path(self) -> Path:
        """The config file."""
        return self.folder / "federation.yaml"

    @property
    def run(self) -> Path:
        """The folder of the run."""
        return self.folder / str(self.config["server"]["journal"])

    def server(self, *options: str, wait: bool = True) -> Child:
        """Starts the server, the first time or again; waits until it listens."""
        child = self._child(
            "server",
            ["-m", "fedserver", "run", str(self.path), "--log", "json", *options],
        )
        said = len(child.lines())
        child.start()
        if wait:
            self.wait_until(
                lambda: (
                    any(
                        line.get("event") == "listening"
                        for line in child.lines()[said:]
                    )
                    or not child.is_running
                ),
                "the server listens",
            )
            assert child.is_running, child.tail()
        return child

    @property
    def address(self) -> str:
        """The address on which the server listens, by its own log."""
        said = [
            line["address"]
            for line in self.children["server"].lines()
            if line.get("event") == "listening"
        ]
        return str(said[-1])

    def client(
        self, index: int, count: int, *options: str, name: str = "", host: str = ""
    ) -> Child:
        """Starts a client, the first time or again."""
        name = name or f"client-{index}"
        command = ["-m", "fedclient", "join", host or self.address, "--app", self.app]
        command += ["--state", str(self.folder / f"state-{name}"), "--name", name]
        command += ["--index", str(index), "--count", str(count), *options]
        child = self._child(name, command)
        child.start()
        return child

    def check(self) -> None:
        """Raises RuntimeError if a process ended with an error; a kill is no error."""
        for child in self.children.values():
            if child.process is not None and (child.process.poll() or 0) > 0:
                raise RuntimeError(f"{child.name} failed:\n{child.tail()}")

    def command(
        self, *words: str, timeout: float = PATIENCE
    ) -> subprocess.CompletedProcess[str]:
        """Runs one of the commands to its end."""
        return subprocess.run(
            [sys.executable, "-m", *words],
            cwd=self.folder,
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )

    def events(self) -> list[dict[str, Any]]:
        """Returns the server's JSON lines, over all its starts."""
        return self.children["server"].lines()

    def status(self) -> Any:
        """Returns the server's status; None while it does not answer."""
        done = self.command("fedserver", "status", self.address, "--json")
        return json.loads(done.stdout) if done.returncode == 0 else None

    def wait_until(
        self, condition: Callable[[], bool], what: str, timeout: float = PATIENCE
    ) -> None:
        """Checks a condition repeatedly until it holds."""
        wait_until(condition, what, timeout, self._tails)

    def _tails(self) -> str:
        return "\n".join(f"--- {c.name}\n{c.tail(8)}" for c in self.children.values())

    def _child(self, name: str, words: Sequence[str]) -> Child:
        command = [*self.within(name), sys.executable, *words]
        if name not in self.children:
            self.children[name] = Child(name, command, self.folder, self.environment)
        self.children[name].command = command
        return self.children[name]


def wait_until(
    condition: Callable[[], bool],
    what: str,
    timeout: float = PATIENCE,
    told: Callable[[], str] = lambda: "",
) -> float:
    """Checks a condition repeatedly until it holds; returns the monotonic time then.

    Raises:
        AssertionError: it does not hold after ``timeout`` seconds; the message ends
            with
            the result of ``told``.
    """
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout:g} s: {what}\n{told()}")
        time.sleep(0.02)
    return time.monotonic()


def free_port() -> int:
    """Returns a free port, to which a killed server can return."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
