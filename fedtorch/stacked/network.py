"""A plain sequence of modules, as the compiled loop is told of it."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from torch import nn

from fedcore.kernels.descent import Layer
from fedcore.params import ParamSpec

Shape = tuple[int, ...]  # of a sample, as torch has it
Pair = tuple[int, int]
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d)
MAXIMA = (nn.MaxPool1d, nn.MaxPool2d)
MEANS = (nn.AvgPool1d, nn.AvgPool2d)
PARTS = (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d)
ALONG_ONE = (nn.Conv1d, nn.MaxPool1d, nn.AvgPool1d, nn.AdaptiveAvgPool1d)


class Window(NamedTuple):
    """What each output of a convolution or a pool is made of."""

    kind: Literal["product", "maximum", "mean"]
    flat: bool  # of samples with one dimension beside the channels
    kernel: Pair
    stride: Pair
    pad: Pair
    parts: tuple[int | None, int | None] | None  # so many, of equal size; None: all


class Step(NamedTuple):
    """A module, its window, and where its weights and biases lie in the vector."""

    module: Any
    window: Window | None
    weight: int
    bias: int


def planned(
    layers: Sequence[tuple[str, nn.Module]], spec: ParamSpec
) -> list[Step] | None:
    """What the loop would have to do; None: it does not know a layer of them.

    The layers are those of ``flattened``, which pad with zeros and give one tensor.
    Each parameter of the spec has to belong to one of the layers, and the other way.
    """
    tensors = {tensor.name: tensor for tensor in spec.tensors}
    steps = list[Step]()
    module: Any
    for name, module in layers:
        window, weight, bias = None, -1, -1
        if type(module) in (nn.Linear, *CONVOLUTIONS):
            names = [f"{name}.{part}" if name else part for part in ("weight", "bias")]
            matrix, vector = (tensors.pop(each, None) for each in names)
            if matrix is None or (vector is None) != (module.bias is None):
                return None
            if tuple(module.weight.shape) != _weights(module):
                return None
            weight, bias = matrix.offset, -1 if vector is None else vector.offset
        if type(module) not in (nn.Linear, nn.ReLU) and not _flattens(module):
            window = _window(module)
            if window is None:
                return None
        steps.append(Step(module, window, weight, bias))
    return None if tensors or type(steps[-1].module) is not nn.Linear else steps


def network(steps: Sequence[Step], shape: Shape) -> list[Layer] | None:
    """The layers for samples of this shape, each with the ReLU behind it, or None."""
    layers: list[Layer] = []
    for step in steps:
        if type(step.module) is nn.Flatten:
            shape = (int(np.prod(shape)),)
        elif type(step.module) is nn.ReLU:
            if not layers:
                return None
            layers[-1] = layers[-1]._replace(rectified=True)
        else:
            made = _linear if step.window is None else _windowed
            found = made(step, shape)
            if found is None:
                return None
            layers.append(found)
            flat = step.window is not None and step.window.flat
            shape = found.outputs[::2] if flat else found.outputs[: len(shape)]
    return layers


def _linear(step: Step, shape: Shape) -> Layer | None:
    if shape != (getattr(step.module, "in_features", None),):
        return None
    inputs, outputs = (shape[0], 1, 1), (step.module.out_features, 1, 1)
    return Layer(inputs, outputs, weight=step.weight, bias=step.bias)


def _windowed(step: Step, shape: Shape) -> Layer | None:
    window = step.window
    assert window is not None
    if len(shape) != (2 if window.flat else 3):
        return None
    channels, *image = (shape[0], 1, shape[1]) if window.flat else shape
    out = channels
    if window.kind == "product":
        out = step.module.out_channels
        if channels != step.module.in_channels:
            return None
    if window.parts is None:
        rows, columns = (
            (size + 2 * pad - kernel) // stride + 1
            for size, kernel, stride, pad in zip(image, *window[2:5], strict=True)
        )
    else:
        rows, columns = (
            size if part is None else part
            for size, part in zip(image, window.parts, strict=True)
        )
    if min(channels, *image, rows, columns) < 1:
        return None
    inputs, outputs = (channels, image[0], image[1]), (out, rows, columns)
    return Layer(
        inputs, outputs, *window[2:5], window.kind, weight=step.weight, bias=step.bias
    )


def _window(module: Any) -> Window | None:
    """Of a convolution or a pool; None: it is another module, or set to do more."""
    kind, flat = type(module), type(module) in ALONG_ONE

    def pair(value: Any, other: int = 1) -> Any:
        value = tuple(value) if isinstance(value, (tuple, list)) else (value,)
        return (other, value[0]) if flat else (value * 2)[:2]

    if kind in PARTS:
        parts = pair(module.output_size)
        return Window("mean", flat, (1, 1), (0, 0), (0, 0), parts)
    if kind in CONVOLUTIONS:
        if module.groups != 1:
            return None
    elif kind not in MAXIMA + MEANS or module.ceil_mode:
        return None
    if getattr(module, "divisor_override", None) is not None:
        return None
    if pair(getattr(module, "dilation", 1)) != (1, 1):
        return None
    kernel, stride = pair(module.kernel_size), pair(module.stride)
    pad = pair(module.padding, 0)
    if module.padding == "valid":
        pad = (0, 0)
    if module.padding == "same":
        pad = ((kernel[0] - 1) // 2, (kernel[1] - 1) // 2)
        if not all(k % 2 for k in kernel):
            return None  # there are more zeros on one side
    if min(*kernel, *stride) < 1 or min(pad) < 0:
        return None  # torch has an error for it
    if any(p >= k for p, k in zip(pad, kernel, strict=True)):
        return None
    if kind in CONVOLUTIONS:
        return Window("product", flat, kernel, stride, pad, None)
    if any(2 * p > k for p, k in zip(pad, kernel, strict=True)):
        return None
    if kind in MAXIMA:
        return Window("maximum", flat, kernel, stride, pad, None)
    return None if any(pad) else Window("mean", flat, kernel, stride, pad, None)


def _weights(module: Any) -> Shape:
    """The shape that follows from what the module says of itself."""
    if type(module) is nn.Linear:
        return module.out_features, module.in_features
    return module.out_channels, module.in_channels // module.groups, *module.kernel_size


def _flattens(module: nn.Module) -> bool:
    return type(module) is nn.Flatten and (module.start_dim, module.end_dim) == (1, -1)
