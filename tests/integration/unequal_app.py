"""Two situations of clients that could hardly differ more, as apps.

``digits``: images cut to clients of 25 to 40,000 rows, by repetition with noise, and
one class of two. ``texts``: docstrings and sources of the standard library, a module
each, of which the next character is to be said.
"""

import inspect
import json
import keyword
import random
import textwrap
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score
from torch import nn

from fedcore.metrics import F1, Accuracy, Recall
from fedcore.workload import Client
from fedrun import data
from fedtorch import TorchWorkload

SIZES = (25, 310, 3_700, 40_000)
MODULES = (keyword, textwrap, json, random)
WINDOW = 8
CHARACTERS = 96  # printable ASCII, and everything else


def images(client: Client) -> Any:
    """So many images, most of them several times with other noise."""
    x, y = data.digits("train")
    rng = np.random.default_rng(client.index)
    rows = rng.integers(len(y), size=SIZES[client.index])
    noise = rng.normal(0, 0.1, (len(rows), x.shape[1]))
    return (x[rows] + noise).astype(np.float32), (y[rows] >= 5).astype(np.int64)


def own_images(client: Client) -> Any:
    """Every so many of the test set."""
    x, y = data.digits("test")
    some = slice(client.index, None, 2 + client.index)
    return x[some], (y[some] >= 5).astype(np.int64)


def all_images() -> Any:
    x, y = data.digits("test")
    return x, (y >= 5).astype(np.int64)


def text(module: Any) -> Any:
    """Windows of a module's source, and the characters behind them."""
    codes = np.frombuffer(inspect.getsource(module).encode("ascii", "ignore"), np.uint8)
    marks = np.clip(codes.astype(np.int64) - 31, 0, CHARACTERS - 1)
    windows = np.lib.stride_tricks.sliding_window_view(marks, WINDOW + 1)[::7]
    return windows[:, :-1].copy(), windows[:, -1].copy()


def own_text(client: Client) -> Any:
    """The end of what it trains on."""
    x, y = text(MODULES[client.index])
    return x[-40 * (1 + client.index) :], y[-40 * (1 + client.index) :]


def texts() -> Any:
    parts = [own_text(Client("", index, len(MODULES))) for index in range(len(MODULES))]
    return tuple(np.concatenate(each) for each in zip(*parts, strict=True))


def area(output: Any, target: Any) -> float:
    """Under the curve, of the difference of two logits."""
    return float(roc_auc_score(target.numpy(), (output[:, 1] - output[:, 0]).numpy()))


digits = TorchWorkload(
    model=lambda: nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 2)),
    loss=nn.CrossEntropyLoss(),
    metrics={"auc": area, "f1": F1(), "recall": Recall(), "accuracy": Accuracy()},
    train_data=images,
    valid_data=own_images,
    test_data=all_images,
)
stdlib = TorchWorkload(
    model=lambda: nn.Sequential(
        nn.Embedding(CHARACTERS, 8), nn.Flatten(), nn.Linear(8 * WINDOW, CHARACTERS)
    ),
    loss=nn.CrossEntropyLoss(),
    metrics={"f1": F1(), "recall": Recall(), "accuracy": Accuracy()},
    train_data=lambda client: text(MODULES[client.index]),
    valid_data=own_text,
    test_data=texts,
)
