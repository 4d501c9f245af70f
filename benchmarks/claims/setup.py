"""The standard small set-up: digits, a small network, a federation in rounds.

Data: the 1,797 real 8x8 images of scikit-learn's ``load_digits``, a stratified split
of 75 to 25 per cent by its ``train_test_split``, pixels over 16, the training mean
subtracted; the same split for every seed. Seeds vary the partition, version 0, batches,
cohorts and losses. Arithmetic is float32, as on every client. Accuracy, loss and recall
are those of the public model W on the test images. Columns named "before" hold
measurements on such a split from before this project was written.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from fedcore.algorithm import AlgorithmConfig
from fedcore.clients import LocalSGD
from fedcore.compressors import CompressorConfig
from fedcore.coordinator import Coordinator
from fedcore.coordinator.actions import Persist, SendAck, SendReply, SetTimer
from fedcore.coordinator.events import (
    ClientEnrolled,
    ClientPulled,
    Event,
    Stepped,
    Timer,
    TimerFired,
    UpdatePushed,
)
from fedcore.errors import NotStackableError
from fedcore.model import Metrics, StackedModel
from fedcore.params import NO_REST, ParamSpec, Rest
from fedcore.participant import Participant, ParticipantState
from fedcore.partitions import Partition
from fedcore.protocol import Reply
from fedcore.recipes import FedAvg
from fedcore.rng import Key
from fedcore.server_optimizers import SGD
from fedcore.server_optimizers.base import ServerOptimizerConfig
from fedcore.training import Trainer, initial_model
from fedcore.typing import Vector
from fedcore.workload import Client, Workload

PIXELS, HIDDEN, CLASSES = 64, 32, 10


@cache
def _splits() -> dict[str, tuple[Vector, npt.NDArray[np.int64]]]:
    x, y = load_digits(return_X_y=True)
    parts = train_test_split(
        (x / 16).astype(np.float32), y, test_size=0.25, stratify=y, random_state=0
    )
    x_train, x_test, y_train, y_test = parts
    mean = x_train.mean(axis=0)
    return {"train": (x_train - mean, y_train), "test": (x_test - mean, y_test)}


def digits(split: str) -> tuple[Vector, npt.NDArray[np.int64]]:
    """Images (N, 64) and labels of the ``train`` or the ``test`` part."""
    return _splits()[split]


EPOCH = "0" * 16


class Quality(NamedTuple):
    """How good a model is on the test images."""

    accuracy: float
    loss: float
    recall_C: npt.NDArray[np.float64]  # of each class

    def recall(self, classes: range) -> float:
        """The mean recall of these classes."""
        return float(self.recall_C[classes.start : classes.stop].mean())


class DigitsMLP:
    """64-32-10 with ReLU and cross-entropy, d = 2,410; gradients by hand.

    Args:
        width: hidden units.
    """

    def __init__(self, width: int = HIDDEN) -> None:
        self.spec = ParamSpec.of(
            {
                "hidden.weight": np.zeros((PIXELS, width)),
                "hidden.bias": np.zeros(width),
                "out.weight": np.zeros((width, CLASSES)),
                "out.bias": np.zeros(CLASSES),
            }
        )
        self.local_L: Vector | None = None
        self.advice = ""
        self._gradient_D = np.empty(self.spec.dim, np.float32)
        self._gradients = self._parts(self._gradient_D)

    def _parts(self, flat_D: Vector) -> list[Vector]:
        return list(self.spec.unflatten(flat_D).values())

    def initial(self, key: Key) -> Vector:
        """He's initialisation; biases are zero."""
        rng, flat_D = key.generator(), np.zeros(self.spec.dim, np.float32)
        for weight in self._parts(flat_D)[::2]:
            weight[:] = rng.normal(0, np.sqrt(2 / len(weight)), weight.shape)
        return flat_D

    def rest(self) -> Rest:
        """All of it is trained."""
        return NO_REST

    def seed(self, key: Key) -> None:
        """It draws nothing."""

    def gradient(self, w_D: Vector, x: Any, y: Any) -> tuple[float, Vector]:
        """The mean loss over a batch, and its gradient, valid until the next call."""
        out_weight = self._parts(w_D)[2]
        hidden_BH, chance_BC = self.forward(w_D, x)
        rows = np.arange(len(y))
        loss = -float(np.log(chance_BC[rows, y] + np.float32(1e-30)).mean())
        chance_BC[rows, y] -= 1
        chance_BC /= len(y)
        g_hidden, g_hidden_bias, g_out, g_out_bias = self._gradients
        np.matmul(hidden_BH.T, chance_BC, out=g_out)
        np.sum(chance_BC, axis=0, out=g_out_bias)
        back_BH = chance_BC @ out_weight.T
        back_BH *= hidden_BH > 0
        np.matmul(x.T, back_BH, out=g_hidden)
        np.sum(back_BH, axis=0, out=g_hidden_bias)
        return loss, self._gradient_D

    def stack(self, device: str = "cpu") -> StackedModel:
        """The claims are checked on clients one by one."""
        raise NotStackableError("the claims are checked on clients one by one")

    def evaluate(
        self, w_D: Vector, data: Any, local_L: Vector | None = None
    ) -> tuple[Metrics, int]:
        """Accuracy and loss."""
        quality = self.quality(w_D, *data)
        return {"accuracy": quality.accuracy, "loss": quality.loss}, len(data[1])

    def quality(self, w_D: Vector, x: Any, y: Any) -> Quality:
        """How good a model is on these images."""
        _, chance_BC = self.forward(w_D, x)
        right_B = chance_BC.argmax(axis=1) == y
        loss = -np.log(chance_BC[np.arange(len(y)), y] + np.float32(1e-30)).mean()
        recall_C = np.bincount(y, right_B, CLASSES) / np.bincount(y, minlength=CLASSES)
        return Quality(float(right_B.mean()), float(loss), recall_C)

    def forward(self, w_D: Vector, x: Any) -> tuple[Vector, Vector]:
        """Returns the hidden units and the chance of each class, of each image."""
        hidden_weight, hidden_bias, out_weight, out_bias = self._parts(w_D)
        hidden_BH = x @ hidden_weight
        hidden_BH += hidden_bias
        np.maximum(hidden_BH, 0, out=hidden_BH)
        chance_BC = hidden_BH @ out_weight
        chance_BC += out_bias
        chance_BC -= chance_BC.max(axis=1, keepdims=True)
        np.exp(chance_BC, out=chance_BC)
        chance_BC /= chance_BC.sum(axis=1, keepdims=True)
        return hidden_BH, chance_BC


def in_rounds(
    cohort: int,
    uplink: CompressorConfig,
    downlink: CompressorConfig,
    server: ServerOptimizerConfig | None = None,
) -> FedAvg:
    """Rounds of 5 local steps, B 16, lr .1; every update counts alike.

    The experiment draws the cohorts, so that all its rows have the same ones; for
    the coordinator a round is then a buffer of K updates and no patience.
    """
    return FedAvg(
        buffer=cohort,
        synchronous=False,
        staleness_limit=0,
        weigh_by="updates",
        client=LocalSGD(lr=0.1, steps=5, batch=16),
        uplink=uplink,
        downlink=downlink,
        server=server or SGD(),
    )


class Trainee(Participant):
    """A real participant; subclasses do the wrong thing when an upload is lost."""

    def upload_lost(self) -> None:
        """Nothing: the message stays pending until the server has decided on it."""


class Federation:
    """Real coordinator, real participants, real bytes, in rounds.

    A lost upload misses the deadline of its round. When its client takes part
    again, it first sends the same bytes again, which come too late by then.
    """

    def __init__(
        self,
        config: AlgorithmConfig,
        parts: Partition,
        seed: int,
        *,
        trainee: type[Trainee] = Trainee,
        coordinator: type[Coordinator] = Coordinator,
        width: int = HIDDEN,
    ) -> None:
        x, y = digits("train")
        self._data = [(x[rows], y[rows]) for rows in parts]
        self._test = digits("test")
        self._seed = seed
        self.model = DigitsMLP(width)
        algorithm = config.build(self.model.spec)
        self._trainer = Trainer(_no_workload(), algorithm, model=self.model)
        initial_D = initial_model(self.model, seed)
        self.coordinator = coordinator(algorithm, initial_D, epoch=EPOCH, seed=seed)
        self._nonce, self._at = 0, 0.0
        self._deadline: Timer | None = None
        self.last_reply: Reply | None = None
        self.steps: list[Stepped] = []
        self.sent, self.fetched = 0, 0  # bytes of messages up, and of patches down
        self.trainees: list[Trainee] = []
        for index in range(len(parts)):
            cid = str(index)
            self.handle(
                ClientEnrolled(at=0.0, cid=cid, name=cid, index=index, count=len(parts))
            )
            one = trainee(algorithm, ParticipantState(cid, "claims", EPOCH))
            one.derive(initial_D, self.coordinator.state.published.origin)
            self.trainees.append(one)
        self._cohorts = Key.root(seed).fold_in("cohorts").generator()

    def round(self, lost_N: npt.NDArray[np.bool_] | None = None) -> None:
        """A cohort trains, and a version is made of what arrives in time.

        ``lost_N`` says of each client whether its upload would be lost.
        """
        size = self.coordinator.algorithm.config.buffer
        cohort = self._cohorts.choice(len(self.trainees), size, replace=False)
        self._at += 1.0
        for index in cohort.tolist():
            if self.trainees[index].state.pending is not None:
                self.push(index)
            self.pull(index)
        late = False
        for index in cohort.tolist():
            sends = self.train(index)
            if sends and not (lost_N is not None and lost_N[index]):
                self.push(index)
                continue
            late = True
            if sends:
                self.trainees[index].push()
                self.trainees[index].upload_lost()
        if late:
            assert self._deadline is not None
            self.handle(TimerFired(at=self._at, timer=self._deadline))

    def show(self, data: Sequence[tuple[Any, ...]]) -> None:
        """From now on clients train on these images and labels, by index."""
        self._data = [*data]

    def pull(self, index: int) -> None:
        """A client takes over the public model, with leave to train on it."""
        self._nonce += 1
        pull = self.trainees[index].pull(self._nonce)
        self.handle(ClientPulled(at=self._at, pull=pull, fresh_epoch=""))

    def train(self, index: int) -> bool:
        """A client's local steps; says whether there is an update to send."""
        one, data = self.trainees[index], self._data[index]
        client = Client(one.state.cid, index, len(self.trainees))
        task = self._trainer.task(one.state, data, self._seed, client)
        return one.finish(*task)

    def push(self, index: int) -> None:
        """A client's message in flight arrives, and its verdict comes back."""
        push = self.trainees[index].push()
        self.sent += len(push.payload)
        self.handle(UpdatePushed(at=self._at, push=push))

    def handle(self, event: Event) -> None:
        """Something happens at the server; its answers are delivered."""
        for action in self.coordinator.handle(event):
            match action:
                case SendReply(cid=cid, reply=reply):
                    self.trainees[int(cid)].receive(reply)
                    self.last_reply = reply
                    self.fetched += reply.patch.nbytes
                case SendAck(cid=cid, ack=ack):
                    self.trainees[int(cid)].settle(ack)
                case Persist(record=Stepped() as record):
                    self.steps.append(record)
                case SetTimer(timer=timer) if timer.kind == "deadline":
                    self._deadline = timer
                case _:
                    pass

    def quality(self) -> Quality:
        """How good the public model is."""
        return self.quality_of(self.coordinator.state.published.public_D)

    def quality_of(self, model_D: Vector) -> Quality:
        """How good a model is on the test images; companions may follow it."""
        return self.model.quality(model_D[: self.model.spec.dim], *self._test)


def _no_workload() -> Workload:
    """The trainer asks for one; data and gradients come from elsewhere."""

    def unused(*_: Any) -> Any:
        raise NotImplementedError

    return Workload(initial=unused, gradient=unused, train_data=unused)
