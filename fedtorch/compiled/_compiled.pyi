from typing_extensions import Buffer

INTERFACE: int

def descend(
    shapes: Buffer,
    rule: tuple[
        float, float, float, float, float, float, float, float, bool, bool, bool, int
    ],
    x: Buffer,
    y: Buffer,
    rows: Buffer,
    sizes: Buffer,
    start: Buffer,
    drift: Buffer | None,
    velocity: Buffer | None,
    squares: Buffer | None,
    powers: Buffer | None,
    trained: Buffer | None,
    out: Buffer,
    losses: Buffer,
    lanes: int,
    /,
) -> bool: ...
