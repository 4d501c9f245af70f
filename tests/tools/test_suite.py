"""Which tests run where, and what they are told to notice."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def recipe(target: str) -> str:
    """What the Makefile does for a target."""
    text = (ROOT / "Makefile").read_text()
    extras = re.search(r"^EXTRAS := (.*)$", text, re.MULTILINE)
    found = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", text, re.MULTILINE)
    assert extras is not None
    assert found is not None
    return found[1].replace("$(EXTRAS)", extras[1])


def test_every_optional_package_is_installed_for_the_tests() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    installed = ",".join(
        names
        for target in ("test-extras", "test-heavy")
        for names in re.findall(r'"\.\[(.*)\]"', recipe(target))
    )
    assert set(project["optional-dependencies"]) == set(installed.split(","))


def test_make_reads_its_file() -> None:
    command = ["make", "--dry-run", "help", "test", "test-slow"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_ci_runs_every_test() -> None:
    commands = (ROOT / ".ci" / "run").read_text().splitlines()
    assert [command.strip() for command in commands[-8:]] == [
        "make check",
        "make test",
        "make test-slow",
        "make test-extras",
        "make fresh FRESH=--quick",
        'if [ "${1:-}" = all ]; then',
        "make test-heavy",
        "fi",
    ]
    marks = {
        target: re.search('-m "(.*)"', recipe(target))[1]  # type: ignore[index]
        for target in ("test", "test-slow")
    }
    assert marks["test"] == "quick or not (slow or processes)"
    assert marks["test-slow"] == "(slow or processes) and not quick"  # all the others
    for target in ("test-extras", "test-heavy"):
        assert "--all-there" in recipe(target)  # or what is skipped would be green


def tried(folder: Path, test: str, *options: str) -> str:
    """What pytest says of a file, under the rules of our own tests."""
    (folder / "pytest.ini").write_text(
        "[pytest]\nfilterwarnings = error\nmarkers =\n    needs\n    needs_data\n"
    )
    (folder / "test_it.py").write_text(test)
    words = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-q", "-rA"]
    done = subprocess.run(
        [*words, *options, str(folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "LATECOMER_DATA": str(folder)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


NEEDS_MUCH = """
import pytest

@pytest.mark.needs("json", "no_such_package")
def test_of_a_package():
    import no_such_package

@pytest.mark.needs_data("no_such_file.npz")
def test_of_data():
    raise AssertionError

@pytest.mark.needs("json")
def test_of_what_is_there():
    import json
"""


@pytest.mark.processes
def test_what_is_missing_is_named_and_fails_where_all_is_to_be_there(
    tmp_path: Path,
) -> None:
    said = tried(tmp_path, NEEDS_MUCH)
    assert "no_such_package is not installed: make test-extras" in said
    assert "LATECOMER_DATA names no folder with no_such_file.npz" in said
    assert "1 passed, 2 skipped" in said
    assert "1 passed, 2 errors" in tried(tmp_path, NEEDS_MUCH, "--all-there")


FORGETFUL = """
import socket

class Owner:
    pass

def test_forgets():
    owner = Owner()
    owner.itself, owner.door = owner, socket.socket()

def test_is_innocent():
    pass
"""


@pytest.mark.processes
def test_a_socket_that_is_forgotten_is_told_of_the_test_that_did_it(
    tmp_path: Path,
) -> None:
    said = tried(tmp_path, FORGETFUL)
    assert "2 passed, 1 error" in said
    (error,) = [line for line in said.splitlines() if line.startswith("ERROR")]
    assert "::test_forgets" in error
