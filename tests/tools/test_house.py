"""The house is counted as its page says, and one update's way does not grow unseen."""

import os
import subprocess
import sys

import pytest

from tools.house import is_participle, lines_of_code, twins
from tools.way import COORDINATOR, ROOT

SOURCE = '''"""What it is.

Two lines.
"""

import math
from os import (
    path,
)

# a comment


def area(radius):
    """Of a circle."""
    text = """one
    two"""
    return math.pi * radius**2, text, path  # and another
'''


def test_neither_words_nor_imports_are_code() -> None:
    assert lines_of_code(SOURCE) == 4


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("enrolled", True),
        ("_given", True),
        ("taken_back", True),
        ("feed", False),
        ("enrol", False),
        ("is_given", False),
        ("red", False),
    ],
)
def test_participles_are_known_by_their_endings(name: str, is_one: bool) -> None:
    assert is_participle(name) is is_one


def test_events_that_are_written_down_as_they_came_are_their_records() -> None:
    acts = {"Paused", "Unpaused", "Evicted", "Readmitted"}  # two ways of each
    assert {name for pair in twins() for name in pair} - acts <= {"Lost", "Departed"}


def test_one_update_enters_no_more_files_than_it_did() -> None:
    # In a process of its own: threads of gRPC that are followed stay so.
    command = [sys.executable, "-m", "tools.way"]
    path = os.pathsep.join([str(ROOT), str(ROOT / "protos")])
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    files = [line for line in done.stdout.splitlines() if line.endswith(".py")]
    of_coordinator = [file for file in files if file.startswith(COORDINATOR)]
    assert 4 <= len(of_coordinator) <= 6, of_coordinator
    assert 30 <= len(files) <= 50, files
