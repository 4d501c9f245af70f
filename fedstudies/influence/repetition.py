"""Trains the tasks of a recorded run again, with or without a client.

The tasks follow from the data, the recorded order and the seed of the run, so the
repeated run ends with the recorded model.
"""

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedcore.clients import LocalSGD
from fedcore.errors import ConfigError, LatecomerError
from fedcore.influence.base import Curvature
from fedcore.model import FlatModel
from fedcore.participant import Trained
from fedcore.rng import Key
from fedcore.samples import Samples
from fedcore.server_optimizers import SGD
from fedcore.training import Trainer, task_key
from fedcore.typing import Array, Indices, Vector
from fedcore.user_code import user_code
from fedcore.workload import Workload
from fedstudies.influence.allowed import (
    require_auditable,
    require_curved,
    require_smooth,
)
from fedstudies.influence.schedule import AcceptedUpdate, Schedule

TOLERANCE = 1e-3  # of the distance that the run covered
PARTS, FEWEST = 10, 2  # of the test data, and how many samples each has at least


class _Own(NamedTuple):
    """A client's data."""

    data: Any
    samples: Samples


def _shuffle(count: int) -> Indices:
    return Key.root(0).fold_in("parts").generator().permutation(count)


class Repetition:
    """The tasks of a schedule, with the workload that trains them."""

    def __init__(self, workload: Workload, schedule: Schedule) -> None:
        """Builds the model.

        Args:
            workload: of the recorded run.
            schedule: who trained what.

        Raises:
            ConfigError: the run cannot be audited; the message says why.
        """
        config = schedule.config.algorithm
        require_auditable(config)
        assert isinstance(config.server, SGD)
        self.workload, self.schedule = workload, schedule
        self.server_lr = config.server.lr
        with user_code("the model"):
            self.model: FlatModel = workload.flat()
        require_smooth(self.model)
        self.model.spec.require(schedule.spec, "the recorded run")
        self.curvature: Curvature = workload.curvature(self.model)
        self._algorithm = config.build(self.model.spec)
        self._trainer = self._trainer_of(self.model)
        self._own: dict[str, _Own] = {}
        self._test: Any = None
        self._parts: list[Any] | None = None
        self.steepest = 0.0
        """The largest ‖ηHε‖ / ‖ε‖ of a local step so far: curvature times rate."""

    def _trainer_of(self, model: FlatModel) -> Trainer:
        return Trainer(self.workload, self._algorithm, model=model, share_labels=False)

    def rule(self, task: AcceptedUpdate) -> LocalSGD:
        """Returns the settings of a task's steps."""
        own = self._algorithm.clients.of(task.client).at(task.base)
        assert isinstance(own, LocalSGD)
        return own

    def samples(self, client: str) -> Samples:
        """Returns the samples of a client, by its name."""
        return self._own_of(client).samples

    def _own_of(self, client: str) -> _Own:
        if client not in self._own:
            whose = f"train_data of {client}"
            with user_code(whose):
                data = self.workload.train_data(self.schedule.clients[client])
                self._own[client] = _Own(data, self.workload.samples(data, whose))
        return self._own[client]

    def train(
        self, task: AcceptedUpdate, start_D: Vector, model: FlatModel | None = None
    ) -> Trained:
        """Takes the steps of a task.

        Args:
            task: the one to repeat.
            start_D: the model that it begins with.
            model: computes the gradients; None: the workload's own.
        """
        own, config, work = self._own_of(task.client), self.rule(task), 1.0
        while config.step_count(len(own.samples), work) > task.steps > 0:
            work /= 2  # as a client does whose updates were too late
        trainer = self._trainer if model is None else self._trainer_of(model)
        return trainer.train(
            start_D,
            own.data,
            task_key(self.schedule.config.seed, task.client, task.seq),
            work=work,
            version=task.base,
            client=self.schedule.clients[task.client],
        )

    def step(
        self, w_D: Vector, tasks: Sequence[AcceptedUpdate], found: Sequence[Trained]
    ) -> Vector:
        """Returns the next version, from the updates of these tasks.

        Args:
            w_D: the newest version.
            tasks: those that are in the next one; none: it stays as it is.
            found: what they came to.
        """
        if not tasks:
            return w_D
        sum_D, samples = np.zeros_like(w_D), 0.0
        for task, trained in zip(tasks, found, strict=True):
            sum_D += trained.delta_D * np.float32(task.weight * task.samples)
            samples += task.samples
        return w_D - np.float32(self.server_lr) * (sum_D / np.float32(samples))

    def without(self, *clients: str) -> Generator[Vector]:
        """Yields the models of all versions of a run in which clients are missing.

        The other clients have the same batches, and their updates the same weights. A
        version whose updates all came from missing clients repeats the one before.

        Args:
            clients: their names.
        """
        w_D, known = self.schedule.initial_D, {0: self.schedule.initial_D}
        oldest = self.schedule.oldest_needed()
        for version, tasks in enumerate(self.schedule.rounds):
            others = [task for task in tasks if task.client not in clients]
            found = [self.train(task, known[task.base]) for task in others]
            w_D = self.step(w_D, others, found)
            known[version + 1] = w_D
            known = {v: each for v, each in known.items() if v >= oldest[version]}
            yield w_D

    def evaluate(self, w_D: Array) -> dict[str, float]:
        """Returns the metrics of a model on the test data.

        Raises:
            ConfigError: there are none.
        """
        return self._measure(w_D, self._test_data())

    def evaluate_parts(self, w_D: Array) -> list[dict[str, float]]:
        """Returns the metrics on each tenth of the test data; empty if they are few."""
        if self._parts is None:
            samples = self.workload.samples(self._test_data(), "test_data")
            self._parts = []
            if len(samples) >= PARTS * FEWEST:
                with user_code("test_data"):
                    self._parts = [
                        samples.batch(rows)
                        for rows in np.array_split(_shuffle(len(samples)), PARTS)
                    ]
        return [self._measure(w_D, part) for part in self._parts]

    def _measure(self, w_D: Array, data: Any) -> dict[str, float]:
        with user_code("evaluation"):
            values, _ = self.model.evaluate(w_D.astype(np.float32), data)
        return {name: float(value) for name, value in values.items()}

    def _test_data(self) -> Any:
        if self._test is None:
            if self.workload.test_data is None:
                raise ConfigError(
                    "influence: the workload has no test_data=, on which the influence "
                    "is measured"
                )
            with user_code("test_data"):
                self._test = self.workload.test_data()
        return self._test

    def require_curved(self) -> None:
        """Checks that the products with the Hessian match the gradients.

        Raises:
            ModelError: they do not.
        """
        samples = self.samples(next(iter(self.schedule.clients)))
        require_curved(self.curvature, self.schedule.initial_D, samples)

    def require_same(self, w_D: Vector) -> None:
        """Checks that a model is the recorded one.

        Raises:
            LatecomerError: it is another.
        """
        last_D = self.schedule.last_D
        apart = float(np.linalg.norm(w_D - last_D))
        covered = float(np.linalg.norm(last_D - self.schedule.initial_D))
        if not apart <= TOLERANCE * covered:
            raise LatecomerError(
                f"influence: the repeated run ends {apart:.3g} away from the recorded "
                f"model, which is {covered:.3g} away from its first version; the audit "
                "needs the app, data and seed of the run, and data that do not change "
                "from task to task"
            )
