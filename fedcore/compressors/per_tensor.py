"""Per tensor: each tensor of the model is compressed by itself, and some stay exact.

Dutta, Bergou, Abdelmoniem, Ho, Sahu, Canini, Kalnis, "On the Discrepancy between the
Theoretical Analysis and Practical Implementations of Compressed Communication for
Distributed Deep Learning", AAAI 2020, arXiv 1911.08250: layer-wise against
entire-model compression. With C applied to each of the parts x_1 … x_P,
E‖C(x) - x‖² = Σ E‖C(x_p) - x_p‖², so a contraction stays one with the smallest δ of the
parts, and an unbiased compressor stays one with the largest ω. An exact part has δ = 1
and ω = 0.

Which is better depends on the compressor: steps and scales of a tensor by itself fit
its values, while top-k spends the same budget best over the whole vector. Biases and
normalisation layers are few values, of another size than the rest, and may be worth
sending as they are.
"""

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedcore.compressors._parts import EXACT, by_parts
from fedcore.compressors.base import (
    AnyCompressor,
    Class,
    Compressor,
    CompressorConfig,
    largest_of,
)
from fedcore.compressors.top_k import TopK
from fedcore.errors import ConfigError
from fedcore.params import ParamSpec, TensorSpec
from fedcore.payloads import Declared, Layout
from fedcore.rng import Key

_MOST_NAMES = 20  # of the tensors that a sentence lists


class PerTensor(CompressorConfig):
    """The inner compressor on each tensor by itself; chosen tensors travel exactly."""

    kind: Literal["per_tensor"] = "per_tensor"
    inner: AnyCompressor = TopK()
    """The compressor; its ratios, scales and steps are those of each tensor."""
    exact: tuple[str, ...] = ()
    """Tensors whose name matches one of these patterns travel as they are: ``*.bias``,
    ``norm?.*``; upper and lower case differ."""
    exact_below: int = Field(default=0, ge=0)
    """Tensors of fewer values than this travel as they are."""
    together: bool = False
    """All tensors that are not exact are one vector for the inner compressor."""

    @property
    def bias(self) -> Class:
        """The class of the inner compressor, with the smallest δ or the largest ω."""
        return self.inner.bias

    def shorter(self, share: float) -> Self | None:
        """Returns these settings with a shorter inner compressor."""
        inner = self.inner.shorter(share)
        return None if inner is None else self.model_copy(update={"inner": inner})

    @model_validator(mode="after")
    def _settings_make_sense(self) -> "PerTensor":
        kind = self.inner.kind
        if isinstance(self.inner, PerTensor):
            raise ValueError("per_tensor inside per_tensor: one of them is enough")
        if self.inner.holds != "nothing":
            raise ValueError(f"{kind} inside per_tensor: put the memory around it")
        if kind == "identity":
            raise ValueError(f"{kind} inside per_tensor: every tensor is exact already")
        if self.together and self._is_apart():
            raise ValueError(
                f"together: true says nothing to {kind}, which treats each tensor by "
                "itself"
            )
        if any(pattern and not pattern.strip("*") for pattern in self.exact):
            raise ValueError(
                "exact: '*' matches every tensor, and nothing would be compressed; "
                "take identity"
            )
        if self.together and not self.exact and self.exact_below <= 1:
            raise ValueError(
                f"together: true with no exact tensors is {kind} alone; name some with "
                f"exact or exact_below, or take {kind}"
            )
        return self

    def _is_apart(self) -> bool:
        """Returns whether the inner compressor's message has parts already."""
        encode = self.inner.build((1, 1)).encode
        message, _ = encode(np.ones(2, np.float32), None, Key.root(0))
        return message.format == "parts"

    def list_formats(self, layout: Layout) -> Declared:
        """Returns the formats of all groups of tensors."""
        return self._list_formats(_number_tensors(layout))

    def list_formats_for(self, spec: ParamSpec) -> Declared:
        """Returns the declared formats for tensors with names."""
        return self._list_formats(spec)

    def _list_formats(self, spec: ParamSpec) -> Declared:
        exact, groups = self._groups(spec)
        inside = [
            self.inner.list_formats_for(_model_of(spec, group)) for group in groups
        ]
        values = sum(spec.sizes[number] for number in exact)
        return largest_of([{"parts": len(spec.sizes), "dense": values}, *inside])

    def build(self, layout: Layout) -> Compressor:
        """Returns the compressor for this layout; tensors are named by numbers."""
        return self._build(_number_tensors(layout))

    def build_for(self, spec: ParamSpec) -> Compressor:
        """Returns the compressor for this model.

        Raises:
            ConfigError: a pattern matches no tensor.
        """
        names = [tensor.name for tensor in spec.tensors]
        for pattern in self.exact:
            if not any(fnmatchcase(name, pattern) for name in names):
                raise ConfigError(
                    f"per_tensor: exact: {pattern!r} matches no tensor of this model; "
                    f"there are {_list_names(names)}"
                )
        return self._build(spec)

    def _build(self, spec: ParamSpec) -> Compressor:
        exact, groups = self._groups(spec)
        parts = [
            (group, self.inner.build_for(_model_of(spec, group))) for group in groups
        ]
        return by_parts(spec.sizes, [(exact, EXACT), *parts] if exact else parts)

    def _groups(self, spec: ParamSpec) -> tuple[list[int], list[list[int]]]:
        """Returns the tensors that travel exactly, and the groups of the others."""
        exact: list[int] = []
        rest: list[int] = []
        for number, tensor in enumerate(spec.tensors):
            if tensor.size:  # an empty tensor has no message
                (exact if self._is_exact(tensor) else rest).append(number)
        if self.together and rest:
            return exact, [rest]
        return exact, [[number] for number in rest]

    def _is_exact(self, tensor: TensorSpec) -> bool:
        return tensor.size < self.exact_below or any(
            fnmatchcase(tensor.name, pattern) for pattern in self.exact
        )


def _number_tensors(layout: Layout) -> ParamSpec:
    """Returns tensors whose names are their numbers."""
    tensors, at = [], 0
    for number, size in enumerate(layout):
        tensors.append(TensorSpec(str(number), (size,), at))
        at += size
    return ParamSpec(tuple(tensors))


def _model_of(spec: ParamSpec, group: Sequence[int]) -> ParamSpec:
    """Returns these tensors as a model of their own."""
    tensors, at = [], 0
    for number in group:
        tensors.append(replace(spec.tensors[number], offset=at))
        at += tensors[-1].size
    return ParamSpec(tuple(tensors))


def _list_names(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    text = ", ".join(names[:_MOST_NAMES])
    return f"{text} and {more} more" if more > 0 else text
