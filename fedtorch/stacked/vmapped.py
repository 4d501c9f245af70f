"""``torch.func.vmap`` over the gradient of any module that allows it."""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

from fedcore.merging import PARAMETER, in_moments, in_variances
from fedcore.params import ParamSpec
from fedtorch.raised import needing_batches
from fedtorch.stacked.rows import Batch, Rows
from fedtorch.tensors import map_tensors

Buffers = dict[str, torch.Tensor]


class Vmapped:
    """The user's module and loss, unchanged, over an added axis of models.

    Models whose batches have the same size are computed together, without padding, so
    module and loss may mix the samples of a batch.
    """

    def __init__(
        self,
        module: nn.Module,
        spec: ParamSpec,
        loss: Callable[[Any, Any], torch.Tensor],
        reason: str,
    ) -> None:
        from torch import func

        self._module, self._spec = module, spec
        self._trained = {t.name for t in spec.tensors if t.merge == PARAMETER}
        tensors = *module.named_parameters(), *module.named_buffers()
        kind = {name: tensor.dtype for name, tensor in tensors}
        placed = {tensor.name for tensor in spec.tensors}
        others = {k: b for k, b in module.named_buffers() if k not in placed}

        def mean_loss(
            params: dict[str, torch.Tensor], buffers: Buffers, x: Any, y: Any
        ) -> tuple[torch.Tensor, Buffers]:
            # Layers write into their buffers: into copies, since nothing else may be
            # written to in here, and what is not a client's own stays as it is.
            own = {k: b.to(kind[k], copy=True) for k, b in buffers.items()}
            spare = {name: buffer.clone() for name, buffer in others.items()}
            given = {**params, **own, **spare} if own else params
            return loss(func.functional_call(module, given, (x,)), y), own

        self._gradients = func.vmap(
            func.grad_and_value(mean_loss, has_aux=True), randomness="different"
        )
        self.words = f"torch.func.vmap, since {reason}"
        self.overhead = 1
        self.per_sample: dict[torch.Size, float] | None = None

    def step(self, rows: Rows, x: Any, y: Any, batch: Batch) -> Any:
        """Calls the module once for each size of batch."""
        with warnings.catch_warnings(), needing_batches(self._module):
            warnings.filterwarnings("ignore", "There is a performance drop")
            return self._step(rows, x, y, batch)

    def _step(self, rows: Rows, x: Any, y: Any, batch: Batch) -> torch.Tensor:
        losses = torch.empty(rows.count, device=rows.w_ND.device)
        for members, size in _by_size(batch):
            if members is None:
                g, (losses_M, own) = self._gradients(
                    *self._name_tensors(rows.w_ND), x, y
                )
                losses.copy_(losses_M)
                self._put(rows.g_ND, {**g, **own})
                continue
            index = torch.from_numpy(members).to(rows.w_ND.device)

            def pick(
                part: torch.Tensor, index: torch.Tensor = index, size: int = size
            ) -> torch.Tensor:
                return part[index, :size]

            g, (losses_M, own) = self._gradients(
                *self._name_tensors(rows.w_ND[index]),
                map_tensors(x, pick),
                map_tensors(y, pick),
            )
            losses[index] = losses_M
            part_MD = torch.empty_like(rows.g_ND[: len(members)])
            self._put(part_MD, {**g, **own})
            rows.g_ND[index] = part_MD
        return losses

    def _name_tensors(self, w_ND: torch.Tensor) -> tuple[Buffers, Buffers]:
        """Returns the parameters and the buffers of the models, by name."""
        if self._spec.moments:
            w_ND = w_ND.clone()
            in_variances(w_ND, self._spec.moments)
        named = {
            tensor.name: w_ND[:, tensor.slice].view(len(w_ND), *tensor.shape)
            for tensor in self._spec.tensors
        }
        params = {name: each for name, each in named.items() if name in self._trained}
        return params, {k: each for k, each in named.items() if k not in params}

    def _put(self, g_ND: torch.Tensor, found: dict[str, torch.Tensor]) -> None:
        for tensor in self._spec.tensors:
            g_ND[:, tensor.slice] = found[tensor.name].reshape(len(g_ND), -1)
        in_moments(g_ND, self._spec.moments)


def _by_size(batch: Batch) -> Iterator[tuple[Any, int]]:
    """Yields the models of each size of batch; None for all, with full batches."""
    if not batch.ragged:
        yield None, batch.width
        return
    for size in np.unique(batch.sizes_N):
        yield np.flatnonzero(batch.sizes_N == size), int(size)
