"""Keeps files of a run aside before records are cut off."""

import filecmp
import shutil
from collections.abc import Callable
from pathlib import Path

from fedrun.durable import make_folder, make_private, sync_file, sync_folder
from fedrun.journal.disk import writing


def keep_aside(folder: Path, name: str, copy: Callable[[Path], None]) -> Path:
    """Keeps what ``copy`` writes, durably, below ``cut``; returns the folder.

    A folder of the same name with the same files is taken instead. What an
    interrupted call left is removed.
    """
    parent = folder / "cut"
    making, kept, count = parent / ".making", parent / name, 1
    with writing(parent):
        if making.exists():
            shutil.rmtree(making)
        make_folder(making)
        copy(making)
        for file in making.iterdir():
            sync_file(file)
        sync_folder(making)
        while kept.exists() and not _is_same(kept, making):
            count += 1
            kept = parent / f"{name}-{count}"
        if kept.exists():
            shutil.rmtree(making)
        else:
            making.rename(kept)
        sync_folder(parent)
    return kept


def _is_same(folder: Path, other: Path) -> bool:
    """Returns whether two folders hold the same files."""
    names = sorted(path.name for path in folder.iterdir())
    if names != sorted(path.name for path in other.iterdir()):
        return False
    return all(filecmp.cmp(folder / n, other / n, shallow=False) for n in names)


def copy_file(source: Path, target: Path) -> None:
    """Copies a file; only this user can read the copy."""
    make_private(target)
    shutil.copyfile(source, target)
