"""The contract of a workload: what the platform asks of what a user has written."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, overload

import numpy as np

from fedcore.algorithm import Algorithm
from fedcore.clients import Priority
from fedcore.errors import ConfigError, WorkloadError
from fedcore.evaluation import MetricsOf
from fedcore.influence.base import Curvature
from fedcore.model import FlatModel, Metrics, WeightedGradient
from fedcore.params import Tensors
from fedcore.participant import Trained as TaskResult
from fedcore.samples import Collate, Samples, as_samples
from fedcore.typing import Vector
from fedcore.workload.client_algorithm import run_client_algorithm
from fedcore.workload.curvature import FiniteDifferences
from fedcore.workload.task import Client, LocalTask
from fedcore.workload.training_task import Trained, TrainingTask
from fedcore.workload.weighted import one_sample_at_a_time

Initial = Callable[[np.random.Generator], Tensors]
Gradient = Callable[[Tensors, Any, Any], tuple[float, Tensors]]
Train = Callable[[Tensors, Any, TrainingTask], Trained]
Evaluate = Callable[[Tensors, Any, Any], Metrics]
Predict = Callable[[Tensors, Any], Any]
ClientData = Callable[[Client], Any]
TestData = Callable[[], Any]
ONE_WAY = "a workload has exactly one of gradient= and train="


@dataclass(frozen=True, kw_only=True, init=False)
class Workload:
    """A model, how it is trained and evaluated, and data.

    The same object serves the client, the evaluator and the simulator. Give exactly one
    of ``gradient`` and ``train``: with gradients the platform runs the recipe's client
    algorithm; with a training loop of your own (Lightning, scikit-learn, JAX, anything)
    you return the trained parameters.

    Args:
        initial: ``initial(rng)`` returns the named arrays of version 0.
        gradient: ``gradient(params, x, y)`` returns (mean loss, named gradients).
        train: ``train(params, data, task)`` returns ``Trained``.
        evaluate: ``evaluate(params, x, y)`` returns metrics such as
            ``{"loss": 0.3, "accuracy": 0.9}``. It is called once, with all samples.
        predict: ``predict(params, x)`` returns the outputs for a batch, in place of
            ``evaluate``, where the samples do not fit into memory together.
        metrics: of outputs and targets, for ``predict``: a function that returns
            numbers by name and sees all outputs, a metric of :mod:`fedcore.metrics`,
            or several of them by name.
        collate: ``collate(samples)`` makes a batch (x, y) of a list of samples of a
            map-style data set, such as by padding them. Without it samples are pairs
            (x, y) of one shape, which are stacked. ``train`` makes its own batches.
        train_data: ``train_data(client)`` returns (x, y), a ``Subset`` of arrays or a
            map-style data set; for ``train``, data in any form that has a length.
        valid_data: the same for a client's own evaluation.
        test_data: ``test_data()`` returns the evaluator's data.

    Raises:
        WorkloadError: both or none of ``gradient`` and ``train`` are given, or more
            than one way to evaluate.
    """

    train_data: ClientData
    valid_data: ClientData | None = None
    test_data: TestData | None = None

    untested: ClassVar[str] = "has no test_data= to evaluate on"
    """What is said of a workload without test data, after its name."""

    _kinds: ClassVar[dict[str, type["Workload"]]] = {}
    """What ``Workload(...)`` makes, by the function that is given."""

    def __init_subclass__(cls, made_for: str = "", **others: Any) -> None:
        """Registers a subclass as what ``Workload(...)`` makes for this function."""
        super().__init_subclass__(**others)
        if made_for:
            cls._kinds[made_for] = cls

    @overload
    def __new__(
        cls,
        *,
        initial: Initial,
        gradient: Gradient,
        train: None = None,
        evaluate: Evaluate | None = None,
        predict: Predict | None = None,
        metrics: MetricsOf = None,
        collate: Collate | None = None,
        train_data: ClientData,
        valid_data: ClientData | None = None,
        test_data: TestData | None = None,
    ) -> "Workload": ...

    @overload
    def __new__(
        cls,
        *,
        initial: Initial,
        gradient: None = None,
        train: Train,
        evaluate: Evaluate | None = None,
        predict: Predict | None = None,
        metrics: MetricsOf = None,
        collate: Collate | None = None,
        train_data: ClientData,
        valid_data: ClientData | None = None,
        test_data: TestData | None = None,
    ) -> "Workload": ...

    def __new__(
        cls, *given: Any, gradient: Any = None, train: Any = None, **others: Any
    ) -> "Workload":
        """Makes the kind of workload that is trained by the function given."""
        if cls is Workload:
            if given:
                raise WorkloadError("Workload(...) takes its functions by name alone")
            if (gradient is None) == (train is None):
                raise WorkloadError(ONE_WAY)
            cls = cls._kinds["train" if gradient is None else "gradient"]
        elif cls.__init__ is object.__init__:
            raise WorkloadError(
                f"{cls.__name__} is a subclass of Workload without an __init__; make "
                "it one of GradientWorkload or LoopWorkload in fedcore.workload"
            )
        return super().__new__(cls)

    def flat(self) -> FlatModel:
        """Returns the model as one flat vector.

        Raises:
            UserCodeError: the user's function that makes it raised.
            WorkloadError: a subclass does not say how it is made.
        """
        raise WorkloadError(
            f"{type(self).__name__} has no flat(), which returns its model as one flat "
            "vector; make it one of GradientWorkload or LoopWorkload in "
            "fedcore.workload, or write flat()"
        )

    def on(self, device: str) -> "Workload":
        """Returns the same workload on another device.

        Args:
            device: ``cpu``, ``cuda``, ``mps`` or ``auto``.

        Raises:
            ConfigError: the workload's functions say themselves where they compute,
                and it is another device than ``cpu``.
        """
        if device in ("auto", "cpu"):
            return self
        raise ConfigError(
            f"device {device}: this workload's own functions say where they compute; "
            "only a TorchWorkload can be told"
        )

    def samples(self, data: Any, whose: str) -> Samples:
        """Returns the rows of what one of the data functions returned.

        Args:
            data: what it returned.
            whose: the function, for messages.

        Raises:
            WorkloadError: these are no samples.
        """
        return as_samples(data, whose)

    def fits(self, algorithm: Algorithm) -> None:
        """Checks that the workload can be trained with this algorithm.

        Raises:
            ConfigError: it cannot; the message says why.
        """

    def train_task(
        self, model: FlatModel, public_D: Vector, data: Any, task: LocalTask
    ) -> TaskResult:
        """Computes the update of one task.

        Args:
            model: the workload's, from :meth:`flat`.
            public_D: the model that the task begins with, shape (D,).
            data: what ``train_data`` returned for the client.
            task: what else the result depends on.

        Raises:
            WorkloadError: the data are no samples, or there are none.
        """
        samples = self.samples(data, "train_data")
        return run_client_algorithm(
            model, public_D, samples, task, self.weighted_gradient
        )

    def weighted_gradient(
        self, model: FlatModel, priority: Priority
    ) -> WeightedGradient:
        """Returns a function that computes gradients of samples that have weights.

        Client algorithms ask for it whose samples count for more or less. By default
        it asks for the gradient of one sample after the other.

        Args:
            model: the workload's, from :meth:`flat`.
            priority: which norms it returns beside the gradient.

        Raises:
            ConfigError: the workload cannot tell these norms; the message says why.
        """
        if priority == "gradient_norm":
            return one_sample_at_a_time(model)
        raise ConfigError(
            "algorithm.client: priority estimate takes the gradients at the model's "
            "outputs, and this workload's functions give those of its parameters "
            "alone; use priority: gradient_norm, or a TorchWorkload"
        )

    def curvature(self, model: FlatModel) -> Curvature:
        """Returns the first and second derivatives of the model's loss.

        By default the second ones are differences of gradients.

        Args:
            model: the workload's, from :meth:`flat`.

        Raises:
            ConfigError: the workload has no gradients; the message says why.
        """
        return FiniteDifferences(model.gradient)
