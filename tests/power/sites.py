"""Where the code makes data durable: found in the source, and noted as it runs.

A site is a call of ``os.fsync``, of ``os.fdatasync`` or of a function of ours that is
named after them (``sync``, ``sync_folder``, ...). At run time all sites on the stack
are noted before the call, so that a checker can do as if one of them were not there.
"""

import ast
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import FrameType
from typing import Any, NamedTuple
from unittest.mock import patch

from tests.power.recorder import REPOSITORY, mark

PACKAGES = ("fedcore", "fedrun", "fedserver", "fedclient", "fedsim")
_NAME = re.compile(r"^_*(fsync|fdatasync|sync|sync_\w+|\w+_sync|\w+_synced)$")


class Site(NamedTuple):
    """A call in the source."""

    file: str
    function: str
    call: str
    first: int  # its lines
    last: int

    @property
    def label(self) -> str:
        """How the site is called where lines would say too little."""
        return f"{self.file}:{self.function}: {self.call}"


@cache
def sync_sites() -> tuple[Site, ...]:
    """All calls that make data durable."""
    found: list[Site] = []
    for package in PACKAGES:
        for path in sorted((REPOSITORY / package).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if "sync" in text:
                file = path.relative_to(REPOSITORY).as_posix()
                found += _calls(ast.parse(text), file, "")
    return tuple(found)


def _calls(node: ast.AST, file: str, function: str) -> Iterator[Site]:
    for child in ast.iter_child_nodes(node):
        inner = function
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            inner = f"{function}.{child.name}" if function else child.name
        if isinstance(child, ast.Call):
            called = child.func
            name = (
                called.attr
                if isinstance(called, ast.Attribute)
                else called.id
                if isinstance(called, ast.Name)
                else ""
            )
            if _NAME.match(name):
                end = child.end_lineno or child.lineno
                text = ast.unparse(child)
                yield Site(file, function, text, child.lineno, end)
        yield from _calls(child, file, inner)


@contextmanager
def note_syncs(before: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Before each sync, the sites on the stack are noted in the log."""

    def noting(call: Callable[[int], None]) -> Callable[[int], None]:
        def synced(descriptor: Any) -> None:
            before()
            mark(json.dumps({"what": "sync", "sites": _stack(sys._getframe(1))}))
            call(descriptor)

        return synced

    with (
        patch.object(os, "fsync", noting(os.fsync)),
        patch.object(os, "fdatasync", noting(os.fdatasync)),
    ):
        yield


def _stack(frame: FrameType | None) -> list[str]:
    labels = []
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(str(REPOSITORY)):
            name = file[len(str(REPOSITORY)) + 1 :]
            labels += [
                site.label
                for site in sync_sites()
                if site.file == name and site.first <= frame.f_lineno <= site.last
            ]
        frame = frame.f_back
    return labels


def pragmas() -> set[str]:
    """The files that tell SQLite when to sync."""
    return {
        path.relative_to(REPOSITORY).as_posix()
        for package in PACKAGES
        for path in (REPOSITORY / package).rglob("*.py")
        if "PRAGMA synchronous" in path.read_text(encoding="utf-8")
    }
