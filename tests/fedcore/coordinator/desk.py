"""A coordinator at a desk: events go in by hand, actions come out sorted."""

from dataclasses import replace
from typing import Any

import numpy as np

from fedcore.algorithm import AlgorithmConfig
from fedcore.coordinator import Coordinator
from fedcore.coordinator.actions import (
    Action,
    Finish,
    Persist,
    Refuse,
    SendAck,
    SendReply,
    SetTimer,
)
from fedcore.coordinator.events import (
    ClientEnrolled,
    ClientPulled,
    Evaluated,
    Lost,
    Timer,
    TimerFired,
    UpdatePushed,
)
from fedcore.coordinator.settings import EvaluateConfig, StopConfig
from fedcore.params import ParamSpec, content_digest
from fedcore.payloads import dense_payload, pack
from fedcore.proofs import Authenticator
from fedcore.protocol import (
    NOTHING_SETTLED,
    Held,
    ModelName,
    Proof,
    Pull,
    Push,
    Role,
    Settled,
)
from fedcore.typing import Counts

SPEC = ParamSpec.of({"w": np.zeros((2, 2), np.float32)})
EPOCH, FRESH = "e" * 16, "f" * 16
SECRET = b"sixteen  secrets"


class Desk:
    """One coordinator, and what it did last."""

    def __init__(
        self,
        config: AlgorithmConfig,
        stop: StopConfig | None = None,
        evaluate: EvaluateConfig | None = None,
        secret: bytes | None = SECRET,
    ) -> None:
        self.coordinator = Coordinator(
            config.build(SPEC),
            np.zeros(SPEC.dim, np.float32),
            epoch=EPOCH,
            stop=stop,
            evaluate=evaluate,
            secret=secret,
        )
        self.at = 0.0
        self.actions: list[Action] = self.coordinator.begin(0.0)
        self.timers: dict[Timer, float] = {}
        self.settled: dict[str, Settled] = {}
        self._nonce = 0
        self._note(self.actions)

    @property
    def version(self) -> int:
        return self.coordinator.state.version

    def enrol(self, *names: str, role: Role = "trainer") -> None:
        for name in names:
            self.feed(ClientEnrolled(at=self.at, cid=name, name=name, role=role))

    def pull(self, name: str, **changes: Any) -> list[Action]:
        self._nonce += 1
        published = self.coordinator.state.published
        pull = Pull(
            cid=name,
            nonce=self._nonce,
            epoch=EPOCH,
            held=Held(EPOCH, published.version, published.digest),
            settled=self.settled.get(name, NOTHING_SETTLED),
        )
        event = ClientPulled(
            at=self.at, pull=replace(pull, **changes), fresh_epoch=FRESH
        )
        return self.feed(event)

    def push(self, name: str, seq: int, *values: Any, **changes: Any) -> list[Action]:
        push = self.pushed(name, seq, *values, **changes)
        return self.feed(UpdatePushed(at=self.at, push=push))

    def pushed(
        self,
        name: str,
        seq: int,
        values: list[float] | None = None,
        *,
        base: int | ModelName | None = None,
        samples: int = 1,
        counts: Counts | None = None,
        **changes: Any,
    ) -> Push:
        """A push that a client has made."""
        values_D = np.array(values or [1.0] * SPEC.dim, np.float32)
        payload = pack(dense_payload(values_D))
        if not isinstance(base, ModelName):
            base = ModelName(EPOCH, self.version if base is None else base)
        push = Push(
            cid=name,
            epoch=EPOCH,
            seq=seq,
            base=base,
            payload=payload,
            digest=content_digest(payload),
            settled=self.settled.get(name, NOTHING_SETTLED),
            samples=samples,
            steps=1,
            counts=counts,
            task=self.task_of(name, base.version),
        )
        return replace(push, **changes)

    def task_of(self, name: str, version: int) -> Proof:
        """The proof of a task on a version, whether or not the client was given it."""
        row = self.coordinator.state.clients.get(name)
        seq = 0 if row is None else row.seq
        return self.proofs.task(EPOCH, name, version, seq)

    def lose(self, name: str) -> list[Action]:
        return self.feed(Lost(at=self.at, cid=name))

    def evaluate(self, name: str, version: int, **values: float) -> list[Action]:
        """A client measures a version that it was asked to evaluate."""
        self.coordinator.evaluations.ask(name, version)
        return self.measure(name, version, **values)

    def measure(self, name: str, version: int, **values: float) -> list[Action]:
        return self.feed(
            Evaluated(at=self.at, cid=name, version=version, values=values, samples=1)
        )

    def fire(self, kind: str) -> list[Action]:
        """The earliest timer of a kind fires, at its time."""
        at, timer = min((at, t) for t, at in self.timers.items() if t.kind == kind)
        del self.timers[timer]
        self.at = max(self.at, at)
        return self.feed(TimerFired(at=self.at, timer=timer))

    def feed(self, event: Any) -> list[Action]:
        self.actions = self.coordinator.handle(event)
        self._note(self.actions)
        return self.actions

    @property
    def proofs(self) -> Authenticator:
        """What the server makes proofs with."""
        return self.coordinator.proofs

    def _note(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, SetTimer):
                self.timers[action.timer] = action.at
            if isinstance(action, SendAck):
                row = self.coordinator.state.clients.get(action.cid)
                receipt = row.receipt if row else None
                if receipt is not None and receipt.seq == action.ack.seq:
                    self.settled[action.cid] = Settled(receipt.seq, receipt.verdict)

    # ------------------------------------------------------------ what came out

    @property
    def given(self) -> list[str]:
        """Who was given a task."""
        return [
            a.cid for a in self.actions if isinstance(a, SendReply) and a.reply.task
        ]

    @property
    def answered(self) -> list[str]:
        """Who was answered, with or without a task."""
        return [a.cid for a in self.actions if isinstance(a, SendReply)]

    @property
    def reply(self) -> Any:
        (only,) = (a.reply for a in self.actions if isinstance(a, SendReply))
        return only

    @property
    def ack(self) -> Any:
        (only,) = (a.ack for a in self.actions if isinstance(a, SendAck))
        return only

    @property
    def refused(self) -> list[Any]:
        return [a.answer for a in self.actions if isinstance(a, Refuse)]

    @property
    def finished(self) -> str | None:
        return next((a.reason for a in self.actions if isinstance(a, Finish)), None)

    def records(self, kind: type) -> list[Any]:
        found = [a.record for a in self.actions if isinstance(a, Persist)]
        return [record for record in found if isinstance(record, kind)]
