"""What a saved result rests on, so that anybody can see whether it is still true.

A result names the code that made it: each module that was imported, with a digest of
its lines of code, and each source of a kernel; a folder of which all files were in use
is one name. Comments, docstrings, imports and blank lines do not count. It also names
the golden runs of that day (:mod:`tests.golden.runs`): where one of them differs today,
the program behaves differently, and the result is of another program.
"""

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from fedcore.typing import JSON
from tools.code import lines_of_code

ROOT = Path(__file__).parent.parent
RESTS_ON, COMMAND = "rests on", "command"
GOLDEN = Path("tests/golden/runs.json")
_KERNELS = ("fedcore/kernels/c", "fedtorch/compiled/c")
_STARTS_PROCESSES = "tools.local"
_OF_PROCESSES = ("fedserver", "fedclient", "fedwire")  # which nobody imports here


class Change(NamedTuple):
    """The differences between today's program and the one that made a result."""

    sources: Sequence[str]
    """The files whose code differs or that are gone."""
    golden: Sequence[str]
    """The golden runs that differ or are gone."""


def stamp() -> JSON:
    """Returns the command that is running, and what it rests on, to be saved."""
    return {COMMAND: _command(sys.orig_argv), RESTS_ON: find()}


def find() -> dict[str, dict[str, str]]:
    """Returns the digests of the sources in use, by package, and of golden runs."""
    found = dict[str, list[str]]()
    for place in _places(sorted(set(_sources()))):
        package, _, rest = place.partition("/")
        found.setdefault(package, []).append(f"{rest} {digest_of(ROOT / place)}")
    written = {package: " ".join(places) for package, places in found.items()}
    golden = " ".join(f"{name} {digest}" for name, digest in _golden().items())
    return {"sources": written, "golden": {GOLDEN.as_posix(): golden}}


def compare(saved: Mapping[str, Mapping[str, str]]) -> Change:
    """Compares what a result rests on with today's program.

    Args:
        saved: what :func:`find` returned when the result was made.
    """
    sources = [
        f"{package}/{name}"
        for package, files in saved["sources"].items()
        for name, digest in _pairs(files)
        if digest_of(ROOT / package / name) != digest
    ]
    today = _golden()
    (golden,) = saved["golden"].values()
    changed = [name for name, digest in _pairs(golden) if today.get(name) != digest]
    return Change(sources, changed)


@cache
def digest_of(path: Path) -> str:
    """Returns the digest of the code of a file or folder; empty if it is gone."""
    if path.is_dir():
        files = _files_in(path)
        return _digest(" ".join(f"{each.name} {digest_of(each)}" for each in files))
    if not path.is_file():
        return ""
    text = path.read_text(encoding="utf-8")
    lines = lines_of_code(text) if path.suffix == ".py" else text.splitlines()
    return _digest("\n".join(lines))


def _sources() -> Iterator[str]:
    """Yields the files of this checkout that are in use, as paths below it."""
    names = {name.partition(".")[0] for name in sys.modules}
    for module in [*sys.modules.values()]:
        path = Path(getattr(module, "__file__", None) or "/")
        if path.suffix == ".py" and path.is_relative_to(ROOT):
            below = path.relative_to(ROOT).as_posix()
            if not below.startswith((".", "tests/")):
                yield below
    for folder in _KERNELS:
        if folder.partition("/")[0] in names:
            for path in _files_in(ROOT / folder):
                yield path.relative_to(ROOT).as_posix()
    if _STARTS_PROCESSES in sys.modules:
        for package in _OF_PROCESSES:
            home = ROOT / package
            home = home if home.is_dir() else ROOT / "protos" / package
            for path in home.rglob("*.py"):
                yield path.relative_to(ROOT).as_posix()


def _places(files: Sequence[str]) -> Iterator[str]:
    """Yields folders of which all files are among these, and the other files."""
    folders = dict[Path, list[Path]]()
    for path in (ROOT / name for name in files):
        folders.setdefault(path.parent, []).append(path)
    for folder, used in folders.items():
        is_whole = len(folder.relative_to(ROOT).parts) > 1 and used == _files_in(folder)
        for path in [folder] if is_whole else used:
            yield path.relative_to(ROOT).as_posix()


def _files_in(folder: Path) -> list[Path]:
    """Returns the sources of a folder, without those of the folders in it."""
    kinds = (".py", ".c", ".h")
    return sorted(path for path in folder.iterdir() if path.suffix in kinds)


@cache
def _golden() -> dict[str, str]:
    runs = json.loads((ROOT / GOLDEN).read_text(encoding="utf-8"))
    return {name: _digest(json.dumps(run)) for name, run in runs.items()}


def _pairs(written: str) -> Iterator[tuple[str, str]]:
    words = written.split(" ") if written else []
    yield from zip(words[::2], words[1::2], strict=True)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:6]


def _command(argv: Sequence[str]) -> str:
    """Returns the words after ``python``; no option that names a path of a machine."""
    words = list[str]()
    for word in argv[1:]:
        if "/" in word.partition("=")[2] or word.startswith("/"):
            if words and words[-1].startswith("--") and word.startswith("/"):
                words.pop()
            continue
        words.append(word)
    return " ".join(words)
