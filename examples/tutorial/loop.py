"""A training loop for one machine. Nothing in it knows of a federation."""

import torch
from torch import nn

from latecomer.data import digits


def network():
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def train(net, x, y, steps, lr=0.1, batch=16):
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    for _ in range(steps):
        rows = torch.randint(len(y), (batch,))
        loss = nn.functional.cross_entropy(net(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def accuracy(net, x, y):
    with torch.no_grad():
        return (net(x).argmax(1) == y).float().mean().item()


if __name__ == "__main__":
    torch.manual_seed(0)
    net = network()
    train(net, *map(torch.from_numpy, digits("train")), steps=1000)
    print("accuracy", accuracy(net, *map(torch.from_numpy, digits("test"))))
