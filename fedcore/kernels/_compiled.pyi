from typing_extensions import Buffer

INTERFACE: int

def absolute_sums(x: Buffer, out: Buffer, /) -> None: ...
def square_sums(x: Buffer, out: Buffer, /) -> None: ...
def plain_sums(x: Buffer, out: Buffer, /) -> None: ...
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
def descend(
    sizes: Buffer,
    places: Buffer,
    descent: tuple[float, float, float, float],
    x: Buffer,
    y: Buffer,
    rows: Buffer,
    taken: Buffer,
    start: Buffer,
    velocity: Buffer | None,
    out: Buffer,
    losses: Buffer,
    /,
) -> bool: ...
