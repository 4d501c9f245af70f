"""The contract of a model: one flat vector, alone or in a stack."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from fedcore.clients import Descent, Taken
from fedcore.params import ParamSpec, Rest
from fedcore.rng import Key
from fedcore.typing import Array, Counts, Indices, State, Vector

Metrics = Mapping[str, float]


class FlatModel(Protocol):
    """A model as one flat vector: what the platform trains and evaluates.

    The flat vectors that it is given begin with its D values. Companions of a client
    algorithm may follow (:attr:`fedcore.clients.ClientAlgorithmConfig.companions`).
    """

    spec: ParamSpec
    local_L: Vector | None
    """The first values of what never leaves a client; None: there is nothing."""

    advice: str
    """What its user should know, as a sentence; empty if there is nothing."""

    def initial(self, key: Key) -> Vector:
        """Returns the flat vector of version 0."""

    def rest(self) -> Rest:
        """Returns what checkpoints hold beside the flat vector."""

    def seed(self, key: Key) -> None:
        """Seeds what the model itself draws at random (dropout), for one task."""

    def gradient(self, w_D: Vector, x: Any, y: Any) -> tuple[float, Vector]:
        """Returns the mean loss over a batch, and its gradient.

        The client's local values follow the D values of the model. In the places of
        buffers the gradient holds the values that they have after the step. Its array
        is valid until the next call.
        """

    def evaluate(
        self, w_D: Vector, data: Any, local_L: Vector | None = None
    ) -> tuple[Metrics, int]:
        """Returns metrics over a data set, and its number of samples.

        Args:
            w_D: the model.
            data: the data set.
            local_L: the local values of the client that evaluates; None: the first.
        """

    def stack(self, device: str = "cpu") -> "StackedModel":
        """Returns the same model for many clients at once.

        Raises:
            NotStackableError: it can only be trained one by one; says why.
        """


@runtime_checkable
class Writer(Protocol):
    """A model that writes a text for people, such as a language model's sample."""

    def write(self, w_D: Vector) -> str:
        """Returns what the model writes; empty if there is nothing to show."""


class HasRoom(Protocol):
    """A model that has memory of its own for weights and a gradient.

    A task may train in there, so that the weights are in memory once.
    """

    room_D: Vector | None
    """The memory of the weights; the client's local values follow."""

    def difference(self, start_D: Array, end_D: Array) -> Array:
        """Returns start - end after the last step of a task.

        If ``end_D`` is the memory of the weights, it may give that back.
        """

    def free(self) -> None:
        """Gives back all memory; its values are lost."""


class _NoRoom:
    """Stands for the memory of a model that has none of its own."""

    room_D: Vector | None = None

    def difference(self, start_D: Array, end_D: Array) -> Array:
        """Returns start - end, the update of a task, shape (D,)."""
        return start_D - end_D

    def free(self) -> None:
        """Does nothing: the model keeps no memory for another task."""


NO_ROOM: HasRoom = _NoRoom()


@runtime_checkable
class EvaluatesVersion(Protocol):
    """A model whose evaluation depends on its version, and on what a client keeps."""

    def evaluate_version(
        self, w_D: Vector, data: Any, version: int, kept: State = None
    ) -> tuple[Metrics, int]:
        """Returns metrics over a data set, and its number of samples.

        Args:
            w_D: the model.
            data: the test data, or what ``valid_data`` returned for a client.
            version: of the model that is evaluated.
            kept: what the client has kept from its last task; None: it has had none,
                or no client evaluates.
        """


class Weighted(NamedTuple):
    """The gradient of a batch whose samples count for more or less."""

    loss: float
    """Σ weight·loss / B over its B samples."""
    gradient_D: Vector
    """Σ weight·gradient / B; its array is valid until the next call."""
    norms_B: Vector
    """The norm of each sample's gradient without its weight, or an estimate."""


# (w_D, x, y, weights_B): the model, inputs and targets of B samples, their weights.
WeightedGradient = Callable[[Vector, Any, Any, Vector], Weighted]


class Steps(NamedTuple):
    """All the steps that N clients take."""

    rule: Descent
    x: Any  # of all samples
    y: Any
    rows_NSB: Indices  # which of them each step uses
    sizes_NS: Counts  # how many count in each batch; 0 after a client's last one
    start_ND: Array  # one model for all may be a view whose rows are the same memory
    frozen: Sequence[slice] = ()  # the parts of the models that no step moves


class StackedModel(Protocol):
    """Computes the gradients of many models at once, each on its own batch."""

    buffers: slice | None = None
    """Which values of a model have no gradient: it holds their next values instead."""
    local_L: Vector | None = None
    """The first values of what never leaves a client; None: there is nothing."""

    @property
    def how(self) -> str:
        """The method that computes the gradients, in words for the log."""

    def seed(self, key: Key) -> None:
        """Seeds what the model itself draws at random (dropout), for one stack."""

    def gradient(
        self, w_ND: Array, x_NB: Any, y_NB: Any, sizes_N: Indices
    ) -> tuple[Array, Array]:
        """Returns the mean losses (N,) and their gradients (N, D).

        The gradients' array is valid until the next call.

        Args:
            w_ND: one model a row; rows may be the first ones of a larger stack.
            x_NB: inputs of shape (N, B, ...), or a dict or tuple of such.
            y_NB: targets, likewise.
            sizes_N: how many samples of each row count, 1 to B; what follows them is
                padding: finite, and without any effect.
        """

    def descend(self, steps: Steps) -> Taken | None:
        """Takes all steps at once; returns None if it needs gradients instead."""
