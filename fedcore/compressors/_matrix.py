"""Tensors as matrices, for the methods that look for structure in them."""

import math

from fedcore.params import ParamSpec

Shape = tuple[int, int]  # rows and columns


def matrices(spec: ParamSpec) -> list[Shape]:
    """Returns each tensor's first axis and all others; a vector has one row."""
    return [_matrix(tensor.shape) for tensor in spec.tensors]


def _matrix(shape: tuple[int, ...]) -> Shape:
    return (shape[0], math.prod(shape[1:])) if len(shape) > 1 else (1, math.prod(shape))


def squarest(size: int) -> Shape:
    """Returns the rows and columns closest to a square, of a tensor without a shape."""
    rows = next((n for n in range(math.isqrt(size), 0, -1) if size % n == 0), 1)
    return rows, size // rows
