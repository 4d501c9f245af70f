"""Finds the values that a module and a loss keep beside parameters and buffers."""

from typing import Any

import torch
from torch import nn

from fedcore.errors import ModelError
from fedcore.remembered import (
    LARGE,
    SOME,
    Held,
    Memory,
    Part,
    Restore,
    global_draws,
    look_at,
)
from fedtorch.tensors import CPU

_OF_ALL_MODULES = frozenset(vars(nn.Module()))


def memory_of(module: nn.Module, loss: Any) -> Memory:
    """Returns what looks whether steps change more than tensors of the model."""
    known = [*map(id, module.parameters()), *map(id, module.buffers())]
    return Memory(
        [
            Part(
                "the model",
                module,
                "what it remembers beside its parameters and buffers",
                "make it a parameter, or a buffer that is changed in place",
            ),
            Part(
                "the loss", loss, "what a loss remembers", "make it a part of the model"
            ),
        ],
        known,
        ModelError,
    )


def draws_on(device: torch.device) -> Restore:
    """Takes note of all global random generators, of the CPU and of a device."""
    others, mine = global_draws(), torch.get_rng_state()
    there = None if device == CPU else torch.get_device_module(device)
    theirs = None if there is None else there.get_rng_state()

    def restore() -> None:
        others()
        torch.set_rng_state(mine)
        if there is not None:
            there.set_rng_state(theirs)

    return restore


@look_at.register(nn.Module)
def _(value: Any, name: str, held: Held, deep: int) -> None:
    held.user_object(name, value, deep, _OF_ALL_MODULES)
    for part in value._parameters.values():
        held.given[id(part)] = part
    for parts in (value._parameters, value._buffers, value._modules):
        for key, part in [*parts.items()]:
            held.attribute(name, key, part, deep)


@look_at.register(torch.Tensor)
def _(value: Any, name: str, held: Held, deep: int) -> None:
    if not value.is_leaf:  # it cannot be copied as it is
        held.given[id(value)] = value.detach().clone()
    elif value.requires_grad:
        held.trained[name] = value
    is_large = value.numel() > LARGE
    if is_large:
        held.given[id(value)] = value
    try:
        flat = value.detach().reshape(-1)
        flat = flat[:: len(flat) // SOME] if is_large else flat
        whole = flat.cpu().contiguous().view(torch.uint8).numpy().tobytes()
    except (RuntimeError, NotImplementedError, TypeError):  # such as a sparse tensor
        whole = None
    held.values[name] = str(value.dtype), tuple(value.shape), whole


@look_at.register(torch.Generator)
def _(value: Any, name: str, held: Held, deep: int) -> None:
    if value is not torch.default_generator:
        held.generator(name, value.get_state().numpy().tobytes())


@look_at.register(torch.dtype)
@look_at.register(torch.device)
@look_at.register(torch.Size)
def _(value: Any, name: str, held: Held, deep: int) -> None:
    held.values[name] = str(value)
