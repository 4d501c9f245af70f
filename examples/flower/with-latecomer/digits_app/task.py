"""The network, the data, training and evaluation, in NumPy."""

import numpy as np

from latecomer.data import digits

HIDDEN = 200


def initial_model(seed=0):
    rng = np.random.default_rng(seed)
    return {
        "w1": (rng.standard_normal((64, HIDDEN)) / 8).astype(np.float32),
        "b1": np.zeros(HIDDEN, np.float32),
        "w2": (rng.standard_normal((HIDDEN, 10)) / HIDDEN**0.5).astype(np.float32),
        "b2": np.zeros(10, np.float32),
    }


def load_data(partition_id, num_partitions):
    """Returns the training and the test data of one node."""
    x, y = digits("train")
    rows = np.random.default_rng(42).permutation(len(y))[partition_id::num_partitions]
    cut = len(rows) * 8 // 10
    return (x[rows[:cut]], y[rows[:cut]]), (x[rows[cut:]], y[rows[cut:]])


def forward(model, x):
    hidden = np.maximum(x @ model["w1"] + model["b1"], 0)
    logits = hidden @ model["w2"] + model["b2"]
    logits -= logits.max(axis=1, keepdims=True)
    odds = np.exp(logits)
    return hidden, odds / odds.sum(axis=1, keepdims=True)


def train(model, x, y, steps, lr, batch, rng):
    """Trains the model in place; returns the mean loss over all steps."""
    losses = []
    for _ in range(steps):
        rows = rng.choice(len(y), min(batch, len(y)), replace=False)
        hidden, p = forward(model, x[rows])
        right = p[np.arange(len(rows)), y[rows]]
        losses.append(float(-np.log(right + 1e-9).mean()))
        p[np.arange(len(rows)), y[rows]] -= 1
        p /= len(rows)
        back = (p @ model["w2"].T) * (hidden > 0)
        model["w2"] -= np.float32(lr) * (hidden.T @ p)
        model["b2"] -= np.float32(lr) * p.sum(axis=0)
        model["w1"] -= np.float32(lr) * (x[rows].T @ back)
        model["b1"] -= np.float32(lr) * back.sum(axis=0)
    return sum(losses) / len(losses)


def evaluate(model, x, y):
    """Returns the mean loss and the accuracy."""
    _, p = forward(model, x)
    loss = float(-np.log(p[np.arange(len(y)), y] + 1e-9).mean())
    return loss, float((p.argmax(axis=1) == y).mean())
