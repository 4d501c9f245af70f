"""Which tensors of a module are averaged, stay on the client, or never change.

A name pattern says so. Without one, parameters with ``requires_grad`` are trained and
averaged, batch statistics are averaged, and everything else is frozen. Counters of
batches stay with the client: whole numbers have no mean, and only layers with
``momentum=None`` read theirs.
"""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple, get_args

import torch
from torch import nn

from fedcore.errors import ModelError
from fedcore.merging import LOCAL, MEAN, PARAMETER, Merge
from fedtorch.advice import advice
from fedtorch.modules import (
    BATCH_STATISTICS,
    COUNTER,
    MEAN_NAME,
    VARIANCE_NAME,
    trainable,
)

Kind = Literal["average", "local", "frozen"]
Buffers = Kind | Mapping[str, Kind] | None
KINDS: tuple[Kind, ...] = get_args(Kind)


class Layout(NamedTuple):
    """The names of a module's tensors, in the order of the flat vector."""

    averaged: dict[str, Merge]
    """Parameters, then buffers."""
    local: dict[str, Merge]
    """What has no gradient, then parameters."""
    frozen: tuple[str, ...]
    """Part of the fingerprint."""
    fixed: tuple[str, ...]
    """Layers that use frozen batch statistics in training as well."""
    advice: str
    """What a user should know, as a sentence; empty if there is nothing."""


def layout(module: nn.Module, buffers: Buffers, local: Iterable[str]) -> Layout:
    """Sorts a module's tensors by what becomes of them.

    Args:
        module: the module.
        buffers: one kind for all batch statistics, or kinds by name pattern for any
            buffers; the first pattern that matches counts.
        local: name patterns of parameters and buffers that stay on the client.

    Raises:
        ModelError: a pattern matches nothing, or a kind does not exist.
    """
    whole = {name: MEAN for name, _ in module.named_buffers()}
    statistics = _statistics(module)
    kinds = dict.fromkeys(statistics, "average") | _choose_kinds(
        buffers, whole, statistics
    )
    trained = trainable(module)
    frozen = [n for n, p in module.named_parameters() if not p.requires_grad]
    for pattern in [local] if isinstance(local, str) else local:
        names = _matching(pattern, [*trained, *frozen, *whole], "local")
        kinds.update(dict.fromkeys(names, "local"))
    counters = {name for name in statistics if name.endswith(COUNTER)}
    ignored = {n for n in counters if kinds[n] != "local" and not _is_read(module, n)}
    tensors = dict(module.named_buffers())
    for name in whole:
        if kinds.get(name) == "average" and not tensors[name].is_floating_point():
            kinds[name] = "local"
    moved = [n for n in whole if kinds.get(n) == "average" and n not in ignored]
    kept = [n for n in whole if kinds.get(n) == "local" and n not in ignored]
    averaged = {n: PARAMETER for n in trained if kinds.get(n) != "local"}
    if not averaged:
        raise ModelError(
            "local: every parameter that is trained would stay on the client, and "
            "nothing would be sent"
        )
    averaged |= {name: _merge(name, statistics, moved) for name in moved}
    kept += [name for name in frozen if kinds.get(name) == "local"]
    stays = dict.fromkeys(kept, LOCAL)
    stays |= {name: PARAMETER for name in trained if kinds.get(name) == "local"}
    known = {*averaged, *stays, *ignored}
    layers = {name.rpartition(".")[0] for name in statistics}
    fixed = {layer for layer in layers if _kinds_of(layer, kinds) == {"frozen"}}
    return Layout(
        averaged,
        stays,
        tuple(n for n in [*frozen, *whole] if n not in known),
        tuple(sorted(fixed)),
        advice(module, statistics if buffers is None else [], kinds, stays),
    )


def place(module: nn.Module, name: str) -> tuple[nn.Module, str]:
    """Returns the layer that a tensor belongs to, and its name there."""
    path, _, own = name.rpartition(".")
    return module.get_submodule(path), own


def _statistics(module: nn.Module) -> list[str]:
    """Returns the names of all buffers that hold batch statistics."""
    return [
        f"{name}.{own}" if name else own
        for name, layer in module.named_modules()
        if isinstance(layer, BATCH_STATISTICS)
        for own, buffer in layer.named_buffers(recurse=False)
        if isinstance(buffer, torch.Tensor)
    ]


def _choose_kinds(
    buffers: Buffers, names: Iterable[str], statistics: list[str]
) -> dict[str, str]:
    """Returns the kinds that the user has asked for."""
    if buffers is None:
        return {}
    if isinstance(buffers, str):
        _check_kind(buffers)
        if not statistics:
            raise ModelError(
                f"buffers: {buffers!r}: the model keeps no batch statistics; its "
                f"buffers: {_list_names(names)}"
            )
        return dict.fromkeys(statistics, buffers)
    found: dict[str, str] = {}
    for pattern, kind in reversed([*buffers.items()]):
        _check_kind(kind)
        found |= dict.fromkeys(_matching(pattern, names, "buffers"), kind)
    return found


def _check_kind(kind: str) -> None:
    if kind not in KINDS:
        raise ModelError(f"buffers: {kind!r} is none of {', '.join(KINDS)}")


def _matching(pattern: str, names: Iterable[str], what: str) -> list[str]:
    found = [name for name in names if fnmatchcase(name, pattern)]
    if not found:
        raise ModelError(
            f"{what}: {pattern!r} matches no tensor; there are: {_list_names(names)}"
        )
    return found


def _list_names(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _kinds_of(layer: str, kinds: Mapping[str, str]) -> set[str]:
    """Returns what becomes of a layer's statistics."""
    start = f"{layer}." if layer else ""
    return {
        kinds[start + own] for own in (MEAN_NAME, VARIANCE_NAME) if start + own in kinds
    }


def _is_read(module: nn.Module, counter: str) -> bool:
    """Returns whether a layer reads its counter: one that weighs all batches alike."""
    return getattr(place(module, counter)[0], "momentum", None) is None


def _merge(name: str, statistics: list[str], averaged: list[str]) -> Merge:
    mean = name.removesuffix(VARIANCE_NAME) + MEAN_NAME
    is_pair = name in statistics and name.endswith(VARIANCE_NAME) and mean in averaged
    return Merge("variance", mean) if is_pair else MEAN
