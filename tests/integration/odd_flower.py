"""An app as a user of Flower writes it: plain torch or NumPy, and arrays by name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from benchmarks.flower.virtual_grid import VirtualGrid, VirtualTime
from fedcore.training import initial_model
from fedcore.workload import NOBODY, Trained, TrainingTask, Workload
from fedflower.mod import compressed
from fedflower.strategy import Latecomer
from fedrun.files import complete
from fedtorch import TorchWorkload
from fedtorch.tensors import to_targets, to_tensor
from fedview.results import Results

LR, STEPS = 0.1, 2


def inside_flower(
    app: Workload, config: Mapping[str, Any], nodes: int, folder: Path
) -> Results:
    """Runs an app inside Flower, by our strategy."""
    user: Any = Torch(app) if isinstance(app, TorchWorkload) else Named(app)
    clients = ClientApp(mods=[compressed])

    def train(message: Message, context: Any) -> Message:
        arrays, samples = user.train(message.content["arrays"])
        metrics = MetricRecord({"num-examples": samples})
        content = RecordDict({"arrays": record(arrays), "metrics": metrics})
        return Message(content, reply_to=message)

    clients.train()(train)
    model = app.flat()
    first = complete(model.spec.unflatten(initial_model(model, 0)), model.rest())
    grid = VirtualGrid(clients, VirtualTime(), list(range(1, nodes + 1)))
    strategy = Latecomer(
        config["algorithm"], journal=folder / "flower", evaluate_nodes=False
    )
    strategy._clock = lambda start: grid.clock
    versions = config["stop"]["versions"]
    strategy.start(
        grid, record(first), versions, evaluate_fn=lambda _, arrays: user.test(arrays)
    )
    return Results(folder / "flower")


def record(arrays: Mapping[str, Any]) -> ArrayRecord:
    return ArrayRecord({name: Array(np.asarray(a)) for name, a in arrays.items()})


class Torch:
    """A module, trained by plain torch."""

    def __init__(self, app: TorchWorkload) -> None:
        self._app = app

    def _loaded(self, arrays: ArrayRecord) -> torch.nn.Module:
        module = self._app.model()
        state = {name: torch.tensor(a.numpy()) for name, a in arrays.items()}
        module.load_state_dict(state)
        return module

    def train(self, arrays: ArrayRecord) -> tuple[dict[str, Any], int]:
        module, data = self._loaded(arrays), self._app.train_data(NOBODY)
        trained = [p for p in module.parameters() if p.requires_grad]
        for _ in range(STEPS):
            loss = self._app.loss(module(to_tensor(data[0])), to_targets(data[1]))
            slopes = torch.autograd.grad(loss, trained)
            with torch.no_grad():
                for parameter, slope in zip(trained, slopes, strict=True):
                    parameter.sub_(LR * slope)
        state = module.state_dict()
        return {name: tensor.numpy() for name, tensor in state.items()}, len(data[1])

    def test(self, arrays: ArrayRecord) -> dict[str, Any]:
        app, module = self._app, self._loaded(arrays).eval()
        assert app.test_data is not None
        x, y = app.test_data()
        target, metrics = to_targets(y), app.metrics
        with torch.no_grad():
            output = module(to_tensor(x))
            found: dict[str, Any] = {"loss": app.loss(output, target)}
            if isinstance(metrics, dict):
                for name, metric in metrics.items():
                    metric.reset()
                    metric.update(output, target)
                    found[name] = metric.compute()
            elif metrics is not None:
                kind: Any = type(metrics)
                fresh: Any = metrics if kind.__name__ == "function" else kind()
                found |= fresh(output, target)
        return found


class Named:
    """Named arrays, trained by the functions of an app."""

    def __init__(self, app: Workload) -> None:
        self._app: Any = app

    def train(self, arrays: ArrayRecord) -> tuple[dict[str, Any], int]:
        params = {name: array.numpy().copy() for name, array in arrays.items()}
        data = self._app.train_data(NOBODY)
        if self._app.gradient is None:
            task = TrainingTask(seed=0, steps=STEPS, lr=LR, batch=64)
            done: Trained = self._app.train(params, data, task)
            return dict(done.params), int(done.samples)
        for _ in range(STEPS):
            _, slopes = self._app.gradient(params, *data)
            for name in params:
                step = params[name] - LR * slopes[name]
                params[name] = np.asarray(step, np.float32)
        return params, len(data[1])

    def test(self, arrays: ArrayRecord) -> dict[str, Any]:
        params = {name: array.numpy() for name, array in arrays.items()}
        found: dict[str, Any] = self._app.evaluate(params, *self._app.test_data())
        return found
