"""``python -m latecomer`` says what there is, and which release."""

import subprocess
import sys
from importlib import metadata
from typing import Any

import pytest

import latecomer
from tests.docs.pages import ROOT


def said(*words: str) -> str:
    command = [sys.executable, "-m", "latecomer", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_package_says_what_there_is() -> None:
    lines = said().splitlines()
    assert lines[0] == f"latecomer {latecomer.__version__}"
    for program in ("fedserver", "fedclient", "fedsim"):
        assert any(line.startswith(f"  {program}  ") for line in lines)
    assert max(map(len, lines)) <= 80
    page = lines[-1].removeprefix("Documentation: ")
    assert (ROOT / page).is_file()


def test_the_version_is_that_of_the_installed_package() -> None:
    assert latecomer.__version__ == metadata.version("latecomer")
    assert said("--version") == f"latecomer, version {latecomer.__version__}\n"


def test_sources_that_are_not_installed_have_no_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none(name: str) -> Any:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", none)
    assert latecomer.__version__ == "0+unknown"
