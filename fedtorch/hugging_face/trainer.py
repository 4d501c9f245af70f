"""The ``Trainer`` of transformers, and those made from it, as a loop of its own."""

import contextlib
import copy
import sys
from collections.abc import Iterator
from typing import Any

from fedcore.model import Metrics
from fedcore.workload import TrainingTask
from fedtorch.hugging_face.lora import Lora, rest_of_adapter, with_lora
from fedtorch.looped import LoopedModule, LoopedWorkload, length, part_of

_QUIET = {
    "disable_tqdm": True,
    "eval_on_start": False,
    "eval_strategy": "no",
    "load_best_model_at_end": False,
    "logging_first_step": False,
    "logging_strategy": "no",
    "push_to_hub": False,
    "save_strategy": "no",
}
"""What a task changes of the trainer's arguments: nothing is written or shown."""
_OF_THE_MACHINE = (
    "runtime",
    "samples_per_second",
    "steps_per_second",
    "model_preparation_time",
    "num_tokens",
)


def patch_trainer(
    trainer: Any, *, steps: int | None, lora: Lora, seed: int
) -> LoopedWorkload:
    """Returns a workload that a trainer trains; see :func:`latecomer.patch`."""
    with_lora(trainer.model, lora, seed)
    model = LoopedModule(trainer.model, _Loop(trainer), rest_of_adapter)
    held_out = trainer.eval_dataset
    return LoopedWorkload(
        model=model,
        train_data=lambda client: part_of(trainer.train_dataset, client),
        test_data=None if held_out is None else lambda: held_out,
        steps=steps,
    )


class _Loop:
    """A trainer's loop for one task after the other."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self._transformers: Any = sys.modules["transformers"]  # it made the trainer
        given = trainer.optimizer, trainer.lr_scheduler
        self._given = [
            (each, each and copy.deepcopy(each.state_dict())) for each in given
        ]

    def fit(self, data: Any, task: TrainingTask) -> float:
        """Takes the steps of a task with a fresh optimiser; returns the mean loss."""
        seed = task.seed % (1 << 32)
        with self._quietly(max_steps=task.steps, seed=seed, data_seed=None) as trainer:
            trainer.train_dataset = data
            for each, first in self._given:
                if each is not None:
                    each.load_state_dict(copy.deepcopy(first))
            self._transformers.set_seed(seed)
            return float(trainer.train().training_loss)

    def evaluate(self, data: Any) -> tuple[Metrics, int]:
        """Returns what ``trainer.evaluate`` measures, but for times."""
        with self._quietly() as trainer:
            found = trainer.evaluate(data)
        values = {
            name.removeprefix("eval_"): float(value)
            for name, value in found.items()
            if name != "epoch" and not name.endswith(_OF_THE_MACHINE)
        }
        return values, length(data)

    @contextlib.contextmanager
    def _quietly(self, **changes: Any) -> Iterator[Any]:
        """Yields the trainer; it is as it was before, but for its weights."""
        trainer, handler = self._trainer, self._trainer.callback_handler
        before = trainer.args, trainer.train_dataset, handler.callbacks
        trainer.args = copy.copy(trainer.args)
        for name, value in {**_QUIET, **changes}.items():
            setattr(trainer.args, name, value)
        handler.callbacks = [each for each in handler.callbacks if self._is_kept(each)]
        trainer.optimizer, trainer.lr_scheduler = (each for each, _ in self._given)
        try:
            yield trainer
        finally:
            trainer.args, trainer.train_dataset, handler.callbacks = before
            trainer.optimizer, trainer.lr_scheduler = (each for each, _ in self._given)

    def _is_kept(self, callback: Any) -> bool:
        """Returns whether a callback is the user's own, or what drives the loop."""
        if isinstance(callback, self._transformers.DefaultFlowCallback):
            return True
        return not type(callback).__module__.startswith("transformers.")
