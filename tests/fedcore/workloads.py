"""A workload that is small enough to work by hand: a line through points."""

from typing import Any

import numpy as np

from fedcore.params import Tensors
from fedcore.recipes import FedAvg
from fedcore.workload import Trained, TrainingTask, Workload

X = np.array([[1.0], [2.0], [3.0], [4.0], [5.0]], np.float32)
Y = np.array([0, 1, 1, 2, 1])


def initial(rng: np.random.Generator) -> Tensors:
    """Slope and offset."""
    return {"slope": rng.standard_normal(1), "offset": np.zeros(1)}


def gradient(params: Any, x: Any, y: Any) -> tuple[float, dict[str, Any]]:
    """Of half the mean squared error."""
    off = x[:, 0] * params["slope"] + params["offset"] - y
    slope = (off * x[:, 0]).mean(keepdims=True)
    return float(np.square(off).mean() / 2), {
        "slope": slope,
        "offset": off.mean(keepdims=True),
    }


def evaluate(params: Any, x: Any, y: Any) -> dict[str, float]:
    """The loss over these rows, and how many they are."""
    return {"loss": gradient(params, x, y)[0], "rows": len(y)}


def own_loop(params: Any, data: Any, task: TrainingTask) -> Trained:
    """Full-batch gradient descent that writes into what it was given."""
    x, y = data
    for _ in range(task.steps):
        loss, slopes = gradient(params, x, y)
        for name, tensor in params.items():
            tensor -= task.lr * slopes[name]
    return Trained(params, samples=len(y), loss=loss)


def line(**functions: Any) -> Workload:
    """The workload, with some functions replaced."""
    given: dict[str, Any] = {
        "initial": initial,
        "gradient": gradient,
        "evaluate": evaluate,
        "train_data": lambda client: (X, Y),
    }
    return Workload(**(given | functions))


def with_own_loop(**functions: Any) -> Workload:
    """The same with a training loop of its own."""
    return line(**({"gradient": None, "train": own_loop} | functions))


def algorithm(workload: Workload, **settings: Any) -> Any:
    """FedAvg with some settings, for this workload's model."""
    return FedAvg.model_validate(settings).build(workload.flat().spec)
