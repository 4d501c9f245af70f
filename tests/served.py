"""A server on a thread of this process: as real as the command, and quicker there."""

import asyncio
import io
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

from fedcore.params import ParamSpec
from fedcore.typing import Vector
from fedrun import json_lines
from fedrun.config import FederationConfig, parse_config
from fedrun.files import save_model
from fedrun.run import Run, open_run
from fedrun.tracing import OFF
from fedserver import core
from fedserver.server import Server
from fedserver.view.json_log import JsonLog
from fedserver.view.progress import Progress
from tests.patience import PATIENCE
from tests.patience import until as until

DIM = 100


@pytest.fixture(autouse=True)
def alone_and_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Does at once what a server may leave for a second, in a process without ids.

    A client that ran in this process before has left the ids of its lines there.
    """
    monkeypatch.setattr(core, "IDLE_SECONDS", 0.02)
    monkeypatch.setattr(core, "AGAIN_SECONDS", 0.02)
    monkeypatch.setattr(json_lines, "_process", {})


class Served:
    """One run, served while the block is entered, as often as it is entered."""

    def __init__(
        self, folder: Path, config: FederationConfig, *, amend: bool = False
    ) -> None:
        self.folder, self.config = folder, config
        self.amend = amend
        self.error: BaseException | None = None
        self.out = io.StringIO()
        self.tracer = OFF

    def __enter__(self) -> Self:
        """Starts it; whatever stops the server before it listens is raised here."""
        self.error = None
        self.progress = Progress()
        self.said = JsonLog(self.progress, self.out)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._work, name="server")
        self.run: Run = open_run(self.config, time.time(), amend=self.amend)
        self._thread.start()
        self._ready.wait(PATIENCE)
        if self.error is not None:
            self._thread.join()
            raise self.error
        return self

    def __exit__(self, *_: object) -> None:
        """Stops it politely, if it runs."""
        self.stop()

    def stop(self) -> None:
        """What SIGTERM does."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self.server.stop)
        self.wait()

    def wait(self) -> None:
        """Waits for the end."""
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the server did not end"

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return self.progress.address

    @property
    def operator_socket(self) -> str:
        """Where the operator comes in."""
        assert self.server.operator_socket is not None
        return self.server.operator_socket

    @property
    def state(self) -> Any:
        """The coordinator's state; to be looked at while nothing happens."""
        return self.run.coordinator.state

    @property
    def ended(self) -> bool:
        """Whether the server is through."""
        return not self._thread.is_alive()

    def lines(self, event: str = "") -> list[dict[str, Any]]:
        """The JSON lines so far, or those of one kind."""
        self.said.flush()
        said = [json.loads(line) for line in self.out.getvalue().splitlines()]
        return [line for line in said if event in ("", line["event"])]

    def _work(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001  raised in the caller's thread
            self.error = error
        finally:
            self.run.journal.close()
            self.said.close()
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.server = Server(self.run, self.progress, tracer=self.tracer)
        serving = asyncio.create_task(self.server.serve())
        ready = asyncio.create_task(self.server.ready.wait())
        await asyncio.wait([serving, ready], return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if self.server.ready.is_set():
            self._ready.set()
        await serving


def settings(folder: Path, dim: int = DIM, **changes: Any) -> FederationConfig:
    """A federation of ``dim`` values whose model file lies in the folder."""
    model = folder / "model.safetensors"
    if not model.is_file():
        save_model(model, spec_of(dim), np.zeros(dim, np.float32))
    given: dict[str, Any] = {
        "model": str(model),
        "server": {"listen": "127.0.0.1:0", "journal": str(folder / "run")},
        "algorithm": {
            "kind": "fed_buff",
            "buffer": 1,
            "uplink": {"kind": "identity"},
            "downlink": {"kind": "identity"},
        },
        "timeouts": {"drain": 1.0, "linger": 0.0},
    }
    for section, fields in changes.items():
        known = given.get(section)
        given[section] = {**known, **fields} if isinstance(known, dict) else fields
    return parse_config(given)


def spec_of(dim: int) -> ParamSpec:
    """One tensor of so many values."""
    return ParamSpec.of({"w": np.zeros(dim, np.float32)})


@contextmanager
def served(folder: Path, dim: int = DIM, **changes: Any) -> Iterator[Served]:
    """A federation of ``dim`` values, served."""
    with Served(folder, settings(folder, dim, **changes)) as server:
        yield server


def ones(dim: int = DIM) -> Vector:
    """An update that moves every value by one."""
    return np.ones(dim, np.float32)
