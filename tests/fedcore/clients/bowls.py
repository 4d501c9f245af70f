"""Clients with quadratic losses that differ, and the real coordinator."""

from dataclasses import replace

import numpy as np

from fedcore.algorithm import AlgorithmConfig
from fedcore.coordinator import Coordinator
from fedcore.coordinator.actions import SendAck, SendReply
from fedcore.coordinator.events import ClientEnrolled, ClientPulled, Event, UpdatePushed
from fedcore.params import ParamSpec
from fedcore.participant import Participant, ParticipantState, Trained
from fedcore.protocol import Ack, ModelName, Verdict
from fedcore.rng import Key
from fedcore.typing import Array
from tests.fedcore.clients.trained import trained

EPOCH, CLIENTS, DIM, STEPS = "0" * 16, 4, 6, 10
SPEC = ParamSpec.of({"w": np.zeros(DIM)})
LR = 0.05
LOST = (Verdict.REJECTED_POLICY, Verdict.REJECTED_STALE, Verdict.DISCARDED)


class Bowls:
    """Clients whose losses differ in place and in curvature."""

    def __init__(
        self,
        config: AlgorithmConfig,
        at_first: int = CLIENTS,
        steps: tuple[int, ...] = (STEPS,) * CLIENTS,
    ) -> None:
        self.steps = steps
        rng = np.random.default_rng(0)
        self.curves_ND = rng.uniform(0.2, 3.0, (CLIENTS, DIM)).astype(np.float32)
        self.goals_ND = rng.normal(0, 3, (CLIENTS, DIM)).astype(np.float32)
        self.config, algorithm = config, config.build(SPEC)
        initial_D = np.zeros(DIM, np.float32)
        self.coordinator = Coordinator(algorithm, initial_D, epoch=EPOCH, seed=0)
        self.clients: list[Participant] = []
        for _ in range(at_first):
            self.join()

    def join(self) -> None:
        """One more client joins."""
        index, algorithm = len(self.clients), self.coordinator.algorithm
        client = Participant(algorithm, ParticipantState(str(index), "run", EPOCH))
        origin = self.coordinator.state.published.origin
        client.derive(np.zeros(DIM, np.float32), origin)
        self.clients.append(client)
        self.enrol(index)

    def enrol(self, index: int) -> None:
        """The server gets to know a client."""
        cid, at = str(index), self.coordinator.state.at
        self.handle(ClientEnrolled(at=at, cid=cid, name=cid, index=index))

    def lose_history(self) -> None:
        """The server is restored from a backup without any update."""
        algorithm, initial_D = self.coordinator.algorithm, np.zeros(DIM, np.float32)
        self.coordinator = Coordinator(algorithm, initial_D, epoch="1" * 16, seed=0)
        for index, client in enumerate(self.clients):
            self.enrol(index)
            pull = client.pull(10_000)
            self.handle(ClientPulled(at=0.0, pull=pull, fresh_epoch=""))

    def train(self, index: int, turn: int, lost: Verdict | None = None) -> None:
        """Pull, some steps, push; or the update gets another verdict on its way."""
        client, state = self.clients[index], self.coordinator.state
        pull = client.pull(1 + turn)
        self.handle(ClientPulled(at=float(turn), pull=pull, fresh_epoch=""))
        public_D = client.state.public_D
        assert public_D is not None

        def gradient(w_D: Array, step: int) -> tuple[Array, Array]:
            return np.float32(0), self.curves_ND[index] * (w_D - self.goals_ND[index])

        kept = client.state.kept
        steps = self.steps[index]
        found = trained(self.config.client, public_D, steps, gradient, kept)
        task = Trained(found.delta_D, samples=1, steps=steps, kept=found.state)
        if not client.finish(task, ModelName(EPOCH, state.version), Key.root(turn)):
            return
        push = client.push()
        if lost is None:
            self.handle(UpdatePushed(at=float(turn), push=push))
        else:  # as if a server that forgets it at once had decided so
            settled = client.state.settled
            client.settle(Ack(seq=push.seq, digest=push.digest, answer=lost))
            client.state = replace(client.state, settled=settled)

    def handle(self, event: Event) -> None:
        for action in self.coordinator.handle(event):
            if isinstance(action, SendReply):
                self.clients[int(action.cid)].receive(action.reply)
            elif isinstance(action, SendAck):
                self.clients[int(action.cid)].settle(action.ack)

    @property
    def distance(self) -> float:
        """Of the model from the best one."""
        best_D = (self.curves_ND * self.goals_ND).sum(0) / self.curves_ND.sum(0)
        return float(np.abs(self.coordinator.state.exact_D[:DIM] - best_D).max())


def in_turn(made: Bowls, tasks: int) -> Bowls:
    """All clients train, one after the other."""
    for turn in range(tasks):
        made.train(turn % CLIENTS, turn)
    return made
