"""Text without a download: the source of Python's standard library, as bytes."""

import sysconfig
from functools import cache
from pathlib import Path

import numpy as np

LENGTH = 128  # bytes of a row
CLIENTS = ("asyncio", "email", "encodings", "json", "multiprocessing", "pydoc_data",
           "unittest", "xml")  # fmt: skip
"""One package each. Half of them are code, one is tables, one is English prose."""
MOST_ROWS, TEST_ROWS = 1500, 24


@cache
def rows(package: str) -> np.ndarray:
    """All bytes of a package's modules, in rows; '' means those in no package."""
    folder = Path(sysconfig.get_path("stdlib"), package)
    files = sorted(folder.rglob("*.py") if package else folder.glob("*.py"))
    text = b"\n".join(file.read_bytes() for file in files)
    whole = np.frombuffer(text, np.uint8)
    return whole[: len(whole) // LENGTH * LENGTH].reshape(-1, LENGTH)


def split(package: str) -> tuple[np.ndarray, np.ndarray]:
    """The rows of a package for training and for testing, drawn in blocks of ten."""
    whole = rows(package)
    blocks = np.array_split(whole, max(2, len(whole) // 10))
    order = np.random.default_rng(0).permutation(len(blocks))
    mixed = np.concatenate([blocks[each] for each in order])
    held = min(TEST_ROWS, len(whole) // 4)
    return mixed[held : held + MOST_ROWS], mixed[:held]
