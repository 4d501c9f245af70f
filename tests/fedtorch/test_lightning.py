"""A LightningModule and its Trainer as a workload."""

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import latecomer
from fedcore.errors import ModelError, WorkloadError
from fedcore.rng import Key
from fedcore.workload import TrainingTask
from latecomer.data import digits

pytestmark = [
    pytest.mark.needs("lightning"),
    pytest.mark.filterwarnings("ignore"),  # of Lightning: of devices and loaders
]


def parts() -> tuple[Any, Any, Any]:
    """A trainer, a module and its data."""
    lightning: Any = import_module("lightning")

    class Net(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.net = torch.nn.Linear(64, 10)

        def training_step(self, batch: Any, place: int) -> Any:
            return torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])

        def validation_step(self, batch: Any, place: int) -> None:
            right = self.net(batch[0]).argmax(1) == batch[1]
            self.log("accuracy", right.float().mean())

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.1, momentum=0.9)

    class Data(lightning.LightningDataModule):  # type: ignore[misc]
        def train_dataloader(self) -> Any:
            return DataLoader(rows("train"), batch_size=16, shuffle=True)

        def val_dataloader(self) -> Any:
            return DataLoader(rows("test"), batch_size=256)

    trainer = lightning.Trainer(
        accelerator="cpu", max_epochs=3, logger=False, enable_checkpointing=True
    )
    return trainer, Net(), Data()


def rows(split: Any) -> Any:
    x, y = digits(split)
    return TensorDataset(torch.tensor(x), torch.tensor(y).long())


def test_a_lightning_trainer_joins_in_three_lines_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    trainer, module, data = parts()
    workload = latecomer.patch(trainer, module, data)
    client = {"kind": "local_sgd", "lr": 0.1, "steps": 20, "batch": 16}
    config = {
        "algorithm": {"kind": "fed_avg", "buffer": 2, "client": client},
        "simulate": {"clients": 2},
        "stop": {"versions": 3},
    }
    results = latecomer.run(config, workload, folder=tmp_path / "run")
    assert results.metrics["accuracy"][-1] > 0.8
    assert results.updates["loss"][-1] < results.updates["loss"][0]
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert trainer.global_step == 0


def test_a_task_takes_its_steps_with_a_fresh_optimiser_and_its_own_seed() -> None:
    trainer, module, data = parts()
    model = latecomer.patch(trainer, module, data).model
    params = model.spec.unflatten(model.initial(Key.root(0)))
    few = torch.utils.data.Subset(rows("train"), range(40))
    first, other, again, more = (
        model.train(params, few, TrainingTask(seed, steps, 0.1, 16)).params[
            "net.weight"
        ]
        for seed, steps in ((1, 7), (2, 7), (1, 7), (1, 8))
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert not np.array_equal(first, more)


def test_a_loader_alone_will_do_and_then_nothing_is_evaluated() -> None:
    trainer, module, data = parts()
    workload = latecomer.patch(trainer, module, data.train_dataloader())
    assert workload.test_data is None


def test_what_is_missing_is_told_in_a_sentence() -> None:
    trainer, module, data = parts()
    with pytest.raises(WorkloadError, match="expected the LightningModule as module"):
        latecomer.patch(trainer)
    with pytest.raises(WorkloadError, match="a DataLoader as data, got NoneType"):
        latecomer.patch(trainer, module)
    with pytest.raises(ModelError, match="no parameters with requires_grad"):
        latecomer.patch(trainer, module.requires_grad_(False), data)
