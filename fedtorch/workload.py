"""``TorchWorkload``: an ``nn.Module``, a loss, metrics, and data."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from fedcore.clients import Priority
from fedcore.errors import WorkloadError
from fedcore.evaluation import MetricsOf
from fedcore.influence.base import Curvature
from fedcore.model import FlatModel, WeightedGradient
from fedcore.samples import Collate, IndexedSamples, Samples, as_samples
from fedcore.workload import Workload
from fedtorch.curvature import ModuleCurvature
from fedtorch.devices import find_device
from fedtorch.flat import FlatModule, Write
from fedtorch.layout import Buffers
from fedtorch.loading import arrays_in, collate_samples, read_ahead


@dataclass(frozen=True, kw_only=True)
class TorchWorkload(Workload):
    """Any ``nn.Module`` as a workload; its gradients come from autograd.

    Nothing is built before it is needed. The metric ``loss`` is always there.

    Args:
        model: makes a fresh module, initialised at random.
        loss: ``loss(output, target)``, the mean over the batch.
        metrics: ``metrics(output, target)`` returns numbers by name, of the outputs for
            the whole test set; or a metric with ``update`` and ``compute``
            (torchmetrics, :mod:`fedcore.metrics`); or several of both by name.
        collate: ``collate(samples)`` makes a batch (x, y) of a list of samples, as the
            ``collate_fn`` of a ``DataLoader``, such as by padding them. Without it
            samples are pairs (x, y) of one shape, which are stacked.
        num_workers: how many processes read the samples of a ``Dataset`` ahead, as
            those of a ``DataLoader``; 0: none.
        train_data: ``train_data(client)`` returns (x, y) as arrays or tensors, or a
            map-style ``torch.utils.data.Dataset``.
        valid_data: the same for a client's own evaluation.
        test_data: ``test_data()`` returns the evaluator's data.
        device: where clients and evaluators compute: ``cpu``, ``cuda``, ``cuda:1``,
            ``mps``, or ``auto`` for the best that is here. Metrics are given tensors on
            the CPU.
        buffers: what becomes of batch statistics: ``average`` (the default), ``local``
            or ``frozen``; or that of any buffers by name pattern, of which the first
            that matches counts. All other buffers are frozen.
        local: name patterns of tensors that never leave a client, such as ``head.*``.
        write: ``write(module)`` returns a text for each version that is evaluated, such
            as a sample of a language model; the report shows it.
    """

    model: Callable[[], nn.Module]
    loss: Callable[[Any, Any], torch.Tensor]
    metrics: MetricsOf = None
    collate: Collate | None = None
    num_workers: int = 0
    device: str = "cpu"
    buffers: Buffers = None
    local: Sequence[str] = ()
    write: Write | None = None

    def __post_init__(self) -> None:
        """Checks the number of workers.

        Raises:
            WorkloadError: it is none.
        """
        if not isinstance(self.num_workers, int) or self.num_workers < 0:
            raise WorkloadError(
                f"num_workers={self.num_workers!r}: expected a whole number from 0 on"
            )

    def flat(self) -> FlatModel:
        """Returns the module as one flat vector.

        Raises:
            ConfigError: the device is not here.
            ModelError: the module cannot be trained in a federation.
        """
        where = find_device(self.device)
        return FlatModule(
            self.model,
            self.loss,
            self.metrics,
            self.samples,
            where,
            buffers=self.buffers,
            local=self.local,
            write=self.write,
        )

    def weighted_gradient(
        self, model: FlatModel, priority: Priority
    ) -> WeightedGradient:
        """Returns gradients of samples that have weights; estimates are torch's own."""
        if priority == "estimate" and isinstance(model, FlatModule):
            return model.weighted_gradient
        return super().weighted_gradient(model, priority)

    def curvature(self, model: FlatModel) -> Curvature:
        """Returns the derivatives of the module's loss, by backward passes alone."""
        if isinstance(model, FlatModule):
            return ModuleCurvature(model)
        return super().curvature(model)

    def on(self, device: str) -> "TorchWorkload":
        """Returns the same workload on another device."""
        return replace(self, device=device)

    def samples(self, data: Any, whose: str) -> Samples:
        """Returns the rows of arrays, tensors, or a torch ``Dataset``."""
        samples = as_samples(arrays_in(data), whose, self.collate)
        if isinstance(samples, IndexedSamples):
            ahead = read_ahead(self.num_workers)
            return replace(samples, stack=collate_samples, ahead=ahead)
        return samples
