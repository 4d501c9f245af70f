"""The problem that a federation's app trains: the samples of all its clients."""

from collections.abc import Callable
from functools import cache

import numpy as np

from fedcore.coordinator.settings import lower_is_better
from fedcore.errors import ConfigError, NotStackableError
from fedcore.pool import Part, Pool
from fedcore.samples import ArraySamples, is_in_memory
from fedcore.training import initial_model
from fedcore.typing import Indices, Vector
from fedcore.user_code import user_code
from fedcore.workload import Workload
from fedrun.config import FederationConfig
from fedrun.evaluation import main_metric
from fedsim.population import Population
from fedstudies.staleness.training import Problem


class Goal:
    """The metric that is looked at, and the value up to which iterations count."""

    def __init__(
        self, config: FederationConfig, metric: str | None, value: float | None
    ) -> None:
        """Takes what was asked for, and otherwise ``stop.target``.

        Args:
            config: of the federation.
            metric: its name; None: that of the target, or the first one measured.
            value: of the metric; None: that of the target.

        Raises:
            ConfigError: nobody has said which value.
        """
        targets = dict(config.stop.target)
        if metric is None and value is None and len(targets) == 1:
            (metric,) = targets
        if value is None:
            value = targets.get(metric or "")
        if value is None:
            raise ConfigError(
                "--target: give the value of the metric up to which iterations are "
                "counted, or one stop.target in the config"
            )
        self.metric, self.value = metric, value

    def find_metric(self, measured: list[str]) -> str:
        """Returns the metric's name among those that are measured.

        Raises:
            ConfigError: it is not measured.
        """
        name = self.metric or main_metric(measured)
        if name is None or name not in measured:
            raise ConfigError(
                f"--metric {self.metric}: is not measured; measured: "
                f"{', '.join(measured)}"
            )
        return name


def problem_of(
    config: FederationConfig, workload: Workload, goal: Goal, app: str
) -> tuple[Callable[[int], Problem], str]:
    """Returns what every worker of the study trains: all samples of all clients.

    Args:
        config: says how many clients share the samples out (``simulate.clients``).
        workload: with the model and the data.
        goal: what is to be reached.
        app: the workload's name.

    Returns:
        The problem by seed, of which the first weights depend, and the metric's name.

    Raises:
        ConfigError: the app has no test data, or its model keeps values beside its
            weights.
        UserCodeError: the user's code raised.
    """
    if workload.test_data is None:
        raise ConfigError(f"{app}: has no test_data, on which the target is measured")
    with user_code("the model"):
        flat = workload.flat()
    with user_code("test_data"):
        test_data = workload.test_data()
    try:
        stacked = flat.stack("cpu")
    except NotStackableError as error:
        raise ConfigError(
            f"{app}: the study trains the copies of a model together: {error}"
        ) from error
    if stacked.buffers is not None or stacked.local_L is not None:
        raise ConfigError(
            f"{app}: the study is for models of weights alone; this one has batch "
            "statistics or tensors that stay on clients"
        )
    part, rows_n = _pool_samples(config, workload)
    with user_code("evaluation"):
        first, _ = flat.evaluate(initial_model(flat, config.seed), test_data)
    metric = goal.find_metric(list(first))
    sign = -1.0 if lower_is_better(metric) else 1.0

    def quality(w_D: Vector) -> float:
        with user_code("evaluation"):
            return sign * float(flat.evaluate(w_D, test_data)[0][metric])

    @cache
    def problem(seed: int) -> Problem:
        return Problem(
            stacked,
            initial_model(flat, seed),
            len(rows_n),
            lambda chosen: part.batch(rows_n[chosen]),
            quality,
            sign * goal.value,
        )

    return problem, metric


def _pool_samples(config: FederationConfig, workload: Workload) -> tuple[Part, Indices]:
    """Returns all clients' samples, and where they lie."""
    pool, population = Pool(counts_labels=False), Population(config.simulate, 0)
    for who in range(population.count):
        client = population.client(who)
        whose = f"train_data of {client.name}"
        with user_code(whose):
            samples = workload.samples(workload.train_data(client), whose)
            if not is_in_memory(samples):  # each is used very many times
                samples = ArraySamples(*samples.batch(np.arange(len(samples))))
            pool.add(who, samples)
    parts = [pool.rows_of(who) for who in range(population.count)]
    return pool.whole, np.concatenate(parts)
