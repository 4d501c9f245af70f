"""Has Python seldom look for objects that only refer to one another."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_NEW_OBJECTS = 100_000  # between two searches for cycles


@contextmanager
def few_collections() -> Iterator[None]:
    """Spares all objects that there are from the search for cycles; others wait longer.

    A simulation makes many small objects and no cycles of them, and what it knows of
    100,000 clients would be searched again and again: a fifth of its time.
    """
    before = gc.get_threshold()
    if not before[0] or not gc.isenabled():
        yield
        return
    gc.freeze()
    gc.set_threshold(max(_NEW_OBJECTS, before[0]), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
