"""A model of transformers as one flat vector: it takes batches by name."""

import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

from fedcore.errors import ModelError, NotStackableError
from fedcore.evaluation import MetricsOf, evaluation_batches, measure, name_metrics
from fedcore.model import Metrics, StackedModel
from fedcore.samples import Samples, read
from fedcore.typing import Vector
from fedtorch.flat import FlatModule, Write
from fedtorch.hugging_face.lora import rest_of_adapter
from fedtorch.hugging_face.samples import LABELS, NO_LABEL
from fedtorch.layout import Buffers
from fedtorch.tensors import CPU, across, join_tensors, to_targets


class FlatHuggingFace(FlatModule):
    """One model of transformers or PEFT, whose loss is its own."""

    def __init__(
        self,
        build: Callable[[], nn.Module],
        metrics: MetricsOf,
        samples: Callable[[Any, str], Samples],
        device: torch.device,
        *,
        buffers: Buffers,
        local: tuple[str, ...],
        write: Write | None,
        rows: int,
    ) -> None:
        """``rows`` are evaluated at a time; see ``TorchWorkload`` for the others."""
        super().__init__(
            build,
            loss_of,
            metrics,
            samples,
            device,
            buffers=buffers,
            local=local,
            beside=rest_of_adapter,
            write=write,
        )
        self._rows = rows
        # A PeftModel takes anything and hands it to its base.
        base = getattr(self._module, "get_base_model", lambda: self._module)()
        self._known = {*inspect.signature(base.forward).parameters}
        self._predicts_next = LABELS in self._known and _is_causal(base)

    def _outputs(self, x: Any, module: nn.Module) -> Any:
        """Returns the model's outputs for a batch; it is given what it knows."""
        known = {name: part for name, part in x.items() if name in self._known}
        if LABELS not in known and self._predicts_next:
            known[LABELS] = _own_labels(known)
        return module(**{n: to_targets(part) for n, part in known.items()})

    def stack(self, device: str = "cpu") -> StackedModel:
        """Refuses: such models are trained one by one."""
        raise NotStackableError("models of transformers take batches by name")

    def evaluate(
        self, w_D: Vector, data: Any, local_L: Vector | None = None
    ) -> tuple[Metrics, int]:
        """Returns the loss over all labels of a data set, and the user's metrics."""
        samples = self._samples(data, "the evaluation data")
        sums = np.zeros(2)  # of losses, and of the labels behind them

        def outputs(module: nn.Module) -> Iterator[tuple[Any, Any]]:
            rows = evaluation_batches(len(samples), self._rows)
            for x, y in read([(samples, each) for each in rows]):
                output, targets = (
                    self._outputs(self._there(x), module),
                    to_targets(y),
                )
                count = _labels_in(targets, shifted=self._predicts_next)
                if count:  # the mean over no labels is no number
                    sums[:] += float(loss_of(output, targets)) * count, count
                if self._metrics is not None:
                    yield across(output["logits"], CPU), targets

        with self._evaluating(w_D, local_L) as module, torch.no_grad():
            if self._metrics is None:
                all(False for _ in outputs(module))
                values = {}
            else:
                values = measure(
                    name_metrics(self._metrics), outputs(module), join_tensors
                )
        loss = float(sums[0] / sums[1]) if sums[1] else math.nan
        return {"loss": loss, **values}, len(samples)


def loss_of(output: Any, target: Any) -> torch.Tensor:
    """Returns the loss that a model of transformers computes itself.

    Raises:
        ModelError: it computes none.
    """
    loss = output["loss"] if isinstance(output, dict) and "loss" in output else None
    if not isinstance(loss, torch.Tensor):
        raise ModelError(
            "the model computes no loss: give labels, and a model with a head, such as "
            "AutoModelForCausalLM or AutoModelForSequenceClassification"
        )
    return loss


def _is_causal(base: Any) -> bool:
    """Returns whether a model predicts the next token, asked as transformers does."""
    is_decoder = not getattr(base.config, "is_encoder_decoder", False)
    return is_decoder and getattr(base, "loss_type", None) in (None, "ForCausalLM")


def _own_labels(x: dict[str, torch.Tensor]) -> torch.Tensor:
    """Returns the tokens themselves as labels, none where they are padding."""
    labels: torch.Tensor = to_targets(x["input_ids"])
    mask = x.get("attention_mask")
    return labels if mask is None else labels.masked_fill(mask == 0, NO_LABEL)


def _labels_in(targets: torch.Tensor, *, shifted: bool) -> int:
    """Returns how many labels of a batch its mean loss is of."""
    counted = targets[..., 1:] if shifted and targets.dim() > 1 else targets
    if counted.is_floating_point() or counted.dim() == 1:
        return len(counted)
    return int((counted != NO_LABEL).sum())
