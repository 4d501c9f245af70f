"""A Lightning module and its ``Trainer`` as a loop of its own."""

import contextlib
import copy
import logging
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import torch
import torch.utils.data

from fedcore.errors import WorkloadError
from fedcore.model import Metrics
from fedcore.workload import TrainingTask
from fedtorch.looped import LoopedModule, LoopedWorkload, length, part_of

PACKAGES = ("lightning.", "pytorch_lightning.")
"""The modules of Lightning, under its new name and under its old one."""
_TALKATIVE = ("lightning.pytorch.utilities.rank_zero", "lightning.fabric")


def patch_lightning(
    trainer: Any, module: Any, data: Any, *, steps: int | None
) -> LoopedWorkload:
    """Returns a workload that a trainer trains; see :func:`latecomer.patch`.

    Raises:
        WorkloadError: the module or the data are missing.
    """
    if not hasattr(module, "training_step"):
        raise WorkloadError(
            "patch(trainer, module, data): expected the LightningModule as module, got "
            f"{type(module).__name__}"
        )
    train, held_out = _loaders(data)
    return LoopedWorkload(
        model=LoopedModule(module, _Loop(trainer, module, train)),
        train_data=lambda client: part_of(train.dataset, client),
        test_data=None if held_out is None else lambda: held_out.dataset,
        steps=steps,
    )


class _Loop:
    """Fits of one module, each by a fresh copy of the trainer as it was at first."""

    def __init__(self, trainer: Any, module: Any, loader: Any) -> None:
        self._module, self._loader = module, loader
        self._package = _package_of(trainer)
        self._callbacks = [
            each
            for each in trainer.callbacks
            if not type(each).__module__.startswith((*PACKAGES, "lightning_fabric."))
        ]
        self._trainer = trainer

    def fit(self, data: Any, task: TrainingTask) -> float | None:
        """Takes the steps of a task with a fresh optimiser; returns the mean loss."""
        torch.manual_seed(task.seed)
        steps: Steps = _counting(self._package)(task.steps)
        trainer = self._fresh([steps])
        trainer.limit_val_batches = trainer.num_sanity_val_steps = 0
        trainer.fit_loop.max_epochs, trainer.fit_loop.min_epochs = -1, 0
        trainer.fit_loop.epoch_loop.max_steps = task.steps
        trainer.fit_loop.epoch_loop.min_steps = None
        with _quietly(self._package):
            trainer.fit(self._module, self._batches(data, task.seed))
        if not steps.taken:
            raise WorkloadError("the Lightning trainer took no step: has it data?")
        return steps.loss

    def evaluate(self, data: Any) -> tuple[Metrics, int]:
        """Returns what ``trainer.validate`` measures."""
        trainer = self._fresh([])
        with _quietly(self._package):
            found = trainer.validate(
                self._module, self._batches(data, None), verbose=False
            )
        return {name: float(value) for name, value in found[0].items()}, length(data)

    def _fresh(self, callbacks: list[Any]) -> Any:
        """Returns a copy of the trainer, untrained, which writes nothing."""
        trainer = self._trainer
        kept = trainer.callbacks, trainer.loggers
        trainer.callbacks, trainer.loggers = [], []
        try:
            fresh = copy.deepcopy(trainer)
        finally:
            trainer.callbacks, trainer.loggers = kept
        fresh.callbacks = [*self._callbacks, *callbacks]
        return fresh

    def _batches(self, data: Any, seed: int | None) -> Any:
        """Returns the user's loader over other data; without a seed, in order."""
        given, load = self._loader, torch.utils.data
        drawn = None if seed is None else torch.Generator().manual_seed(seed)
        in_order = isinstance(given.sampler, load.SequentialSampler)
        return load.DataLoader(
            data,
            batch_size=given.batch_size,
            shuffle=drawn is not None and not in_order,
            collate_fn=given.collate_fn,
            num_workers=given.num_workers,
            generator=drawn,
        )


class Steps:
    """Counts the optimiser steps of a task, averages the loss, and ends the fit."""

    def __init__(self, wanted: int) -> None:
        self.wanted, self.taken, self._losses = wanted, 0, list[float]()

    @property
    def loss(self) -> float | None:
        """The mean loss of all batches; None if the module returns none."""
        return sum(self._losses) / len(self._losses) if self._losses else None

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, *batch: Any
    ) -> None:
        """Takes note of a batch, after which Lightning calls it."""
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        if loss is not None:
            self._losses.append(float(loss))
        self.taken = trainer.global_step
        trainer.should_stop = self.taken >= self.wanted


def _counting(package: Any) -> Any:
    """Returns :class:`Steps` as a callback of one of Lightning's two packages."""
    return type("Counting", (Steps, package.Callback), {})


@contextlib.contextmanager
def _quietly(package: Any) -> Iterator[None]:
    """Silences what Lightning says at each fit: of its devices and its loaders."""
    loggers = [logging.getLogger(name) for name in (package.__name__, *_TALKATIVE)]
    levels = [each.level for each in loggers]
    for each in loggers:
        each.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"lightning|pytorch_lightning")
            yield
    finally:
        for each, level in zip(loggers, levels, strict=True):
            each.setLevel(level)


def _package_of(trainer: Any) -> Any:
    """Returns the package of a trainer, which has two names."""
    modules = [each.__module__ for each in type(trainer).__mro__]
    new = any(name.startswith("lightning.") for name in modules)
    return sys.modules["lightning.pytorch" if new else "pytorch_lightning"]


def _loaders(data: Any) -> tuple[Any, Any]:
    """Returns the loader for training, and the one for validation or None."""
    if hasattr(data, "dataset"):
        return data, None
    if not hasattr(data, "train_dataloader"):
        raise WorkloadError(
            "patch(trainer, module, data): expected a LightningDataModule or a "
            f"DataLoader as data, got {type(data).__name__}"
        )
    data.prepare_data()
    data.setup("fit")
    own = {*vars(data)}.union(
        *(vars(c) for c in type(data).__mro__ if not c.__module__.startswith(PACKAGES))
    )
    held_out = data.val_dataloader() if "val_dataloader" in own else None
    return data.train_dataloader(), held_out
