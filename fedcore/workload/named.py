"""Workloads of functions that take and return named arrays."""

from collections.abc import Mapping
from dataclasses import InitVar, dataclass
from typing import Any

import numpy as np

from fedcore.errors import NotStackableError, WorkloadError
from fedcore.evaluation import MetricsOf, measure, number, numbers
from fedcore.model import FlatModel, Metrics, StackedModel
from fedcore.params import NO_REST, ParamSpec, Rest, Tensors
from fedcore.remembered import Memory, Part, global_draws
from fedcore.rng import Key, seed_global
from fedcore.samples import (
    Collate,
    Samples,
    as_samples,
    describe,
    evaluation_data,
    join_rows,
)
from fedcore.typing import Vector
from fedcore.user_code import user_code
from fedcore.workload.base import (
    ONE_WAY,
    Evaluate,
    Gradient,
    Initial,
    Predict,
    Workload,
)


@dataclass(frozen=True, kw_only=True)
class NamedWorkload(Workload):
    """The base of workloads of functions, whichever of them trains."""

    initial: Initial
    evaluate: Evaluate | None = None
    predict: Predict | None = None
    metrics: MetricsOf = None
    collate: Collate | None = None

    def _check(self, other: object) -> None:
        """Checks that there is one way to train, and at most one to evaluate.

        Args:
            other: the function by which another kind of workload is trained.

        Raises:
            WorkloadError: there are more.
        """
        if other is not None:
            raise WorkloadError(ONE_WAY)
        if (self.predict is None) != (self.metrics is None):
            raise WorkloadError("predict= and metrics= are given together")
        if self.evaluate is not None and self.predict is not None:
            raise WorkloadError("a workload has one of evaluate= and predict=")

    def samples(self, data: Any, whose: str) -> Samples:
        """Returns the rows of arrays, or of a map-style data set."""
        return as_samples(data, whose, self.collate)


@dataclass(frozen=True, kw_only=True)
class GradientWorkload(NamedWorkload, made_for="gradient"):
    """Named arrays that the platform trains with the user's gradients."""

    gradient: Gradient
    train: InitVar[None] = None

    def __post_init__(self, train: None) -> None:
        """Checks the functions."""
        self._check(train)

    def flat(self) -> FlatModel:
        """Returns the named arrays as one flat vector."""
        return NamedModel(self, self.gradient)


class NamedModel:
    """A flat view of a workload whose functions take and return named arrays."""

    def __init__(self, workload: NamedWorkload, gradient: Gradient) -> None:
        self._workload, self._gradient = workload, gradient
        self.spec = ParamSpec.of(self._draw(np.random.default_rng(0)))
        self.local_L: Vector | None = None
        self.advice = ""
        remedy = "make it one of the arrays"
        self._memory = Memory([Part("gradient", gradient, "what it remembers", remedy)])

    def _draw(self, rng: np.random.Generator) -> Tensors:
        with user_code("initial"):
            return self._workload.initial(rng)

    def initial(self, key: Key) -> Vector:
        """Draws the flat vector of version 0."""
        return self.spec.flatten(self._draw(key.generator()))

    def rest(self) -> Rest:
        """Returns nothing, since all named arrays are trained."""
        return NO_REST

    def seed(self, key: Key) -> None:
        """Seeds the global generators of Python and NumPy, for one task."""
        seed_global(key)

    def gradient(self, w_D: Vector, x: Any, y: Any) -> tuple[float, Vector]:
        """Returns the mean loss over a batch, and its gradient (D,).

        Raises:
            WorkloadError: the function's results depend on what it remembers, or are
                something else.
        """
        look = self._memory.begin(global_draws)
        loss, g_D = self._compute(self._gradient, w_D, x, y)
        if look is not None:

            def again(parts: Any, is_other: bool) -> list[float]:
                given = (_other(x), _other(y)) if is_other else (x, y)
                return _fingerprint(*self._compute(parts[0], w_D, *given))

            look.end(_fingerprint(loss, g_D), again)
        return loss, g_D

    def _compute(
        self, gradient: Gradient, w_D: Vector, x: Any, y: Any
    ) -> tuple[float, Vector]:
        found = gradient(self.spec.unflatten(w_D), x, y)
        if not isinstance(found, tuple | list) or len(found) != 2:
            raise WorkloadError(
                f"gradient returned {describe(found)}; expected (loss, gradients by "
                "name)"
            )
        loss, gradients = found
        return (
            number("the loss that gradient returned", loss),
            self.spec.flatten(gradients, "what gradient returned"),
        )

    def evaluate(
        self, w_D: Vector, data: Any, local_L: Vector | None = None
    ) -> tuple[Metrics, int]:
        """Returns the metrics of a whole data set, and the number of its samples."""
        work = self._workload
        params = self.spec.unflatten(w_D)
        samples = as_samples(data, "the evaluation data", work.collate)
        if work.evaluate is not None:
            everything = samples.batch(np.arange(len(samples)))
            return numbers("", work.evaluate(params, *everything)), len(samples)
        if work.predict is None:
            raise WorkloadError(
                "this workload cannot be evaluated: it has neither evaluate= nor "
                "predict= and metrics="
            )
        predict = work.predict
        outputs = ((predict(params, x), y) for x, y in evaluation_data(samples))
        return measure(work.metrics, outputs, join_rows), len(samples)

    def stack(self, device: str = "cpu") -> StackedModel:
        """Refuses: functions of named arrays see one client at a time."""
        raise NotStackableError(
            "a workload of gradient= or train= functions sees one client at a time"
        )


def _fingerprint(loss: float, g_D: Vector) -> list[float]:
    """Returns the numbers by which two results of a step are compared."""
    return [loss, float(np.linalg.norm(g_D))]


def _other(values: Any) -> Any:
    """Returns other values of the same shapes; whole numbers in the same range."""
    if isinstance(values, Mapping):
        return {name: _other(part) for name, part in values.items()}
    if isinstance(values, tuple):
        return tuple(map(_other, values))
    array = np.asarray(values)
    return array * 0.5 + 1 if array.dtype.kind == "f" else array[::-1]
