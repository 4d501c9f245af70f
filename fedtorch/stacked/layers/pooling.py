"""Pools: they treat each sample by itself."""

from typing import Any

from torch import nn

from fedtorch.stacked.layers.registry import register
from fedtorch.stacked.layers.window import Window, compiled_window, pair_of, window


def _maximum(layer: Any) -> Window | None:
    found = None if layer.ceil_mode else window(layer, "maximum")
    return None if found is None or _wide(found) else found


def _mean(layer: Any) -> Window | None:
    if layer.ceil_mode or getattr(layer, "divisor_override", None) is not None:
        return None
    found = window(layer, "mean")
    return None if found is None or any(found.pad) else found


def _wide(window: Window) -> bool:
    """Whether the border is wider than torch allows."""
    return any(2 * p > k for p, k in zip(window.pad, window.kernel, strict=True))


def _parts(layer: Any) -> Window:
    return Window("mean", parts=pair_of(layer, layer.output_size))


for _types, _find, _name in (
    ((nn.MaxPool1d, nn.MaxPool2d), _maximum, "max_pool"),
    ((nn.AvgPool1d, nn.AvgPool2d), _mean, "avg_pool"),
    ((nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d), _parts, "adaptive_avg_pool"),
):
    names = [f"{_name}1d", f"{_name}2d"]
    register(*_types, compiled=compiled_window(_find), of_samples=names)
register(
    nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d, nn.LPPool1d, nn.LPPool2d,
    of_samples=("adaptive_max_pool1d", "adaptive_max_pool2d"),
)  # fmt: skip
