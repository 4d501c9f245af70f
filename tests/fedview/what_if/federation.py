"""A small federation of labels, in which one client's labels are wrong."""

from pathlib import Path
from typing import Any

import numpy as np

import latecomer
from fedcore.params import Tensors
from fedcore.workload import Client, Workload
from latecomer.metrics import Accuracy

FEATURES, CLASSES, CLIENTS = 6, 3, 5
HARMFUL = "client-3"


def samples(seed: int, count: int = 60) -> tuple[Any, Any]:
    """Points around a centre for each class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, count)
    centres = 1.5 * np.eye(CLASSES, FEATURES)
    return (centres[y] + 0.5 * rng.standard_normal((count, FEATURES))).astype(
        np.float32
    ), y


def train_data(client: Client) -> tuple[Any, Any]:
    x, y = samples(client.index + 1)
    return x, (y + 1) % CLASSES if client.index == 3 else y


def scores(params: Tensors, x: Any) -> Any:
    return x @ params["w"] + params["b"]


def gradient(params: Tensors, x: Any, y: Any) -> tuple[float, Tensors]:
    z = scores(params, x)
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    rows = np.arange(len(y))
    loss = float(-np.log(p[rows, y]).mean())
    p[rows, y] -= 1
    p /= len(y)
    return loss, {"w": x.T @ p, "b": p.sum(0)}


def loss(output: Any, target: Any) -> float:
    z = output - output.max(1, keepdims=True)
    picked = z[np.arange(len(target)), target]
    return float((np.log(np.exp(z).sum(1)) - picked).mean())


def workload(**changes: Any) -> Workload:
    """Softmax regression; ``changes`` replace its functions."""
    given: dict[str, Any] = {
        "initial": lambda rng: {
            "w": np.zeros((FEATURES, CLASSES)),
            "b": np.zeros(CLASSES),
        },
        "gradient": gradient,
        "predict": scores,
        "metrics": {"loss": loss, "accuracy": Accuracy()},
        "train_data": train_data,
        "test_data": lambda: samples(0, 200),
    }
    return Workload(**{**given, **changes})


APP = """
from tests.fedview.what_if.federation import workload as make
workload = make()
untested = make(test_data=None)
"""


def simulated(folder: Path, **changes: Any) -> Path:
    """Simulates the federation with an exact engine, which keeps the updates."""
    config: dict[str, Any] = {
        "algorithm": {
            "kind": "fed_buff",
            "buffer": 2,
            "client": {"kind": "local_sgd", "lr": 0.3, "steps": 4, "batch": 16},
        },
        "stop": {"versions": 12},
        "simulate": {"clients": CLIENTS, "engine": {"kind": "exact"}},
    }
    for section, fields in changes.items():
        config[section] = {**config.get(section, {}), **fields}
    latecomer.run(config, workload(), folder=folder)
    return folder
