"""Softmax regression on the digits; one of a silo's workers is late in every step.

The workers sleep instead of computing, so that more workers than cores do not disturb
one another. The first process that creates the file ``late`` in the folder
``args[folder]`` is the late one.
"""

import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.claims.throttled_app import softmax
from fedcore.params import Tensors
from fedcore.workload import Client, Workload
from fedrun.data import digits

SLOW = {"sample": 0.0, "step": 0.0}  # seconds


def gradient(params: Tensors, x: Any, y: Any) -> tuple[float, Tensors]:
    """The loss and its gradient, after as long as the worker takes."""
    time.sleep(len(y) * SLOW["sample"] + SLOW["step"])
    p, true = softmax(params, x), (np.arange(len(y)), y)
    loss = float(-np.log(p[true] + 1e-12).mean())
    p[true] -= 1
    return loss, {"w": x.T @ p / len(y)}


def train_data(client: Client) -> Any:
    """Returns all images; decides whether this worker is the late one."""
    SLOW["sample"] = float(client.args["sample"])
    late = float(client.args["late"])
    if late and is_first(Path(client.args["folder"]) / "late"):
        SLOW["step"] = late
    return digits("train")


def is_first(path: Path) -> bool:
    """Whether this process makes the file."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


workload = Workload(
    initial=lambda rng: {"w": 0.01 * rng.standard_normal((64, 10))},
    gradient=gradient,
    train_data=train_data,
)
