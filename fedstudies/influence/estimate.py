"""Estimates how each client influenced a run, beside its repeated local steps."""

from collections.abc import Generator, Sequence
from typing import Any, Literal, NamedTuple, cast

import numpy as np

from fedcore.influence import fed_influence
from fedcore.influence.base import Product
from fedcore.influence.fed_influence import InfluenceState, Update
from fedcore.influence.fisher import SAMPLES, fisher_product
from fedcore.model import FlatModel
from fedcore.training import task_key
from fedcore.typing import Array, Vector
from fedstudies.influence.repetition import Repetition
from fedstudies.influence.schedule import AcceptedUpdate

Estimator = Literal["hessian", "fisher"]
ESTIMATORS: tuple[Estimator, ...] = ("hessian", "fisher")


class Settings(NamedTuple):
    """The estimator and its settings."""

    estimator: Estimator = "hessian"
    samples: int = SAMPLES
    """fisher: how many gradients of samples stand for a Hessian."""
    truncate: bool = False
    """Whether layers are truncated (LWET)."""
    sequential: bool = True
    """False leaves the sequential term out, for a comparison."""
    combinatorial: bool = True
    """False leaves the combinatorial term out, for a comparison."""


def estimate(
    repetition: Repetition, watched: Sequence[str], settings: Settings
) -> Generator[tuple[Vector, InfluenceState]]:
    """Yields each version's model (D,), with the estimated differences (C, D).

    Args:
        repetition: the recorded run.
        watched: the names of the C clients whose influence is estimated.
        settings: how.

    Raises:
        LatecomerError: the repeated run does not end with the recorded model.
    """
    schedule, spec = repetition.schedule, repetition.model.spec
    rows = {name: row for row, name in enumerate(watched)}
    layers = [tensor.slice for tensor in spec.tensors] if settings.truncate else []
    state = fed_influence.init(len(rows), spec.dim, max(1, len(layers)))
    w_D, oldest = schedule.initial_D, schedule.oldest_needed()
    known = {0: w_D}
    for version, tasks in enumerate(schedule.rounds):
        total, found = fed_influence.begin(state), []
        for task in tasks:
            eps_CD = fed_influence.eps_of(state, task.base)
            beside = _Beside(repetition, settings, task, eps_CD)
            model = cast(FlatModel, beside)
            trained = repetition.train(task, known[task.base], model)
            found.append(trained)
            update = Update(
                rows.get(task.client),
                task.weight,
                task.samples,
                trained.delta_D,
                beside.sigma_CD,
            )
            total = fed_influence.fold(total, update, eps_CD)
        w_D = repetition.step(w_D, tasks, found)
        state = fed_influence.close(
            state,
            total,
            server_lr=repetition.server_lr,
            layers=layers,
            sequential=settings.sequential,
            combinatorial=settings.combinatorial,
            oldest=oldest[version],
        )
        known[version + 1] = w_D
        known = {v: each for v, each in known.items() if v >= oldest[version]}
        yield w_D, state
    repetition.require_same(w_D)


class _Beside:
    """A model whose gradients move the differences along, step by step."""

    def __init__(
        self,
        repetition: Repetition,
        settings: Settings,
        task: AcceptedUpdate,
        eps_CD: Array,
    ) -> None:
        """``eps_CD`` are the differences of the version that the task begins with."""
        self._repetition, self._model = repetition, repetition.model
        self._settings, self._task = settings, task
        self._rule, self._taken = repetition.rule(task), 0
        self.sigma_CD = eps_CD

    def gradient(self, w_D: Vector, x: Any, y: Any) -> tuple[float, Vector]:
        """Returns the model's gradient; applies I - ηH to the differences."""
        if not self.sigma_CD.any():  # nobody has had any influence yet
            return self._model.gradient(w_D, x, y)
        product: Product
        if self._settings.estimator == "fisher":
            loss, g_D = self._model.gradient(w_D, x, y)
            g_D = np.array(g_D)
            product = self._fisher(w_D)
        else:
            loss, g_D, product = self._repetition.curvature.hessian(w_D, x, y)
        before_CD = self.sigma_CD
        self.sigma_CD = fed_influence.local_step(
            before_CD, product, self._rule.lr, self._rule.weight_decay
        )
        self._repetition.steepest = max(
            self._repetition.steepest, _steepest(before_CD, self.sigma_CD)
        )
        self._taken += 1
        return loss, g_D

    def _fisher(self, w_D: Vector) -> Product:
        """Returns the Fisher matrix of samples of the client's data."""
        samples = self._repetition.samples(self._task.client)
        key = task_key(0, self._task.client, self._task.seq)
        rng = key.fold_in("fisher", self._taken).generator()
        count = min(self._settings.samples, len(samples))
        rows_B = np.sort(rng.choice(len(samples), count, replace=False))
        x, y = samples.batch(rows_B)
        found_SD = self._repetition.curvature.sample_gradients(
            w_D, x, y, np.arange(count)
        )
        return fisher_product(found_SD.astype(np.float64))

    def __getattr__(self, name: str) -> Any:
        """All else is the model's."""
        return getattr(self._model, name)


def _steepest(before_CD: Array, after_CD: Array) -> float:
    """Returns the largest ‖ηHε‖ / ‖ε‖ of the clients."""
    size_C = np.linalg.norm(before_CD, axis=1)
    moved_C = np.linalg.norm(after_CD - before_CD, axis=1)
    return float(np.max(moved_C[size_C > 0] / size_C[size_C > 0], initial=0.0))
