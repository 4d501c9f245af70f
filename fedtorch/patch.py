"""``patch``: makes a workload of a trainer that exists already."""

from typing import Any

from fedcore.errors import WorkloadError
from fedtorch.hugging_face.lora import Lora
from fedtorch.looped import LoopedWorkload


def patch(
    trainer: Any,
    module: Any = None,
    data: Any = None,
    *,
    steps: int | None = None,
    lora: Lora = "b",
    seed: int = 0,
) -> LoopedWorkload:
    """Returns a workload that a trainer trains with its own loop.

    The parameters with ``requires_grad`` are federated; version 0 is the module as it
    is now. A task has a fresh optimiser, and the trainer's own learning rate and batch
    size; nothing is logged, and no checkpoint is written. The clients of a simulation,
    and those with ``--count``, share the trainer's data out.

    Args:
        trainer: of transformers (``Trainer``, or made from it, as TRL's
            ``SFTTrainer``), or of Lightning.
        module: with Lightning, the ``LightningModule``.
        data: with Lightning, the ``LightningDataModule``, or a ``DataLoader``.
        steps: how many optimiser steps a task has; None: as many as the recipe says.
        lora: see ``HuggingFaceWorkload``; with transformers alone, as ``seed``.
        seed: A of LoRA is drawn from it.

    Raises:
        ModelError: there are no parameters to train.
        WorkloadError: it is no such trainer, or something is missing.
    """
    if _is_trainer(trainer, "transformers.trainer"):
        from fedtorch.hugging_face.trainer import patch_trainer

        return patch_trainer(trainer, steps=steps, lora=lora, seed=seed)
    if _is_trainer(trainer, ("lightning.", "pytorch_lightning.")):
        from fedtorch.lightning import patch_lightning

        return patch_lightning(trainer, module, data, steps=steps)
    raise WorkloadError(
        f"patch({type(trainer).__name__}): expected a Trainer of transformers or of "
        "Lightning; any other loop enters by Workload(train=...)"
    )


def _is_trainer(found: Any, module: str | tuple[str, ...]) -> bool:
    """Returns whether an object is a Trainer of a module whose name begins so."""
    return any(
        each.__name__ == "Trainer" and each.__module__.startswith(module)
        for each in type(found).__mro__
    )
