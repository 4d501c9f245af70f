"""The small NumPy app on devices whose gradients take ``ms`` milliseconds a sample."""

import time
from typing import Any

from fedcore.params import Tensors
from fedcore.workload import Client, Workload
from fedrun.data import digits
from tests.integration import numpy_app

SLOW = {"seconds": 0.0}  # of a sample; a process is one client


def train_data(client: Client) -> Any:
    SLOW["seconds"] = float(client.args.get("ms", 0)) / 1000
    return numpy_app.train_data(client)


def gradient(params: Tensors, x: Any, y: Any) -> tuple[float, Tensors]:
    time.sleep(len(y) * SLOW["seconds"])
    return numpy_app.gradient(params, x, y)


workload = Workload(
    initial=numpy_app.initial,
    gradient=gradient,
    evaluate=numpy_app.evaluate,
    train_data=train_data,
    test_data=lambda: digits("test"),
)
