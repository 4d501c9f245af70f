"""Finds the trained parts of a module, and whether a federation can train it."""

import hashlib
import os
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import nn

from fedcore.errors import ModelError

BATCH_STATISTICS = (nn.modules.batchnorm._NormBase,)  # the parent of all such layers
MEAN_NAME, VARIANCE_NAME = "running_mean", "running_var"  # of their buffers
COUNTER = "num_batches_tracked"
# Below so many values, frozen ones as well, several threads cost more than they gain.
SMALL = 1 << 20


def limit_threads(module: nn.Module) -> None:
    """Lets torch compute a small module on one thread, unless the user says how many.

    On two cores a step of the digits network takes 2.5 times as long with two.
    """
    values = sum(parameter.numel() for parameter in module.parameters())
    if values < SMALL and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)


class Fingerprint(NamedTuple):
    """Digests of tensors that are not trained."""

    whole: str
    """Of all of them together; empty for none."""
    parts: tuple[tuple[str, str], ...]
    """A short one of each, by its name."""


def check_module(module: nn.Module) -> nn.Module:
    """Refuses a module that has nothing to train.

    Raises:
        ModelError: there is no parameter to train, or one is not float32.
    """
    if not trainable(module):
        raise ModelError("the model has no parameters with requires_grad")
    for name, parameter in trainable(module).items():
        if parameter.dtype != torch.float32:
            raise ModelError(
                f"parameter {name!r} is {parameter.dtype}; expected torch.float32"
            )
    return module


def trainable(module: nn.Module) -> dict[str, nn.Parameter]:
    """Returns the trained parameters by name; tied ones once, by their first name."""
    return {name: p for name, p in module.named_parameters() if p.requires_grad}


def fingerprint(module: nn.Module, names: Iterable[str]) -> Fingerprint:
    """Returns digests of these tensors, which are not trained."""
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    content, parts = hashlib.sha256(), []
    for name in names:
        flat = tensors[name].detach().cpu().reshape(-1)  # a scalar has no bytes to view
        one = hashlib.sha256(flat.view(torch.uint8).numpy().data)
        content.update(name.encode() + one.digest())
        parts.append((name, one.hexdigest()[:8]))
    return Fingerprint(content.hexdigest()[:32] if parts else "", tuple(parts))
