"""The workload of the honest clients: the smallest realistic update."""

import os

import numpy as np

from fedcore.params import Tensors
from fedcore.workload import Client, Trained, TrainingTask, Workload

DIM = int(os.environ.get("HOSTILE_DIM", "10000"))


def initial(rng: np.random.Generator) -> Tensors:
    return {"weight": np.zeros(DIM, np.float32)}


def train(params: Tensors, data: object, task: TrainingTask) -> Trained:
    """Moves a few values: training is not what is measured."""
    weight_D = np.array(params["weight"], np.float32)
    weight_D[task.seed % DIM :: max(1, DIM // 16)] += np.float32(1e-6)
    return Trained({"weight": weight_D}, samples=16, loss=1.0)


def train_data(client: Client) -> tuple[object, object]:
    return np.zeros((16, 1), np.float32), np.zeros(16, np.int64)


workload = Workload(initial=initial, train=train, train_data=train_data)
