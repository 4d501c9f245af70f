"""The windows of convolutions and pools, also as the compiled loop is told of them."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import nn

from fedtorch.compiled import loop
from fedtorch.compiled.loop import Compiled, Offsets, Shape

Pair = tuple[int, int]
Describe = Callable[[Any, Offsets], Compiled | None]
_ALONG_ONE = (nn.Conv1d, nn.MaxPool1d, nn.AvgPool1d, nn.AdaptiveAvgPool1d)


def pair_of(layer: Any, value: Any, other: int = 1) -> Any:
    """Returns a setting for rows and columns; layers of one dimension have one row."""
    value = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    return (other, value[0]) if isinstance(layer, _ALONG_ONE) else (value * 2)[:2]


class Window(NamedTuple):
    """Which inputs each output is made of, along rows and columns."""

    kernel: Pair
    stride: Pair
    dilation: Pair
    pad: tuple[Pair, Pair]
    """Rows of zeros before and after an image, and columns."""

    @property
    def even_pad(self) -> Pair | None:
        """The zeros on each side, where both sides have the same number of them."""
        (top, bottom), (left, right) = self.pad
        return (top, left) if (top, left) == (bottom, right) else None

    def outputs(self, image: Pair) -> Pair:
        """Returns the rows and columns of outputs for an image of these sizes."""
        rows, columns = (
            (size + sum(pad) - d * (k - 1) - 1) // s + 1
            for size, k, s, d, pad in zip(image, *self, strict=True)
        )
        return rows, columns


def window_of(layer: Any) -> Window:
    """Returns the window of a convolution, or of a pool that has one."""
    kernel = pair_of(layer, layer.kernel_size)
    dilation = pair_of(layer, getattr(layer, "dilation", 1))
    if layer.padding == "same":
        total = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        high, wide = ((t // 2, t - t // 2) for t in total)
    else:
        padding = 0 if layer.padding == "valid" else layer.padding
        high, wide = ((p, p) for p in pair_of(layer, padding, 0))
    return Window(kernel, pair_of(layer, layer.stride), dilation, (high, wide))


class Image(NamedTuple):
    """N models, B images each of height H and width W, and the size of the outputs."""

    n: int
    b: int
    h: int
    w: int
    h_out: int
    w_out: int


class Geometry:
    """The settings of a Conv2d, or of a Conv1d as one of height 1."""

    def __init__(self, layer: Any) -> None:
        self.flat = isinstance(layer, nn.Conv1d)
        self.o, self.c = layer.out_channels, layer.in_channels
        self.window = window_of(layer)

    def image(self, shape: torch.Size) -> Image:
        """Returns the sizes for inputs (N, B, C, ...).

        Raises:
            ValueError: they have another number of channels.
        """
        if shape[2] != self.c:
            raise ValueError(f"expected {self.c} channels, got {shape[2]}")
        h, w = (1, shape[3]) if self.flat else shape[3:]
        return Image(shape[0], shape[1], h, w, *self.window.outputs((h, w)))


def describe_window(
    kind: Literal["product", "maximum", "mean"], can: Callable[[Any, Window], bool]
) -> Describe:
    """Describes layers with a window to the compiled loop.

    Args:
        kind: what an output is of its window.
        can: whether the loop can do what a layer is set to.
    """

    def describe(layer: Any, at: Offsets) -> Compiled | None:
        window = window_of(layer)
        kernel, stride, dilation, _ = window
        pad = window.even_pad  # None: there are more zeros on one side
        if dilation != (1, 1) or pad is None or not can(layer, window):
            return None
        if min(*kernel, *stride) < 1 or min(pad) < 0:
            return None  # torch has an error for it
        if any(p >= k for p, k in zip(pad, kernel, strict=True)):
            return None
        like = loop.Layer((0, 0, 0), (0, 0, 0), kernel, stride, pad, kind)
        return partial(_add, layer, at, like, window.outputs)

    return describe


def describe_parts(layer: Any, at: Offsets) -> Compiled | None:
    """Describes means of parts of equal size; None stands for a part a pixel."""
    parts = pair_of(layer, layer.output_size)

    def outputs(image: Pair) -> Pair:
        rows, columns = (
            size if part is None else part
            for size, part in zip(image, parts, strict=True)
        )
        return rows, columns

    like = loop.Layer((0, 0, 0), (0, 0, 0), stride=(0, 0), kind="mean")
    return partial(_add, layer, at, like, outputs)


def _add(
    layer: Any,
    at: Offsets,
    like: loop.Layer,
    outputs: Callable[[Pair], Pair],
    layers: list[loop.Layer],
    shape: Shape,
) -> Shape | None:
    flat = isinstance(layer, _ALONG_ONE)
    if len(shape) != (2 if flat else 3):
        return None
    channels, *image = (shape[0], 1, shape[1]) if flat else shape
    if getattr(layer, "in_channels", channels) != channels:
        return None
    rows, columns = outputs((image[0], image[1]))
    if min(channels, *image, rows, columns) < 1:
        return None
    found = like._replace(
        inputs=(channels, image[0], image[1]),
        outputs=(getattr(layer, "out_channels", channels), rows, columns),
        weight=at.get("weight", -1),
        bias=at.get("bias", -1),
    )
    layers.append(found)
    return found.outputs[::2] if flat else found.outputs
