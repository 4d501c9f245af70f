"""What a loss holds beside the model: numbers that stay. All else is refused.

Only the model is sent and kept. A loss that remembers, or that has a parameter to
train, would be another one at each client, and in a simulation one for all of them.
"""

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

from fedcore.errors import ModelError

_OF_ALL_MODULES = {*vars(nn.Module())}
_DEEP = 4  # levels of lists and dicts that are looked at


class LossState:
    """Looks whether the first step changes a loss."""

    def __init__(self, loss: Any) -> None:
        """Looks at nothing yet; losses of torch itself hold nothing that changes."""
        self._loss = loss.__self__ if inspect.ismethod(loss) else loss
        is_plain = inspect.isroutine(self._loss) or isinstance(self._loss, type)
        is_torchs = type(self._loss).__module__.startswith("torch.")
        self._is_known = is_plain or is_torchs
        self._before: dict[str, Any] = {}

    def begin(self) -> None:
        """Takes note of what the loss holds, before its first step."""
        if not self._is_known:
            self._before = dict(_held(self._loss))

    def end(self) -> None:
        """Compares, after the step.

        Raises:
            ModelError: the loss has changed, or has a parameter that would be trained.
        """
        if self._is_known:
            return
        if isinstance(self._loss, nn.Module):
            for name, parameter in self._loss.named_parameters():
                if parameter.grad is not None:
                    parameter.grad = None
                    raise ModelError(
                        f"the loss has a parameter {name!r} of its own, which nobody "
                        "would train; make it a part of the model"
                    )
        after = dict(_held(self._loss))
        for name in self._before.keys() | after.keys():
            if self._before.get(name) != after.get(name):
                raise ModelError(
                    f"the loss changes its {name!r} in training, and what a loss "
                    "remembers is neither sent nor kept; make it a part of the model, "
                    "or compute it from the inputs"
                )
        self._is_known = True


def _held(loss: Any) -> Iterator[tuple[str, Any]]:
    """Yields what a loss holds, by name, as values that can be compared."""
    parts = {"": loss}
    if isinstance(loss, nn.Module):
        parts = dict(loss.named_modules())
        for name, buffer in loss.named_buffers():
            yield name, _value(buffer)
    for start, part in parts.items():
        for name, value in getattr(part, "__dict__", {}).items():
            if not (isinstance(part, nn.Module) and name in _OF_ALL_MODULES):
                yield f"{start}.{name}" if start else name, _value(value)


def _value(held: Any, deep: int = _DEEP) -> Any:
    """A value that is equal as long as what is held is; None for what is no value."""
    if isinstance(held, torch.Tensor):
        held = held.detach().cpu().float().numpy()
    if isinstance(held, np.ndarray | np.generic):
        return held.shape, held.tobytes()
    if isinstance(held, bool | int | float | str | bytes):
        return repr(held)
    if not deep:
        return None
    if isinstance(held, dict):
        return [(str(name), _value(part, deep - 1)) for name, part in held.items()]
    if isinstance(held, list | tuple):
        return [_value(part, deep - 1) for part in held]
    return len(held) if isinstance(held, set | frozenset) else None
