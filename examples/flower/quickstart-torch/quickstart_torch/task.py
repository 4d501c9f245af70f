"""The network, the data, training and evaluation."""

from functools import cache

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

TESTS = 450  # samples that no client has


@cache
def _digits():
    """All 1,797 digits in a fixed order: pixels from 0 to 1, and labels."""
    digits = load_digits()
    rows = np.random.default_rng(42).permutation(len(digits.target))
    return (digits.data[rows] / 16).astype(np.float32), digits.target[rows]


class Net(nn.Module):
    """A small convolutional network for digits of 8 x 8 pixels."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.fc = nn.Linear(8 * 4 * 4, 10)

    def forward(self, x):
        """Returns the scores of each class, (B, 10)."""
        x = self.pool(torch.relu(self.conv(x.view(-1, 1, 8, 8))))
        return self.fc(x.flatten(1))


def load_data(partition_id, num_partitions, batch_size):
    x, y = map(torch.from_numpy, _digits())
    rows = np.arange(TESTS, len(y))[partition_id::num_partitions]
    cut = len(rows) * 8 // 10
    train, test = rows[:cut], rows[cut:]
    trainset, testset = (TensorDataset(x[part], y[part]) for part in (train, test))
    trainloader = DataLoader(trainset, batch_size, shuffle=True)
    return trainloader, DataLoader(testset, batch_size)


def load_centralized_data():
    x, y = map(torch.from_numpy, _digits())
    return DataLoader(TensorDataset(x[:TESTS], y[:TESTS]), 256)


def train(net, trainloader, epochs, lr):
    """Trains the network; returns the mean loss over all batches."""
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    net.train()
    losses = []
    for _ in range(epochs):
        for x, y in trainloader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return sum(losses) / len(losses)


def test(net, testloader):
    """Returns the mean loss and the accuracy."""
    net.eval()
    loss, correct, total = 0.0, 0, 0
    with torch.no_grad():
        for x, y in testloader:
            out = net(x)
            loss += nn.functional.cross_entropy(out, y, reduction="sum").item()
            correct += (out.argmax(1) == y).sum().item()
            total += len(y)
    return loss / total, correct / total
