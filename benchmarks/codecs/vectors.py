"""Update vectors for compression, of known shapes, and the same in every run."""

from collections.abc import Callable

import numpy as np

from fedcore.rng import Key
from fedcore.typing import Vector

Draw = Callable[[np.random.Generator, int], Vector]

SHAPES: dict[str, Draw] = {
    "gaussian": lambda rng, dim: rng.standard_normal(dim, np.float32),
    "laplace": lambda rng, dim: rng.laplace(size=dim).astype(np.float32),
    "student_t3": lambda rng, dim: rng.standard_t(3, dim).astype(np.float32),
}


def draw(shape: str, dim: int) -> Vector:
    """So many values, a hundredth in size, as those of an update are."""
    rng = Key.root(0).fold_in("codecs", shape, dim).generator()
    return SHAPES[shape](rng, dim) * np.float32(0.01)


def relative_error(found_D: Vector, true_D: Vector) -> float:
    """‖found - true‖² / ‖true‖², summed in double precision."""
    lost = all_of_it = 0.0
    for at in range(0, len(true_D), 1 << 20):
        part = slice(at, at + (1 << 20))
        true = true_D[part].astype(np.float64)
        lost += float(np.sum((found_D[part] - true) ** 2))
        all_of_it += float(np.sum(true**2))
    return lost / all_of_it
