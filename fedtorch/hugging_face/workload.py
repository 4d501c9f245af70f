"""``HuggingFaceWorkload``: a model of transformers or PEFT, and data."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from fedcore.model import FlatModel
from fedcore.samples import Collate, Samples
from fedtorch.devices import find_device
from fedtorch.hugging_face.flat import FlatHuggingFace, loss_of
from fedtorch.hugging_face.lora import Lora, with_lora
from fedtorch.hugging_face.samples import Collator, read_samples
from fedtorch.loading import read_ahead
from fedtorch.workload import TorchWorkload


@dataclass(frozen=True, kw_only=True)
class HuggingFaceWorkload(TorchWorkload):
    """A model of transformers or PEFT, trained by the recipe's client algorithm.

    Exactly the parameters with ``requires_grad`` are federated. All others must be the
    same at all clients, which a digest checks, and never travel. The loss is the
    model's own.

    Args:
        model: makes the model: a ``PreTrainedModel`` or a ``PeftModel``.
        train_data: ``train_data(client)`` returns token ids (N, S), a dict of arrays by
            name (``input_ids``, ``attention_mask``, ``labels``), a pair of one of these
            and labels, or a data set whose rows are such dicts, as a
            ``datasets.Dataset``. A language model's tokens are its labels, unless there
            are others.
        valid_data: the same for a client's own evaluation.
        test_data: ``test_data()`` returns the evaluator's data.
        metrics: as those of ``TorchWorkload``, of logits and labels. ``loss`` is always
            there: the mean over all labels.
        collator: makes a batch of a list of rows of a data set, as the data collators
            of transformers do; by default numbers are padded to one length.
        lora: what of LoRA is trained: ``b`` alone, with an A that is the same at all
            clients, or ``both``.
        seed: A is drawn from it.
        eval_rows: how many rows are evaluated at a time.
        device: see ``TorchWorkload``, as for ``num_workers``, ``buffers``, ``local``
            and ``write``.
    """

    loss: Callable[[Any, Any], torch.Tensor] = field(default=loss_of, init=False)
    collate: Collate | None = field(default=None, init=False)
    collator: Collator | None = None
    lora: Lora = "b"
    seed: int = 0
    eval_rows: int = 16

    def flat(self) -> FlatModel:
        """Returns the model as one flat vector.

        Raises:
            ConfigError: the device is not here.
            ModelError: the model cannot be trained in a federation.
        """
        return FlatHuggingFace(
            self._make,
            self.metrics,
            self.samples,
            find_device(self.device),
            buffers=self.buffers,
            local=tuple(self.local),
            write=self.write,
            rows=self.eval_rows,
        )

    def samples(self, data: Any, whose: str) -> Samples:
        """Returns the rows of token ids, of a dict of arrays, or of a data set."""
        ahead = read_ahead(self.num_workers)
        return read_samples(data, whose, self.collator, ahead)

    def _make(self) -> nn.Module:
        return with_lora(self.model(), self.lora, self.seed)
