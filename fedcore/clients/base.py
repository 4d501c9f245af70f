"""The contract of client algorithms: what a client does with one task.

``plan`` says which samples each step uses, from a seed alone. ``run`` says by which
rule the steps are taken, and what the client returns and keeps after them; its caller
takes the steps, in NumPy, in torch or in a compiled loop. All of it is plain arithmetic
along the last axis, so the same lines train one client ``(D,)`` or a stack ``(N, D)``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from types import EllipsisType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Protocol, Self

import numpy as np
from pydantic import model_validator

from fedcore.clients._batches import Batches
from fedcore.clients._override import Override
from fedcore.config import Method, OneOf
from fedcore.params import ParamSpec
from fedcore.rng import Key, Words, seeds
from fedcore.typing import Array, Counts, Indices, State, Vector

MOST_STEPS = (1 << 32) - 1  # of a task: a message says no more


class Rule(Protocol):
    """Moves the model by a gradient.

    :class:`fedcore.clients.Descent` is the rule of all variants of SGD and Adam. A
    client optimiser that is none of them brings a rule of its own; its steps are then
    not compiled.
    """

    def begin(self, w_D: Array) -> Self:
        """Returns the rule with arrays that ``step`` may write into."""

    def select(self, rows_N: Indices) -> Self:
        """Returns the rule of a stack's clients in another order."""

    def step(
        self, w_D: Array, g_D: Array, start_D: Array, rows: EllipsisType | slice
    ) -> None:
        """Takes one step.

        Args:
            w_D: the model, (D,), or of a stack those that still train; it is changed
                in place.
            g_D: their gradients, which may be written into.
            start_D: the models before the first step.
            rows: which rows of the rule's own arrays these are.
        """


class Taken(NamedTuple):
    """The result of all steps of a task."""

    delta_D: Array
    """Δ = start - w, (D,) or (N, D)."""
    loss: Array
    """It is the mean over the steps, and NaN if there were none."""
    rule: Any
    """The rule that was given, as it is after the last step."""


# (start_D, rule): takes all steps of one client, (D,), or of a stack, (N, D).
TakeSteps = Callable[[Array, Rule], Taken]


class Trained(NamedTuple):
    """The result of ``run``: the update, its loss, and the client's next state."""

    delta_D: Array
    """Δ = W - w, (D,) or (N, D), followed by those of the companions."""
    loss: Array
    """It is the mean over the steps."""
    state: State


class Run(Protocol):
    """Trains one client or a stack, and leaves its inputs untouched."""

    def __call__(
        self, start_D: Array, steps: int | Counts, take: TakeSteps, state: State
    ) -> Trained:
        """Trains, and returns the update.

        Args:
            start_D: the public model, (D,) or one a row (N, D), followed by what the
                server publishes of the companions.
            steps: how many steps there are; of a stack (N,).
            take: takes them, by a rule that it is given.
            state: what the client kept from the task before; None at first.
        """


# What tells how much a sample matters: the norm of its gradient, or an estimate of it
# that costs next to nothing, such as the norm of the gradient at the model's outputs.
Priority = Literal["gradient_norm", "estimate"]


class Drawn(NamedTuple):
    """The samples of one step."""

    rows_B: Indices
    """Some may be there more than once."""
    weights_B: Vector
    """What the gradient of each is multiplied by before their mean is taken."""


class Sampling(NamedTuple):
    """Draws the samples of each step by what the steps before have shown of them."""

    priority: Priority
    """What has to be known of each sample that is used."""
    init: Callable[[int, State], State]
    """(number of samples, what the client has kept) to the state before a task. The
    state after it is what the client keeps."""
    draw: Callable[[State, Words, int], Drawn]
    """(state, seed of the task, step) to the samples of that step."""
    learn: Callable[[State, Indices, Vector], State]
    """(state, rows (B,), their norms (B,)) to the next state."""


class ClientAlgorithm(NamedTuple):
    """Plans and takes the local steps of a task."""

    plan: Callable[[Counts, Counts, Words], Batches]
    """(samples, steps, seeds), each (N,), to the batches of each step. With a
    ``sampling`` they are those that it draws while all samples matter alike."""
    run: Run
    meet: Callable[[Array, State], tuple[Array, State]] | None = None
    """Where the steps begin with what the client has kept, and not with the model that
    it gets: (that model, what ``run`` kept) to (the update Δ, what the client keeps).
    So the steps may be taken while the message before them travels."""
    sampling: Sampling | None = None
    """Where the samples of a step depend on the steps before. ``run`` then keeps
    nothing; its clients are trained one by one."""


def meet_model(
    algorithm: ClientAlgorithm, public_D: Array, trained: Trained
) -> Trained:
    """Returns what came of a task once the model is there that its update changes.

    Args:
        algorithm: of the client.
        public_D: that model, (D,) or one a row (N, D).
        trained: what ``run`` returned.
    """
    if algorithm.meet is None:
        return trained
    delta_D, state = algorithm.meet(public_D, trained.state)
    return trained._replace(delta_D=delta_D, state=state)


class Steps(ABC):
    """The contract of a task's size: how many steps it has, and what they take."""

    @abstractmethod
    def step_count(self, samples: int, work: float = 1.0) -> int:
        """Returns how many steps a client takes.

        Args:
            samples: how many it has.
            work: the share of its full work that it is asked for.
        """

    def effort(self, steps: int) -> float:
        """Returns how many plain steps a task of this many steps stands for."""
        return float(steps)

    @property
    def fixed_steps(self) -> int | None:
        """The number of steps of a whole task; None: it depends on the samples."""
        return None

    def with_samples(self, wanted: int | None) -> Self:
        """Returns the settings for a task that uses so many samples.

        They differ where the batch, and not the number of steps, decides on that.

        Args:
            wanted: the number of samples; None: the usual one.
        """
        return self

    def steps_of(self, samples: int, work: float, wanted: int | None) -> int:
        """Returns how many steps a task has.

        Args:
            samples: how many the client has.
            work: the share that it is asked for.
            wanted: how many samples the whole task uses; None: the usual number. An
                algorithm whose steps use no certain number ignores it.
        """
        return self.step_count(samples, work)

    def used_by(self, samples: int, steps: int) -> int:
        """Returns how many samples these steps use, each as often as it is used.

        Args:
            samples: how many the client has.
            steps: how many it takes.
        """
        return samples * steps

    def in_usual_steps(self, samples: int, steps: int, wanted: int | None) -> float:
        """Returns how many steps of the usual size take as long as a task.

        Args:
            samples: how many the client has.
            steps: how many steps the task has.
            wanted: how many samples the whole task uses; None: the usual number.
        """
        return steps


class KeptState:
    """The contract of the state that a client keeps from one task to the next.

    The verdict on an update settles it: an update that is gone for good is taken back
    where ``counts_updates``.
    """

    @property
    def overlaps(self) -> bool:
        """Whether a client trains on while its message travels (``meet``).

        It keeps a local model, in which a rejected update remains; so that is not lost.
        """
        return False

    @property
    def mixes_tasks(self) -> bool:
        """Whether an update holds steps of earlier tasks, as with a kept velocity."""
        return False

    @property
    def counts_updates(self) -> bool:
        """Whether what a client keeps must be told of updates that are gone for good.

        Such a method has ``take_back``.
        """
        return False

    def fork_state(self, kept: State) -> State:
        """Returns what a client keeps when the server's history is another one."""
        return kept

    def take_back(self, kept: State, gone_D: Vector) -> State:
        """Removes a lost update from what a client keeps.

        The update neither counts nor is sent again.

        Args:
            kept: what it keeps now.
            gone_D: the update, with the companions' part.
        """
        return kept

    def personal(self, kept: State) -> Vector | None:
        """Returns the client's personal model (D,), which it evaluates as well.

        Args:
            kept: what it keeps now.

        Returns:
            None where the method has no personal models, or the client none so far.
        """
        return None


class ServerHalf:
    """The contract of what the server has for its clients beside the model."""

    @property
    def groups_by(self) -> tuple[Hashable, ...]:
        """What says which group a client is in; empty: all train on one model."""
        return ()

    @property
    def vectors(self) -> tuple[tuple[Hashable, ...], tuple[str, ...]]:
        """What another method must have as well to go on with a run of this one."""
        return self.groups_by, self.companions

    @property
    def companions(self) -> tuple[str, ...]:
        """Names of the vectors that travel beside the model, each of its shape.

        They follow the model in the flat vector: the server publishes them with it, an
        update holds what is to be subtracted from them, and codecs, error memories,
        journal and catching up treat them as tensors of the model.
        """
        return ()

    def publish(
        self, beside_D: Vector, mean_D: Vector, share: float, before: float
    ) -> Vector:
        """Returns the server's half: the companions that go with the next version.

        Only elementwise IEEE operations are used: a replay is exact on any processor.

        Args:
            beside_D: those that go with this version.
            mean_D: what the updates say of them, as the aggregator has merged them.
            share: the number of updates, divided by the number of clients that have
                ever joined to train.
            before: how many clients had joined when this version was made, as a share
                of those that have joined now.
        """
        return beside_D - mean_D


class ClientAlgorithmConfig(Steps, KeptState, ServerHalf, Method):
    """Settings of a client algorithm, which fulfil its three contracts."""

    role: ClassVar[str] = "client algorithm"
    shared: ClassVar[frozenset[str]] = frozenset({"kind", "overrides"})
    """Fields that are the same for all clients: what is sent depends on them, or the
    server's half."""
    either: ClassVar[tuple[frozenset[str], ...]] = ()
    """Groups of fields of which one is given: an override of one replaces the group."""

    overrides: tuple[Override, ...] = ()
    """Settings of some clients, by their names; the first entry that names a client
    counts for it. All that is not said there is as for the others."""
    may_choose: tuple[str, ...] = ()
    """Settings such as ``batch`` that a client may choose itself (``fedclient join
    --choose batch=8``); a client with a setting of its own in ``overrides`` as well."""

    @model_validator(mode="after")
    def _leaves_fields_alone(self) -> Self:
        free = type(self).model_fields.keys() - self.shared - {"may_choose"}
        for name in self.may_choose:
            if name not in free:
                raise ValueError(
                    f"may_choose: {name!r} cannot be left to clients; expected some of "
                    f"{', '.join(sorted(free))}"
                )
        return self

    @property
    def counts_updates(self) -> bool:
        """A client subtracts its updates from what it keeps of the companions."""
        return bool(self.companions)

    def check(self, model: ParamSpec) -> None:
        """Checks that such a model can be trained.

        Raises:
            ConfigError: it cannot; the message says why.
        """

    def frozen_parts(self, model: ParamSpec) -> tuple[slice, ...]:
        """Returns the parts of the model that the steps leave as they are.

        Raises:
            ConfigError: the settings name tensors that the model does not have.
        """
        return ()

    def at(self, version: int) -> Self:
        """Returns the settings for a task on this version of the model."""
        return self

    def rate(self, version: int) -> float:
        """Returns the learning rate of a version as a share of what is set."""
        return 1.0

    @abstractmethod
    def build(self) -> ClientAlgorithm:
        """Returns the algorithm that these settings describe."""


AnyClientAlgorithm = Annotated[ClientAlgorithmConfig, OneOf()]


def batches_of_one(
    algorithm: ClientAlgorithm, samples: int, steps: int, key: Key
) -> list[Indices]:
    """Returns the rows of each step of one client's task."""
    return algorithm.plan(np.array([samples]), np.array([steps]), seeds([key])).of(0)
