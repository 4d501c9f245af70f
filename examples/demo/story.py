"""What happens to the demo's federation, and when."""

import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.agenda import Agenda
from tools.counting_proxy import CountingProxy
from tools.local import Child, LocalFederation

APP = Path(__file__).parent / "app.py"
CLIENTS = 12
VERSIONS = 240
LATE = 1.5  # seconds for a task of the client that is always late
PACES = (0.35, 0.8)  # of the others
CONFIG: dict[str, Any] = {
    "app": f"{APP}:workload",
    "model": "model.safetensors",
    "server": {"journal": "run"},
    "algorithm": {
        "kind": "latecomer",
        "buffer": 4,
        "client": {"kind": "local_sgd", "lr": 0.2, "steps": 20, "batch": 16},
    },
    "evaluate": {"every_versions": 10},
    "stop": {"versions": VERSIONS},
    "timeouts": {"linger": 20.0},
}
# At which version what happens; each is done once.
SERVER_DIES, CLIENTS_DIE = 110, (50, 90, 150)
SLEEPS, CUT = 70, 170
BACK_AFTER, WAKES_AFTER = 3.0, 7.0  # seconds


class Story:
    """Plays the disasters, and keeps a diary."""

    def __init__(self, real: LocalFederation, proxy: CountingProxy, seed: int) -> None:
        self._real, self._proxy = real, proxy
        self._rng = random.Random(seed)
        self.began = time.monotonic()
        self._waiting, self._plan = Agenda(), Agenda()  # by seconds, by versions
        self._plan.add(SERVER_DIES, self._kill_server)
        self._plan.add(SLEEPS, self._put_to_sleep)
        self._plan.add(CUT, self._cut_network)
        for version in CLIENTS_DIE:
            self._plan.add(version, self._kill_client)
        self._struck: set[int] = {0}  # the late one has trouble enough
        self.diary: list[str] = []

    def begin(self) -> None:
        """All clients join, each at its own pace."""
        for index in range(CLIENTS):
            self._join(index)

    def look(self, version: int) -> None:
        """Does what is due."""
        self._waiting.do(time.monotonic())
        self._plan.do(version)

    def check_health(self) -> None:
        """A child that ends with an error ends the demo."""
        for child in self._real.children.values():
            status = None if child.process is None else child.process.poll()
            if status is not None and status > 0:
                raise SystemExit(f"{child.name} ended with {status}:\n{child.tail()}")

    def write(self, text: str) -> None:
        """A line in the diary."""
        self.diary.append(f"{time.monotonic() - self.began:5.1f} s  {text}")

    @property
    def everything_happened(self) -> bool:
        """Whether all disasters have struck, and all who fell have risen."""
        return not self._plan and not self._waiting

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        self._waiting.add(time.monotonic() + seconds, call)

    def _join(self, index: int) -> None:
        low, high = PACES
        pace = low + (high - low) * (index - 1) / (CLIENTS - 2) if index else LATE
        self._real.client(
            index, CLIENTS, "--pace", f"{pace:.2f}", host=self._proxy.address
        )

    def _victim(self) -> int:
        index = self._rng.choice([i for i in range(CLIENTS) if i not in self._struck])
        self._struck.add(index)
        return index

    def _client(self, index: int) -> Child:
        return self._real.children[f"client-{index}"]

    def _kill_server(self) -> None:
        self._real.children["server"].kill()
        self.write("SIGKILL for the server; it starts again from its journal")
        self._real.server()

    def _kill_client(self) -> None:
        index = self._victim()
        self._client(index).kill()
        self.write(f"SIGKILL for client-{index}; back in {BACK_AFTER:g} s")
        self._later(BACK_AFTER, lambda: self._come_back(index))

    def _come_back(self, index: int) -> None:
        self.write(f"client-{index} is back, with what it had on its disk")
        self._join(index)

    def _put_to_sleep(self) -> None:
        index = self._victim()
        self._signal(index, signal.SIGSTOP)
        self.write(f"client-{index} falls asleep for {WAKES_AFTER:g} s")
        self._later(WAKES_AFTER, lambda: self._wake(index))

    def _wake(self, index: int) -> None:
        self._signal(index, signal.SIGCONT)
        self.write(f"client-{index} wakes, and delivers what it had begun")

    def _cut_network(self) -> None:
        self._proxy.cut()
        self.write("the network breaks all connections, whatever they carry")

    def _signal(self, index: int, which: signal.Signals) -> None:
        process = self._client(index).process
        assert process is not None
        process.send_signal(which)
