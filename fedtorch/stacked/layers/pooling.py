"""Pools, which treat each sample by itself."""

from typing import Any

from torch import nn

from fedtorch.stacked.layers.registry import register
from fedtorch.stacked.layers.window import Window, describe_parts, describe_window


def _can_maximum(layer: Any, window: Window) -> bool:
    """Returns whether the border is no wider than torch allows."""
    pads = zip(window.pad, window.kernel, strict=True)
    return not layer.ceil_mode and all(sum(pad) <= k for pad, k in pads)


def _can_mean(layer: Any, window: Window) -> bool:
    divides = getattr(layer, "divisor_override", None) is not None
    return not layer.ceil_mode and not divides and window.even_pad == (0, 0)


for _types, _compiled, _name in (
    (
        (nn.MaxPool1d, nn.MaxPool2d),
        describe_window("maximum", _can_maximum),
        "max_pool",
    ),
    ((nn.AvgPool1d, nn.AvgPool2d), describe_window("mean", _can_mean), "avg_pool"),
    (
        (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d),
        describe_parts,
        "adaptive_avg_pool",
    ),
):
    names = [f"{_name}1d", f"{_name}2d"]
    register(*_types, compiled=_compiled, of_samples=names)
register(
    nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d, nn.LPPool1d, nn.LPPool2d,
    of_samples=("adaptive_max_pool1d", "adaptive_max_pool2d"),
)  # fmt: skip
