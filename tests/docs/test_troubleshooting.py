"""The messages on the page of troubleshooting are those that the program has."""

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")

PYTHONS = "No module named"  # words of Python itself
GAP = "\N{NULL}"  # a value in a message


def _messages() -> list[str]:
    """The first cell of each row, without the words around the code."""
    rows = re.findall(r"^\| (.*?) \| ", PAGE, re.MULTILINE)
    return [span for row in rows for span in re.findall(r"`([^`]+)`", row)]


@cache
def _texts() -> str:
    """All strings of the program, with a gap for each value."""
    files = [*ROOT.glob("fed*/**/*.py"), *ROOT.glob("protos/fedwire/*.py")]
    return "\n".join(
        text for file in files for text in _strings(file.read_text(encoding="utf-8"))
    )


def _strings(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else GAP
                for part in node.values
            )


def test_there_are_messages() -> None:
    assert len(_messages()) > 20


@pytest.mark.parametrize("message", _messages())
def test_a_message_is_one_of_the_program(message: str) -> None:
    for part in re.split(r"\.\.\.|; |: | \(|\)|" + PYTHONS, message):
        assert part.strip(" :;") in _texts(), part
