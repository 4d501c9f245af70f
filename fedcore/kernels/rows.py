"""Sums of rows, each with its share, in their order."""

from collections.abc import Sequence

import numpy as np

from fedcore.arrays import BLOCK
from fedcore.kernels.library import align, find_compiled
from fedcore.typing import Row, Vector


def add_rows(rows: Sequence[Row], shares: Sequence[float], out_D: Vector) -> None:
    """Adds ``out += share * row``, one row after the other.

    Product and sum are rounded to float32, so the bits are those of adding each row by
    itself. No row may be ``out`` itself.
    """
    shares_K = align(shares, np.float32)
    kernels = find_compiled(out_D) if out_D.dtype == np.float32 else None
    if kernels and kernels.add_rows(tuple(rows), shares_K, out_D):
        return
    product = np.empty(min(BLOCK, len(out_D)), np.float32)
    for at in range(0, len(out_D), BLOCK):  # so that the product stays in cache
        sums_B = out_D[at : at + BLOCK]
        part_B = product[: len(sums_B)]
        for (values_ND, place), share in zip(rows, shares_K, strict=True):
            np.multiply(values_ND[place, at : at + BLOCK], share, out=part_B)
            sums_B += part_B
