"""The loop of loop.py as a workload: arrays in, arrays out."""

import torch
from loop import accuracy, network
from loop import train as own_loop

from latecomer import Trained, Workload
from latecomer.data import digits
from latecomer.partitions import dirichlet


def loaded(params):
    net = network()
    net.load_state_dict({k: torch.from_numpy(v) for k, v in params.items()})
    return net


def arrays(net):
    return {name: value.numpy() for name, value in net.state_dict().items()}


def initial(rng):
    torch.manual_seed(int(rng.integers(2**31)))
    return arrays(network())


def train(params, data, task):
    torch.manual_seed(task.seed)
    net, (x, y) = loaded(params), map(torch.from_numpy, data)
    loss = own_loop(net, x, y, task.steps, task.lr, task.batch)
    return Trained(arrays(net), samples=len(y), loss=loss)


def train_data(client):
    x, y = digits("train")
    rows = dirichlet(y, clients=client.count, alpha=0.3, seed=0)[client.index]
    return x[rows], y[rows]


def evaluate(params, x, y):
    data = map(torch.from_numpy, (x, y))
    return {"accuracy": accuracy(loaded(params), *data)}


workload = Workload(
    initial=initial,
    train=train,
    evaluate=evaluate,
    train_data=train_data,
    test_data=lambda: digits("test"),
)
