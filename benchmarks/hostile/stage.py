"""A server, its honest clients and one hostile peer, each a process of its own."""

import threading
import time
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from benchmarks.hostile.checkout import Checkout
from benchmarks.hostile.scenarios import Scenario
from benchmarks.speed.processes import Helper, cpu_seconds, resident_megabytes
from benchmarks.speed.server import save_zeros
from fedcore.typing import JSON, Seconds
from tools.local import Child, LocalFederation

HONEST = 8
LOOK: Seconds = 0.1  # between two health calls, and two looks at the memory


@dataclass(frozen=True)
class Trust:
    """Certificates of a throw-away authority, in one folder.

    ``ca.pem``, and ``NAME.pem`` with ``NAME.key`` for ``localhost``, each honest client
    and ``hostile``.
    """

    folder: Path

    def server(self) -> JSON:
        """The server's section of the config."""
        return {
            "certificate": str(self.folder / "localhost.pem"),
            "key": str(self.folder / "localhost.key"),
            "client_ca": str(self.folder / "ca.pem"),
        }

    def clients(self) -> list[str]:
        """Options of the honest clients."""
        return ["--ca", str(self.folder / "ca.pem"), "--certificates", str(self.folder)]

    def peer(self) -> list[str]:
        """Options of the hostile peer."""
        folder = self.folder
        own = [
            "--certificate",
            f"{folder}/hostile.pem",
            "--key",
            f"{folder}/hostile.key",
        ]
        return ["--ca", str(folder / "ca.pem"), *own]

    def credentials(self) -> grpc.ChannelCredentials:
        """Those of whoever asks for the server's health."""
        parts = [
            self.folder / name for name in ("ca.pem", "client-0.key", "client-0.pem")
        ]
        return grpc.ssl_channel_credentials(*(part.read_bytes() for part in parts))


@dataclass(frozen=True)
class Window:
    """What was seen in some seconds."""

    seconds: Seconds
    updates: int  # of the honest clients, accepted
    fewest: int  # of one of them
    megabytes: float  # the most that the server held
    slowest: Seconds  # answer to a health call
    unanswered: int  # health calls
    cpu: Seconds  # of the server's process
    answers: JSON = None  # what the peer was answered

    @property
    def rate(self) -> float:
        """Honest updates a second."""
        return self.updates / self.seconds


@dataclass
class _Watch:
    """Asks for the server's health and looks at its memory, ten times a second."""

    address: str
    pid: int
    trust: Trust | None
    answered: list[tuple[float, Seconds]] = field(default_factory=list)
    unanswered: list[float] = field(default_factory=list)
    memory: list[tuple[float, float]] = field(default_factory=list)
    is_over: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """On a thread of its own."""
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        trust = self.trust
        with (
            grpc.insecure_channel(self.address)
            if trust is None
            else grpc.secure_channel(self.address, trust.credentials())
        ) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            while not self.is_over.wait(LOOK):
                began = time.monotonic()
                with suppress(OSError, AssertionError):
                    self.memory.append((began, resident_megabytes(self.pid)))
                try:
                    health.Check(health_pb2.HealthCheckRequest(), timeout=20.0)
                except (grpc.RpcError, ValueError):
                    self.unanswered.append(began)
                else:
                    self.answered.append((began, time.monotonic() - began))


class Stage(AbstractContextManager["Stage"]):
    """One federation under attack."""

    def __init__(
        self,
        folder: Path,
        scenario: Scenario,
        checkout: Checkout | None = None,
        *,
        trust: Trust | None = None,
        stranger: bool = False,
    ) -> None:
        """``stranger``: the peer does not enrol."""
        self.folder, self.scenario = folder, scenario
        self.checkout, self.trust = checkout or Checkout(), trust
        self._is_stranger = stranger
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Starts server and honest clients, and waits until updates come."""
        with self._stack:
            self._begin()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends all of them."""
        self._stack.close()

    def _begin(self) -> None:
        scenario, config = self.scenario, self.scenario.config()
        if self.trust is not None:
            config["server"] |= {"tls": self.trust.server(), "listen": "localhost:0"}
        environment = self.checkout.environment | {"HOSTILE_DIM": str(scenario.dim)}
        self.federation = LocalFederation(
            self.folder, config, app="", environment=environment
        )
        self._stack.enter_context(self.federation)
        save_zeros(self.folder / "model.safetensors", scenario.dim)
        self.server = self._serve()
        assert self.server.process is not None
        self.pid = self.server.process.pid
        address = self.federation.address
        clients = [address, str(self.folder / "states"), "--pace", str(scenario.pace)]
        clients += ["--unnamed"] if scenario.unnamed else []
        clients += self.trust.clients() if self.trust else []
        self._honest = self._start("honest", *clients, "--clients", str(HONEST))
        peer = [address, "--dim", str(scenario.dim)]
        peer += ["--stranger"] if self._is_stranger else []
        peer += self.trust.peer() if self.trust else []
        self._peer = self._start("peer", *peer)
        self._watch = _Watch(address, self.pid, self.trust)
        self._stack.callback(self._watch.is_over.set)
        self._watch.start()
        self.federation.wait_until(self._all_at_work, "all honest clients are at work")
        self.megabytes = resident_megabytes(self.pid)

    def _serve(self) -> Child:
        scenario, federation = self.scenario, self.federation
        limits = ["--descriptors", str(scenario.descriptors)]
        limits += ["--delay", str(scenario.delay)]
        words = ["run", str(federation.path), "--log", "json", "--no-evaluator"]
        command = self.checkout.command("benchmarks.hostile.serve", *limits, *words)
        child = Child("server", command, self.folder, federation.environment)
        federation.children["server"] = child
        child.start()
        federation.wait_until(
            lambda: any(line.get("event") == "listening" for line in child.lines()),
            "the server listens",
        )
        return child

    def _start(self, module: str, *words: str) -> Helper:
        module, dim = f"benchmarks.hostile.{module}", str(self.scenario.dim)
        helper = self.checkout.helper(self.folder, module, *words, HOSTILE_DIM=dim)
        return self._stack.enter_context(helper)

    def _all_at_work(self) -> bool:
        return len(self.honest()["accepted"]) == HONEST

    # ------------------------------------------------------------------- measuring

    def honest(self) -> JSON:
        """What the honest clients tell."""
        return self._honest.ask("how is it going")

    def window(self, seconds: Seconds, attack: str = "") -> Window:
        """Looks for some seconds, with an attack or without."""
        if attack:
            self._peer.ask(f"go {attack}")
        began, before, cpu = time.monotonic(), self.honest()["accepted"], self._cpu()
        time.sleep(seconds)
        ended, after = time.monotonic(), self.honest()["accepted"]
        used = self._cpu() - cpu
        answers = self._peer.ask("halt") if attack else None
        counts = [after[name] - before.get(name, 0) for name in after]
        # A call that is open for long tells of a freeze only once it is answered.
        late = [t for t in self._watch.unanswered if began <= t <= ended]
        waits = [
            s
            for t, s in self._watch.answered
            if began - 20 <= t <= ended and t + s >= began
        ]
        memory = [m for t, m in self._watch.memory if began <= t <= ended]
        return Window(
            seconds=ended - began,
            updates=sum(counts),
            fewest=min(counts),
            megabytes=max(memory, default=0.0),
            slowest=max(waits, default=0.0),
            unanswered=len(late),
            cpu=used,
            answers=answers,
        )

    def _cpu(self) -> Seconds:
        with suppress(OSError):
            return cpu_seconds(self.pid)
        return 0.0

    def goes_on(self, patience: Seconds = 30.0) -> Seconds | None:
        """How long until each honest client has one more update; None: never."""
        before, began = self.honest()["accepted"], time.monotonic()
        while time.monotonic() < began + patience and self.server.is_running:
            now = self.honest()["accepted"]
            if all(now[name] > before[name] for name in before):
                return time.monotonic() - began
            time.sleep(0.1)
        return None

    def harmed(self) -> list[str]:
        """What happened to honest clients that should not: one sentence each."""
        told = self.honest()
        found = [f"{who} ended: {why}" for who, why in told["ended"].items()]
        return found + list(dict.fromkeys(told["said"]))

    def epochs(self) -> int:
        """Histories that the server has opened since its start."""
        return sum(line.get("event") == "historyforked" for line in self.server.lines())

    def stop(self, *, anew: bool = True) -> "End":
        """Ends the server politely, and verifies its journal.

        ``anew``: its decisions are made again, and compared.
        """
        status: int | None = None
        with suppress(AssertionError):
            status = self.server.stop(30.0)
        run = str(self.federation.run)
        words = ["journal", "verify", run, *([] if anew else ["--no-decisions"])]
        done = self.federation.command("fedserver", *words)
        return End(status, done.returncode == 0, (done.stdout + done.stderr).strip())


@dataclass(frozen=True)
class End:
    """How a server ended."""

    status: int | None
    is_sound: bool
    verified: str
