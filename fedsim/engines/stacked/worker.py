"""A worker that computes tasks in another process or on another machine."""

import pickle
import sys
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fedcore.algorithm import AlgorithmConfig
from fedcore.errors import ConfigError
from fedcore.memory import keep
from fedcore.pool import Pool
from fedcore.samples import ArraySamples, Samples, Subset
from fedcore.typing import Counts, Indices, Vector
from fedcore.user_code import Failure, user_code
from fedcore.workload import Client, Workload
from fedrun.app import load_app
from fedrun.methods import Source, load_source
from fedrun.user_files import PREFIX
from fedsim.engines.stacked.compute import Base, Computed, Computer, Task
from fedsim.engines.stacked.trial import try_here

# A stack makes and drops arrays of megabytes at each step. To return their pages to the
# system and get them back would cost page faults: a fifth of the time of small models.
KEPT = 1 << 28  # bytes


class Share(NamedTuple):
    """Tasks, with the data that their worker does not have yet."""

    tasks: list[Task]
    models: dict[Base, Vector]
    """Models by version and group; of earlier ones, the worker keeps those in use."""
    samples: dict[int, Any]
    """Clients' samples: (x, y), rows of the arrays that all share, or the number of
    samples that the worker is to read itself."""
    most: int
    """The maximum number of tasks that are trained together."""
    arrays: Any = None
    """The shared arrays, (x, y), in the first share."""


class Trial(NamedTuple):
    """A client whose data and one gradient are to be tried."""

    client: int


class TrialReply(NamedTuple):
    """The result of a trial, in a form that another process can send."""

    is_read: bool
    failure: Failure | None
    """The error of one step of training; None if it worked."""


Reply = Computed | TrialReply | Failure


@dataclass(frozen=True)
class Blueprint:
    """Plain data from which a worker is made on any machine."""

    workload: Workload | str
    """The workload itself, or the name under which it is found."""
    methods: tuple[Source, ...]
    """The files of the user's own methods."""
    algorithm: bytes
    """Pickled settings, which are loaded after those files were imported."""
    clients: list[Client]
    seed: int
    device: str
    count_labels: bool


class Worker:
    """Computes shares of the tasks."""

    def __init__(self, blueprint: Blueprint) -> None:
        """Loads the workload and makes the model.

        Raises:
            WorkloadError: the workload cannot be used here.
        """
        keep(KEPT, KEPT)
        workload = blueprint.workload
        if isinstance(workload, str):
            workload = load_app(workload)
        for source in blueprint.methods:
            load_source(source)
        config: AlgorithmConfig = pickle.loads(blueprint.algorithm)  # noqa: S301 -- ours
        model = workload.flat()
        self._workload, self._clients = workload, blueprint.clients
        self._pool, self._model = Pool(), model
        self._stacked = model.stack(blueprint.device)
        self._computer = Computer(
            self._stacked,
            config.build(model.spec),
            self._pool,
            [client.name for client in blueprint.clients],
            seed=blueprint.seed,
            count_labels=blueprint.count_labels,
        )
        self._models: dict[Base, Vector] = {}
        self._shared: Any = None

    def answer(self, share: Share | Trial, arrays: Any = None) -> Reply:
        """Returns the result of a share or a trial; its arrays may be separate."""
        try:
            if isinstance(share, Trial):
                return self._try(share.client)
            return self._compute(share, share.arrays or arrays)
        except BaseException as error:  # noqa: BLE001 -- sent, and raised there
            return Failure.of(error)

    def _compute(self, share: Share, arrays: Any) -> Computed:
        if arrays is not None:
            self._shared = arrays
        for client, given in share.samples.items():
            self._pool.add(client, self._samples(client, given))
        needed = {task.base for task in share.tasks}
        known = self._models | share.models
        self._models = {base: known[base] for base in needed}
        found = self._computer.compute(share.tasks, self._models, share.most)
        for stack, _ in found.places:
            stack.let_go()
        return found

    def _try(self, client: int) -> TrialReply:
        is_read, error = try_here(
            self._stacked, self._model, self._workload, self._clients[client]
        )
        return TrialReply(is_read, None if error is None else Failure.of(error))

    def _samples(self, client: int, given: Any) -> Samples:
        if isinstance(given, int):
            return _Own(self._workload, self._clients[client], given)
        if isinstance(given, np.ndarray):
            x, y = self._shared
            return Subset(x, y, given)
        x, y = given
        return ArraySamples(x, y)


@dataclass(frozen=True)
class _Own:
    """A client's data set, which this process reads when it is first needed."""

    workload: Workload
    client: Client
    count: int

    def __len__(self) -> int:
        return self.count

    def batch(self, rows: Indices) -> tuple[Any, Any]:
        return self._samples.batch(rows)

    def label_counts(self, rows: Indices) -> Counts | None:
        return self._samples.label_counts(rows)

    @cached_property
    def _samples(self) -> Samples:
        whose = f"train_data of {self.client.name}"
        with user_code(whose):
            return self.workload.samples(self.workload.train_data(self.client), whose)


def find_name(workload: Workload) -> str | None:
    """Returns a name, module:attribute, by which other processes find a workload."""
    for name, module in list(sys.modules.items()):
        if name in ("__main__", "__mp_main__"):
            continue
        for attribute, value in list(getattr(module, "__dict__", {}).items()):
            if value is workload:
                return f"{_place(name)}:{attribute}"
    return None


def _place(name: str) -> str:
    """Returns the path of an app that was loaded from a file, or the module's name."""
    module = sys.modules[name]
    spec = getattr(module, "__spec__", None)
    if name.startswith(PREFIX) and spec is not None:
        return str(spec.origin)
    return name


def portable(workload: Workload) -> Workload | str:
    """Returns a value from which another process makes the same workload.

    Raises:
        ConfigError: it is in no module, and cannot be pickled.
    """
    name = find_name(workload)
    if name is not None:
        return name
    try:
        pickle.dumps(workload)
    except Exception as error:
        raise ConfigError(
            f"simulate.engine.processes: other processes cannot get this workload "
            f"({error}); make it a variable of a module, or of functions of a module "
            "instead of lambdas and functions inside functions"
        ) from error
    return workload


def portable_settings(config: AlgorithmConfig) -> bytes:
    """Returns the settings in a form that another process can load.

    Raises:
        ConfigError: a method is in no module that another process could import.
    """
    is_notebook = not hasattr(sys.modules.get("__main__"), "__file__")
    for method in config.parts():
        if is_notebook and type(method).__module__ == "__main__":
            raise ConfigError(
                f"simulate.engine: other processes cannot import {method.role} "
                f"{method.kind}, which this notebook defines; write it to a file, and "
                "name that in methods:"
            )
    try:
        return pickle.dumps(config)
    except Exception as error:
        raise ConfigError(
            f"simulate.engine: other processes cannot get the algorithm ({error}); "
            "define its methods at the top of a module"
        ) from error
