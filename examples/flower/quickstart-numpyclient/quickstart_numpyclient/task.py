"""Softmax regression and the data."""

from functools import cache

import numpy as np
from sklearn.datasets import load_digits

TESTS = 450  # samples that no client has


@cache
def _digits():
    """All 1,797 digits in a fixed order: pixels from 0 to 1, and labels."""
    digits = load_digits()
    rows = np.random.default_rng(42).permutation(len(digits.target))
    return (digits.data[rows] / 16).astype(np.float32), digits.target[rows]


def load_data(partition_id, num_partitions):
    x, y = _digits()
    rows = np.arange(TESTS, len(y))[partition_id::num_partitions]
    cut = len(rows) * 8 // 10
    train, test = rows[:cut], rows[cut:]
    return (x[train], y[train]), (x[test], y[test])


def initial_parameters():
    return [np.zeros((64, 10), np.float32), np.zeros(10, np.float32)]


def _softmax(parameters, x):
    scores = x @ parameters[0] + parameters[1]
    exp = np.exp(scores - scores.max(axis=1, keepdims=True))
    return exp / exp.sum(axis=1, keepdims=True)


def train(parameters, data, epochs, lr, batch_size):
    """Returns the trained parameters."""
    weights, bias = (value.copy() for value in parameters)
    x, y = data
    for _ in range(epochs):
        for start in range(0, len(y), batch_size):
            rows = slice(start, start + batch_size)
            error = _softmax([weights, bias], x[rows])
            error[np.arange(len(error)), y[rows]] -= 1
            weights -= lr * x[rows].T @ error / len(error)
            bias -= lr * error.mean(axis=0)
    return [weights, bias]


def test(parameters, data):
    """Returns the mean loss and the accuracy."""
    x, y = data
    p = _softmax(parameters, x)
    loss = -np.log(p[np.arange(len(y)), y] + 1e-12).mean()
    return float(loss), float((p.argmax(axis=1) == y).mean())
