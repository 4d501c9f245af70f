from typing import Any

from typing_extensions import Buffer

INTERFACE: int

def absolute_sums(x: Buffer, out: Buffer, /) -> None: ...
def square_sums(x: Buffer, out: Buffer, /) -> None: ...
def plain_sums(x: Buffer, out: Buffer, /) -> None: ...
def add_rows(
    rows: tuple[tuple[Any, int], ...], shares: Buffer, out: Buffer, /
) -> bool: ...
def positive(x: Buffer, seeds: Buffer, out: Buffer, /) -> None: ...
def put_signs(plus: Buffer, sizes: Buffer, scales: Buffer, out: Buffer, /) -> None: ...
def add_signs(plus: Buffer, sizes: Buffer, scales: Buffer, out: Buffer, /) -> None: ...
def quantise(
    x: Buffer,
    rows: int,
    bucket: int,
    top: int,
    measure: int,
    seeds: Buffer | None,
    levels: Buffer,
    steps: Buffer,
    /,
) -> None: ...
def put_levels(
    levels: Buffer, bucket: int, steps: Buffer, scale: float | None, out: Buffer, /
) -> None: ...
def above(x: Buffer, threshold: int, out: Buffer, /) -> int: ...
def largest(x: Buffer, rows: int, some: Buffer, out: Buffer, /) -> None: ...
def shifted_sum(numbers: Buffer, width: int, /) -> int: ...
def put_rice(numbers: Buffer, width: int, out: Buffer, /) -> None: ...
def descend(
    shapes: Buffer,
    descent: tuple[float, float, float, float],
    x: Buffer,
    y: Buffer,
    rows: Buffer,
    sizes: Buffer,
    start: Buffer,
    velocity: Buffer | None,
    out: Buffer,
    losses: Buffer,
    lanes: int,
    /,
) -> bool: ...
