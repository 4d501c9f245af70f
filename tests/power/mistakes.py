"""Mistakes in the order of writes, each of which a power cut must bring to light."""

from collections.abc import Callable
from contextlib import ExitStack

Mistake = Callable[[ExitStack], None]
MISTAKES: dict[str, Mistake] = {}
