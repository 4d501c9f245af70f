"""``TorchWorkload``: modules, data, and training through the core."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from fedcore.errors import UserCodeError
from fedcore.recipes import FedAvg
from fedcore.rng import Key
from fedcore.samples import ArraySamples, IndexedSamples
from fedcore.training import Trainer
from tests.fedtorch.modules import X, Y, with_dropout, workload


class Rows(Dataset[Any]):
    """A map-style data set."""

    targets = Y

    def __len__(self) -> int:
        return len(Y)

    def __getitem__(self, row: int) -> tuple[Any, int]:
        return X[row], int(Y[row])


def train(some: Any, data: Any, seed: int = 0, **client: Any) -> Any:
    """One task."""
    settings = {"kind": "local_sgd", "steps": 4, "batch": 3} | client
    config = FedAvg.model_validate({"client": settings})
    trainer = Trainer(some, config.build(some.flat().spec))
    public_D = trainer.model.initial(Key.root(0))
    return trainer.train(public_D, data, Key.root(seed))


def test_arrays_tensors_and_data_sets_train_alike() -> None:
    pairs = [(X, Y), (X.numpy(), Y.numpy()), (X.numpy(), Y), Rows()]
    updates = [train(workload(), data) for data in pairs]
    assert len({update.delta_D.tobytes() for update in updates}) == 1
    assert {tuple(update.counts.tolist()) for update in updates} == {
        tuple(updates[0].counts.tolist())
    }
    assert updates[0].counts.sum() == 10


def test_a_data_set_is_read_by_rows_and_a_pair_by_arrays() -> None:
    some = workload()
    assert isinstance(some.samples(Rows(), "train_data"), IndexedSamples)
    assert isinstance(some.samples((X, Y), "train_data"), ArraySamples)
    x, y = some.samples(Rows(), "train_data").batch(np.array([3, 1]))
    assert torch.equal(x, X[[3, 1]])
    assert y.tolist() == Y[[3, 1]].tolist()


def test_the_same_key_gives_the_same_update_even_with_dropout() -> None:
    updates = [
        train(workload(with_dropout), (X, Y), seed).delta_D.tobytes()
        for seed in (1, 1, 2)
    ]
    assert updates[0] == updates[1] != updates[2]


def test_momentum_and_proximal_terms_train_too() -> None:
    for client in ({"momentum": 0.9}, {"kind": "fed_prox", "mu": 0.1}):
        update = train(workload(), (X, Y), **client)
        assert np.isfinite(update.loss)
        assert update.delta_D.any()


def test_nothing_is_built_before_it_is_needed() -> None:
    def broken() -> Any:
        raise RuntimeError("built")

    some = workload(broken)
    with pytest.raises(UserCodeError, match="built"):
        some.flat()


_STEP = """
import sys
from fedcore.recipes import FedAvg
from fedcore.rng import Key
from fedcore.training import Trainer
from tests.fedtorch.modules import X, Y, workload
some = workload()
trainer = Trainer(some, FedAvg().build(some.flat().spec))
initial_D = trainer.model.initial(Key.root(0))
trainer.train(initial_D, (X, Y), Key.root(0))
trainer.train(initial_D, list(zip(X, Y)), Key.root(0))
trainer.model.evaluate(initial_D, (X, Y))
print([name for name in sys.modules if name.startswith("torch._dynamo")][:3])
"""


@pytest.mark.processes
def test_neither_training_nor_evaluation_imports_dynamo() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _STEP],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"
