"""EF21 with partial participation: what the server holds is what the clients sent."""

import numpy as np
import pytest
from pydantic import ValidationError

from fedcore import compressors, server_optimizers
from fedcore.aggregators import TrimmedMean
from fedcore.algorithm import AlgorithmConfig
from fedcore.clients import Scaffold
from fedcore.compressors import ErrorFeedback, Identity, TopK
from fedcore.coordinator import Coordinator
from fedcore.coordinator.actions import SendAck, SendReply
from fedcore.coordinator.events import ClientEnrolled, ClientPulled, Event, UpdatePushed
from fedcore.errors import ConfigError
from fedcore.params import ParamSpec
from fedcore.participant import Participant, ParticipantState, Trained
from fedcore.protocol import Ack, ModelName, Verdict
from fedcore.recipes import EF21, FedAvg
from fedcore.rng import Key
from fedcore.server_optimizers import SGD
from fedcore.staleness import AdaSGD
from fedcore.typing import Vector

EPOCH, CLIENTS, DIM = "0" * 16, 4, 8
SPEC = ParamSpec.of({"w": np.zeros(DIM)})


class Quadratics:
    """Each client pulls the model towards a point of its own; best is their mean."""

    def __init__(self, config: AlgorithmConfig) -> None:
        algorithm = config.build(SPEC)
        self.points_ND = np.random.default_rng(0).normal(0, 10, (CLIENTS, DIM))
        initial_D = np.zeros(DIM, np.float32)
        self.coordinator = Coordinator(algorithm, initial_D, epoch=EPOCH, seed=0)
        self.clients = []
        for index in range(CLIENTS):
            cid = str(index)
            self.handle(ClientEnrolled(at=0.0, cid=cid, name=cid, index=index))
            client = Participant(algorithm, ParticipantState(cid, "run", EPOCH))
            client.derive(initial_D, self.coordinator.state.published.origin)
            self.clients.append(client)

    def train(self, index: int, turn: int) -> None:
        """Pull, one step, push."""
        client = self.clients[index]
        self.pull(index, turn)
        public_D = client.state.public_D
        assert public_D is not None
        delta_D = 0.3 * (public_D - self.points_ND[index]).astype(np.float32)
        base = ModelName(EPOCH, self.coordinator.state.version)
        if client.finish(Trained(delta_D, samples=1), base, Key.root(turn)):
            push = client.push()
            self.handle(UpdatePushed(at=float(turn), push=push))

    def pull(self, index: int, turn: int) -> None:
        """A client takes over the public model."""
        pull = self.clients[index].pull(1 + turn)
        self.handle(ClientPulled(at=float(turn), pull=pull, fresh_epoch=""))

    def handle(self, event: Event) -> None:
        """Something happens at the server; its answers are delivered."""
        for action in self.coordinator.handle(event):
            if isinstance(action, SendReply):
                self.clients[int(action.cid)].receive(action.reply)
            elif isinstance(action, SendAck):
                self.clients[int(action.cid)].settle(action.ack)

    @property
    def distance(self) -> float:
        """Of the public model from the mean."""
        public_D = self.coordinator.state.published.public_D
        return float(np.linalg.norm(public_D - self.points_ND.mean(axis=0)))

    @property
    def followed_D(self) -> Vector:
        """The mean of what the clients have sent in all: mean g_i = -mean e_i."""
        mean_D: Vector = -np.mean([memory_of(each) for each in self.clients], axis=0)
        return mean_D


def memory_of(client: Participant) -> Vector:
    """What it keeps from message to message."""
    assert client.state.memory_D is not None
    return client.state.memory_D


def in_turn(config: AlgorithmConfig, versions: int, cohort: int) -> Quadratics:
    """A federation whose clients take part one after the other."""
    made = Quadratics(config)
    for turn in range(versions * cohort):
        made.train(turn % CLIENTS, turn)
    return made


def settings(cohort: int, lr: float) -> EF21:
    return EF21(
        synchronous=False,
        buffer=cohort,
        server=server_optimizers.EF21(lr=lr, share=cohort / CLIENTS),
        uplink=compressors.EF21(inner=TopK(ratio=0.25)),
        downlink=Identity(),
    )


@pytest.mark.parametrize(("cohort", "lr"), [(4, 0.5), (2, 0.25)])
def test_it_finds_the_mean_of_clients_that_differ(cohort: int, lr: float) -> None:
    found = in_turn(settings(cohort, lr), versions=400, cohort=cohort)
    assert found.distance < 1e-3
    without = FedAvg(
        synchronous=False, buffer=cohort, server=SGD(lr=lr), uplink=TopK(ratio=0.25)
    )
    assert in_turn(without, versions=400, cohort=cohort).distance > 0.1


@pytest.mark.parametrize("cohort", [1, 2, 4])
def test_the_server_holds_the_mean_of_what_all_clients_sent(cohort: int) -> None:
    made = in_turn(settings(cohort, 0.1), versions=20, cohort=cohort)
    np.testing.assert_allclose(
        made.coordinator.state.optimizer, made.followed_D, rtol=1e-4, atol=1e-4
    )


def test_at_a_deadline_those_that_are_missing_count_as_zeros() -> None:
    made = in_turn(settings(4, 0.1), versions=3, cohort=4)
    for index in range(2):
        made.train(index, 20 + index)
    made.coordinator.flush(at=30.0, reason="deadline")
    np.testing.assert_allclose(
        made.coordinator.state.optimizer, made.followed_D, rtol=1e-4, atol=1e-4
    )


def test_with_another_learning_rate_the_server_still_holds_what_was_sent() -> None:
    made = in_turn(settings(4, 0.1), versions=3, cohort=4)
    made.coordinator.state.amend(settings(4, 0.05).build(SPEC))
    np.testing.assert_allclose(
        made.coordinator.state.optimizer, made.followed_D, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("other", [FedAvg(), FedAvg(uplink=ErrorFeedback())])
def test_a_memory_of_another_kind_is_not_taken_over(other: AlgorithmConfig) -> None:
    first = EF21()
    for one, next_ in ((first, other), (other, first)):
        with pytest.raises(ConfigError, match="cannot go on with"):
            one.require_successor(next_)
    first.require_successor(settings(2, 0.1))
    FedAvg().require_successor(FedAvg(uplink=ErrorFeedback()))


@pytest.mark.parametrize("verdict", [v for v in Verdict if v is not Verdict.ACCEPTED])
def test_a_message_that_did_not_count_changes_nothing(verdict: Verdict) -> None:
    client = in_turn(settings(4, 0.1), versions=3, cohort=4).clients[0]
    memory_D, base = memory_of(client), ModelName(EPOCH, 3)
    work = Trained(np.ones(DIM, np.float32), samples=1)
    assert client.finish(work, base, Key.root(9))
    push = client.push()
    client.settle(Ack(seq=push.seq, digest=push.digest, answer=verdict))
    np.testing.assert_allclose(memory_of(client), memory_D, atol=1e-6)


def test_work_of_which_no_message_is_made_is_replaced_by_the_next() -> None:
    client = in_turn(settings(4, 0.1), versions=3, cohort=4).clients[0]
    memory_D, work = client.state.memory_D, Trained(np.ones(DIM, "f"), samples=1)
    assert not client.finish(work, ModelName("f" * 16, 3), Key.root(9))
    assert client.state.memory_D is memory_D
    assert client.state.ledger.lost == pytest.approx(DIM**0.5)


def test_after_the_farewell_nothing_of_a_client_is_left_at_the_server() -> None:
    made = in_turn(settings(1, 0.1), versions=8, cohort=1)
    client = made.clients[0]
    made.pull(0, 99)
    assert client.flush()
    push = client.push()
    made.handle(UpdatePushed(at=99.0, push=push))
    assert not memory_of(client).any()
    np.testing.assert_allclose(
        made.coordinator.state.optimizer, made.followed_D, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"server": SGD()}, "which only the server optimizer ef21 adds up; with sgd"),
        ({"uplink": ErrorFeedback()}, "which only the uplink ef21 sends"),
        ({"staleness": AdaSGD()}, "none may be dampened by staleness ada_sgd"),
        ({"aggregator": TrimmedMean()}, "with aggregator trimmed_mean and weigh_by"),
        ({"weigh_by": "samples"}, "and weigh_by samples it would not"),
        ({"client": Scaffold()}, "of client scaffold are not added up"),
        (
            {"uplink": {"kind": "ef21", "inner": compressors.EF21()}},
            "one memory is enough",
        ),
        (
            {
                "uplink": {
                    "kind": "ef21",
                    "inner": {"kind": "random_k", "unbiased": True},
                }
            },
            "random_k is unbiased with these settings",
        ),
    ],
)
def test_parts_that_do_not_fit_are_refused(
    changed: dict[str, object], sentence: str
) -> None:
    with pytest.raises(ValidationError, match=sentence):
        EF21.model_validate(changed)
