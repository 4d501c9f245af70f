"""A module whose tensors are read from one vector: the model's, then the local ones.

Parameters are views of the vector. Buffers are copied into the module before a batch,
since layers change them, and from there into the places of their gradient after it.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from fedcore.errors import ModelError
from fedcore.memory import give_back
from fedcore.merging import PARAMETER, in_moments, in_variances
from fedcore.params import ParamSpec, Rest, TensorSpec, place_tensors
from fedcore.typing import Vector
from fedtorch.layout import Layout
from fedtorch.modules import fingerprint
from fedtorch.room import Room
from fedtorch.tensors import CPU, to_array

Beside = Callable[[nn.Module, ParamSpec], Rest]


class WholeModel:
    """The tensors of a module, sorted by what becomes of them."""

    def __init__(
        self,
        module: nn.Module,
        sorted_: Layout,
        device: torch.device = CPU,
        beside: Beside | None = None,
    ) -> None:
        """Takes over a module, whose tensors hold their first values.

        Args:
            module: is moved to the device.
            sorted_: what becomes of its tensors.
            device: where it computes.
            beside: says what a checkpoint holds beside the flat vector; None: all.
        """
        self.module, self._layout = module, sorted_
        self.spec = spec_of(module, sorted_)
        self._spec = whole = self.spec.whole
        self._rest = (beside or rest_of)(module, self.spec)
        module.to(device)
        # What NumPy sees of both: the same memory, or room for a copy of it.
        self.w_room, self.g_room = Room(whole.dim), Room(whole.dim)
        self.w_D = on(device, self.w_room)
        self.g_D = on(device, self.g_room)
        tensors = _tensors(module)
        self._buffers: list[tuple[TensorSpec, torch.Tensor]] = []
        for spec in whole.tensors:
            tensor = tensors[spec.name].detach()
            self.w_D[spec.slice] = tensor.reshape(-1)
            if spec.merge == PARAMETER:
                tensors[spec.name].data = self.w_D[spec.slice].view(spec.shape)
                if tensors[spec.name].requires_grad:
                    grad = self.g_D[spec.slice].view(spec.shape)
                    tensors[spec.name].grad = grad
            else:
                self._buffers.append((spec, tensor))
        in_moments(self.w_D, whole.moments)
        first_L = self.w_D[self.spec.dim :].cpu().numpy().copy()
        self.local_L: Vector | None = first_L if len(first_L) else None
        names = [n for n, _ in module.named_buffers() if n in sorted_.frozen]
        self._unchanged = {name: tensors[name].clone() for name in names}
        self._is_checked = False
        give_back(4 * whole.dim)  # the tensors that the module was built with

    def rest(self) -> Rest:
        """Returns what a checkpoint holds beside the flat vector, as it is at first."""
        return self._rest

    def train(self) -> None:
        """Lets the module train; layers with frozen statistics use them as they are."""
        to_training(self.module, self._layout.fixed)

    def load_buffers(self, module: nn.Module | None = None) -> None:
        """Copies the buffers from the vector into the module, or into a copy of it."""
        if not self._buffers:
            return
        w_D = self.w_D
        if self._spec.moments:
            w_D = w_D.clone()
            in_variances(w_D, self._spec.moments)
        for spec, own in self._buffers:
            buffer = own if module is None else module.get_buffer(spec.name)
            values = w_D[spec.slice].view(spec.shape)
            buffer.copy_(values if buffer.is_floating_point() else values.round())

    def take_buffers(self) -> None:
        """Copies the buffers from the module into the places of their gradient.

        Raises:
            ModelError: a buffer that is frozen has changed.
        """
        for spec, buffer in self._buffers:
            self.g_D[spec.slice] = buffer.reshape(-1)
        in_moments(self.g_D, self._spec.moments)
        if not self._is_checked:
            self._check()

    def check_again(self) -> None:
        """Has the next step checked for frozen buffers that change."""
        self._is_checked = False

    def _check(self) -> None:
        tensors = _tensors(self.module)
        for name, before in self._unchanged.items():
            if not torch.equal(tensors[name], before):
                raise ModelError(
                    f"buffer {name!r} changes in training; say what becomes of it, in "
                    f"buffers={{{name!r}: 'average'}} or 'local'"
                )
        self._is_checked = True


def on(device: torch.device, room: Room) -> torch.Tensor:
    """Returns the tensor of a room, or another one of its size on another device."""
    tensor_D = room.tensor_D
    if device == CPU:
        return tensor_D
    return torch.zeros(tensor_D.shape, device=device)


def spec_of(module: nn.Module, sorted_: Layout) -> ParamSpec:
    """Returns the spec of a module's flat vector."""
    tensors = _tensors(module)
    arrays = {
        name: np.broadcast_to(np.float32(0), tensors[name].shape)
        for name in sorted_.averaged
    }
    shapes = [
        (name, tuple(tensors[name].shape), merge)
        for name, merge in sorted_.local.items()
    ]
    known = module.state_dict(keep_vars=True)  # all but what the code computes anew
    frozen = fingerprint(module, (n for n in sorted_.frozen if n in known))
    return ParamSpec.of(
        arrays,
        frozen=frozen.whole,
        merges=sorted_.averaged,
        local=place_tensors(shapes),
        digests=frozen.parts,
    )


def flat_of(module: nn.Module, spec: ParamSpec) -> Vector:
    """Returns the flat vector of another module of the same layout."""
    tensors = _tensors(module)
    return spec.flatten(
        {each.name: tensors[each.name].detach().cpu().numpy() for each in spec.tensors}
    )


def rest_of(module: nn.Module, spec: ParamSpec) -> Rest:
    """Returns frozen and local tensors, counters, and second names of tied parameters.

    With the tensors of the spec, these are all that ``load_state_dict`` expects.
    """
    averaged = {tensor.name for tensor in spec.tensors}
    first = {id(p): name for name, p in _tensors(module).items() if name in averaged}
    whole = module.state_dict(keep_vars=True)
    tensors = {k: v for k, v in whole.items() if isinstance(v, torch.Tensor)}
    others = {k: v for k, v in tensors.items() if id(v) not in first}
    return Rest(
        frozen={name: to_array(tensor) for name, tensor in others.items()},
        tied={
            name: first[id(tensor)]
            for name, tensor in tensors.items()
            if first.get(id(tensor), name) != name
        },
    )


def to_training(module: nn.Module, fixed: tuple[str, ...]) -> nn.Module:
    """Lets a module train, but for the layers that stay as in evaluation."""
    module.train()
    for name in fixed:
        module.get_submodule(name).eval()
    return module


def _tensors(module: nn.Module) -> dict[str, Any]:
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}
