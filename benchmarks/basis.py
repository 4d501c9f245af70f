"""What a saved result rests on, so that anybody can see whether it is still true.

A result names the code that made it: all packages that benchmarks run or start, and the
modules of benchmarks that were imported with those beside them. Each folder has a
digest of its code; comments and docstrings do not count. It also names the golden runs
of that day (:mod:`tests.golden.runs`): where one of them differs today, the program
behaves differently, and the result is of another program. A golden run of a method that
a result does not name says nothing about it.
"""

import ast
import hashlib
import json
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from fedcore.kernels import library
from fedcore.typing import JSON

ROOT = Path(__file__).parent.parent
RESTS_ON, COMMAND = "rests on", "command"
GOLDEN = Path("tests/golden/runs.json")
_STARTED = (  # by processes of benchmarks, whose modules are not imported here
    *("fedcore", "fedrun", "fedtorch", "fedsim", "fedserver", "fedclient"),
    "protos/fedwire",
)
_BUILDS = "hatch_build.py"  # the kernels, with the compiler's options
_BEGAN = time.time()
_OF_ALL = ("cohorts", "buffer", "latecomer", "norms", "bandwidth")  # golden runs


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
    """Returns the digests of the sources, by package, and of golden runs.

    Sources that were edited since the run began have none: nobody knows what it ran.
    """
    found = dict[str, list[str]]()
    for place in _places(sorted(set(_sources()))):
        package, _, rest = place.partition("/")
        path = ROOT / place
        digest = "edited" if _is_edited(path) else digest_of(path)
        found.setdefault(package, []).append(f"{rest} {digest}")
    written = {package: " ".join(places) for package, places in found.items()}
    golden = " ".join(f"{name} {digest}" for name, digest in _golden().items())
    return {
        "sources": written,
        "golden": {GOLDEN.as_posix(): golden},
        "kernels": {"in use": library.in_use()},
    }


def compare(saved: Mapping[str, Mapping[str, str]], text: str) -> Change:
    """Compares what a result rests on with today's program.

    Args:
        saved: what :func:`find` returned when the result was made.
        text: the result and its name, which say what methods it is of.
    """
    sources = [
        f"{package}/{name}".rstrip("/")
        for package, files in saved["sources"].items()
        for name, digest in _pairs(files)
        if digest_of(ROOT / package / name) != digest
    ]
    today = _golden()
    (golden,) = saved["golden"].values()
    letters = _letters(text)
    changed = [
        name
        for name, digest in _pairs(golden)
        if today.get(name) != digest
        and (name in _OF_ALL or _letters(name.removeprefix("codec_")) in letters)
    ]
    return Change(sources, changed)


def _letters(text: str) -> str:
    """Returns a text without what differs between spellings of a method's name."""
    return "".join(filter(str.isalnum, text.lower()))


@cache
def digest_of(path: Path) -> str:
    """Returns the digest of the code of a file or folder; empty if it is gone."""
    if path.is_dir():
        files = _files_in(path)
        return _digest(" ".join(f"{each.name} {digest_of(each)}" for each in files))
    if not path.is_file():
        return ""
    text = path.read_text(encoding="utf-8")
    return _digest(code_of(text) if path.suffix == ".py" else text)


def code_of(source: str) -> str:
    """Returns a source as it would be without comments and docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            kept = [each for each in body if not _is_string(each)]
            node.body = kept or [ast.Pass()]  # type: ignore[attr-defined]
    return ast.unparse(tree)


def _is_string(node: ast.stmt) -> bool:
    """Returns whether a statement is a string alone, as docstrings are."""
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _sources() -> Iterator[str]:
    """Yields the files that a result may rest on, as paths below the checkout."""
    yield _BUILDS
    homes = {ROOT / name for name in _STARTED}
    for module in [*sys.modules.values()]:
        path = Path(getattr(module, "__file__", None) or "/")
        if path.suffix != ".py" or not path.is_relative_to(ROOT):
            continue
        below = path.relative_to(ROOT)
        if below.parts[0] in ("benchmarks", "tools", "tests", "examples"):
            yield below.as_posix()
            if below.parts[0] == "benchmarks" and len(below.parts) > 2:
                homes.add(path.parent)  # with what it starts
        elif not below.parts[0].startswith(".") and len(below.parts) > 1:
            homes.add(ROOT / below.parts[0])
    for home in homes:
        for folder in (home, *(path for path in home.rglob("*") if path.is_dir())):
            for path in _files_in(folder):
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


def _is_edited(path: Path) -> bool:
    """Returns whether a source, or one of a folder, is younger than this process."""
    files = _files_in(path) if path.is_dir() else [path]
    return any(each.stat().st_mtime > _BEGAN for each in files)


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
        value = word.partition("=")[2] or word
        if value.startswith(f"{ROOT}/"):
            words.append(word.replace(f"{ROOT}/", ""))
        elif value.startswith(("/", "~", "..", "file:")):
            if words and words[-1].startswith("-") and value == word:
                words.pop()
        else:
            words.append(word)
    return shlex.join(words)
