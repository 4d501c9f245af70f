"""A small federation that provides real updates and memories."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bytes.data import Rows, fashion_mnist, small_digits
from benchmarks.bytes.mlp import perceptron
from fedcore import payloads
from fedcore.compressors import Compressor, CompressorConfig, Context
from fedcore.model import FlatModel
from fedcore.payloads import Payload
from fedcore.rng import Key
from fedcore.typing import Vector

CLIENTS, COHORT, ROUNDS, STEPS, BATCH, LR = 20, 5, 20, 20, 32, 0.1


class AsInTorch:
    """The same model with a row of weights for each output, not for each input."""

    def __init__(self, model: FlatModel) -> None:
        self._model, self.spec = model, model.spec
        self._places_D = np.concatenate(
            [
                at.offset + np.arange(at.size).reshape(at.shape).T.reshape(-1)
                for at in model.spec.tensors
            ]
        )
        self._back_D = np.argsort(self._places_D)

    def initial(self, key: Key) -> Vector:
        """The flat vector of version 0."""
        initial_D: Vector = self._model.initial(key)[self._places_D]
        return initial_D

    def gradient(self, w_D: Vector, x: Any, y: Any) -> tuple[float, Vector]:
        """The mean loss over a batch, and its gradient."""
        loss, gradient_D = self._model.gradient(w_D[self._back_D], x, y)
        return loss, gradient_D[self._places_D]


Model = FlatModel | AsInTorch
Sent = tuple[Vector, Payload]  # what a message is about, and the message


def messages(
    model: Model, parts: Sequence[Rows], config: CompressorConfig
) -> dict[str, list[Sent]]:
    """What the clients sent up in the last rounds, and the server down."""
    compressor, rng = config.build_for(model.spec), np.random.default_rng(0)
    remembers = config.bias == "contraction"
    exact_D = model.initial(Key.root(0))
    public_D, memory_ND = exact_D.copy(), np.zeros((len(parts), len(exact_D)), "f4")
    last: dict[int, Payload] = {}
    up: list[Sent] = []
    down: list[Sent] = []
    for turn in range(ROUNDS):
        total_D = np.zeros_like(exact_D)
        for client in rng.choice(len(parts), COHORT, replace=False).tolist():
            delta_D = _trained(model, public_D, parts[client], rng) + memory_ND[client]
            key = Key.root(turn).fold_in(client)
            message = _message(compressor, delta_D, key, public_D, last.get(client))
            last[client] = message
            if remembers:
                memory_ND[client] = delta_D - payloads.decode(message)
            payloads.add(message, total_D, 1 / COHORT)
            up.append((delta_D, message))
        exact_D -= total_D
        gap_D = public_D - exact_D
        before = down[-1][1] if down else None
        message = _message(compressor, gap_D, Key.root(turn), public_D, before)
        payloads.add(message, public_D, -1.0)
        down.append((gap_D, message))
    return {"up": up[-2 * COHORT :], "down": down[-5:]}


def _message(
    compressor: Compressor,
    x_D: Vector,
    key: Key,
    public_D: Vector,
    before: Payload | None,
) -> Payload:
    recalled = before and compressor.recall and compressor.recall(before)
    now = compressor.at(lambda: Context(0, public_D, recalled))
    return now.encode(x_D, None, key)[0]


def _trained(
    model: Model, start_D: Vector, rows: Rows, rng: np.random.Generator
) -> Vector:
    w_D = start_D.copy()
    for _ in range(STEPS):
        batch = rows.take(rng.integers(0, len(rows.y), BATCH))
        w_D -= np.float32(LR) * model.gradient(w_D, batch.x, batch.y)[1]
    return start_D - w_D


def tasks(
    data: Path | None, *, as_in_torch: bool = False
) -> Iterator[tuple[str, Model, list[Rows]]]:
    """Perceptrons and what their clients hold: digits, and images if there are some."""
    known: dict[str, tuple[Any, tuple[int, int, int], str]] = {
        "digits": (small_digits, (64, 64, 10), "")
    }
    if data:
        known["fashion_mnist"] = fashion_mnist, (784, 128, 10), str(data)
    for name, (share, sizes, folder) in known.items():
        shared = share(folder, CLIENTS, 0)
        parts = [shared.train.take(part) for part in shared.parts]
        model = perceptron(sizes, share).flat()
        yield name, AsInTorch(model) if as_in_torch else model, parts
