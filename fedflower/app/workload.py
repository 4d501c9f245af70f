"""A Flower app as a workload; its ClientApp's reply is a client's update."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fedcore.errors import WorkloadError
from fedcore.model import FlatModel, Metrics
from fedcore.params import Tensors
from fedcore.participant import Trained as TaskResult
from fedcore.rng import Key
from fedcore.typing import State, Vector
from fedcore.workload import (
    Client,
    LocalTask,
    LoopWorkload,
    NamedModel,
    Trained,
    TrainingTask,
)
from fedflower.app.app import FlowerApp, seed_all
from fedflower.app.folder import FlowerFolder, parse_name
from fedflower.app.messages import require_examples, require_trained
from fedflower.app.state import load_records, save_records

SMALL = 1 << 20  # values of a model, as in fedtorch


class Partition(Client):
    """The data of one client, which only the ClientApp reads."""

    def __len__(self) -> int:
        """Returns 1, because the update reports the number of examples."""
        return 1


class Central:
    """The test data that the ServerApp evaluates on."""

    def __len__(self) -> int:
        """Returns 1, because the ServerApp does not report the number of examples."""
        return 1


def partition(client: Client) -> Partition:
    """Returns the data of a client."""
    return Partition(client.name, client.index, client.count, client.args)


@dataclass(frozen=True, kw_only=True)
class FlowerWorkload(LoopWorkload):
    """A Flower app."""

    app: FlowerApp
    untested: ClassVar[str] = (
        "has no evaluate_fn in its ServerApp, so that only its clients can evaluate "
        "(evaluate: {clients: true})"
    )

    def train_task(
        self, model: FlatModel, public_D: Vector, data: Any, task: LocalTask
    ) -> TaskResult:
        """Has the app compute the update of one task, which counts as a whole one.

        The app's steps are not known, and nobody tells it how many are wanted.

        Raises:
            WorkloadError: the app's reply cannot be averaged.
        """
        found = super().train_task(model, public_D, data, task)
        steps = task.config.step_count(found.samples)
        used = task.config.used_by(found.samples, steps)
        return found._replace(steps=steps, used=used)

    def flat(self) -> "FlowerModel":
        """Returns the arrays of the model as one flat vector.

        Raises:
            WorkloadError: the ServerApp sends no model.
            ModelError: the model cannot be federated.
        """
        return FlowerModel(self)


class FlowerModel(NamedModel):
    """The arrays of a Flower app as one flat vector."""

    def __init__(self, workload: FlowerWorkload) -> None:
        self._app = workload.app
        self._layout = workload.app.layout
        self.spec = self._layout.spec
        self.local_L = None
        self.advice = ""
        torch = sys.modules.get("torch")
        is_small = self.spec.dim < SMALL and "OMP_NUM_THREADS" not in os.environ
        if torch is not None and is_small:
            torch.set_num_threads(1)  # with a small model, threads cost more

    def initial(self, key: Key) -> Vector:
        """Returns version 0: the ServerApp's first arrays, from seeded generators."""
        return self._layout.flatten(self._app.first_of(key).arrays)

    def seed(self, key: Key) -> None:
        """Seeds the global generators, for one task."""
        seed_all(key)

    def evaluate(
        self, w_D: Vector, data: Any, local_L: Vector | None = None
    ) -> tuple[Metrics, int]:
        """Evaluates a model of an unknown version, without any state."""
        return self.evaluate_version(w_D, data, 0)

    def evaluate_version(
        self, w_D: Vector, data: Any, version: int, kept: State = None
    ) -> tuple[Metrics, int]:
        """Evaluates a model at the server, or on a client's data.

        A client has the state and the arrays of its last task. Changes that the app
        then makes to ``Context.state`` are dropped.
        """
        if not isinstance(data, Partition):
            evaluate = self._app.first.evaluate
            assert evaluate is not None
            return evaluate(version, self._layout.record(w_D)), len(data)
        state, local = _read(kept)
        arrays = self._layout.record(w_D, local)
        found = self._app.evaluate(arrays, data, state, version)
        whose = f"{self._app.name}, {data.name}"
        weight = self._app.first.weight
        examples = require_examples(found.examples, "evaluate", weight, whose)
        return found.metrics, examples


_APPS: dict[tuple[Path, str], tuple[str, FlowerApp]] = {}  # and the digest of each


def load_app(
    name: str, folder: Path | None = None, *, fresh: bool = False
) -> FlowerWorkload:
    """Returns the workload of a Flower app, which a process imports once.

    Args:
        name: ``flower:FOLDER``, optionally followed by a question mark and values of
            its config.
        folder: the folder to which a relative one belongs; by default the working
            folder.
        fresh: whether to import it again if it has changed, as in a notebook.

    Raises:
        WorkloadError: it is no Flower app, or has no function for training.
        ConfigError: flwr is not installed, or too old.
    """
    path, replaced = parse_name(name, folder or Path.cwd())
    read = FlowerFolder.read(path)
    key, digest = (path, repr(sorted(replaced.items()))), read.digest()
    before, known = _APPS.get(key, ("", None))
    if known is None or (fresh and before != digest):
        if known is not None:
            read.forget()
        known = FlowerApp(read, replaced)
        _APPS[key] = digest, known
    if not known.has("train"):
        raise WorkloadError(
            f"{known.name}: the ClientApp has no function for train; expected one "
            "under @app.train()"
        )
    return flower_workload(known)


def flower_workload(app: FlowerApp) -> FlowerWorkload:
    """Returns the workload of a Flower app, whose ServerApp it runs once."""

    def initial(rng: np.random.Generator) -> Tensors:
        raise WorkloadError("the ServerApp draws version 0")

    def train(params: Tensors, data: Partition, task: TrainingTask) -> Trained:
        return _train(app, params, data, task)

    evaluates = app.first.evaluate is not None
    return FlowerWorkload(
        app=app,
        initial=initial,
        train=train,
        train_data=partition,
        valid_data=partition if app.has("evaluate") else None,
        test_data=Central if evaluates else None,
    )


def _train(
    app: FlowerApp, params: Tensors, data: Partition, task: TrainingTask
) -> Trained:
    client = task.client if task.client.name else data
    state, local = _read(task.state)
    arrays = app.layout.record_of(params, local)
    whose = f"{app.name}, {client.name}"
    answer = app.train(arrays, _with_args(client, data), state, task.version)
    found = require_trained(answer, app.first.weight, whose)
    trained = app.layout.tensors(found.arrays, f"{whose}: train returned")
    own = {**local, **app.layout.local(found.arrays)}
    kept = {"state": save_records(state), "local": own}
    return Trained(trained, found.samples, found.loss, kept, found.metrics)


def _with_args(client: Client, data: Partition) -> Client:
    """Returns the client that trains, with its data arguments."""
    return Client(client.name, data.index, data.count, data.args)


def _read(kept: Mapping[str, State] | None) -> tuple[Any, dict[str, Any]]:
    """Returns the state and the local arrays of a client's last task."""
    if not kept:
        return load_records({}), {}
    return load_records(kept["state"]), dict(kept["local"])
