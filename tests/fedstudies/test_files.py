"""The files of a study."""

import json
import math
from pathlib import Path

import pytest

from fedcore.errors import ConfigError
from fedstudies.coding import Coding
from fedstudies.frame import Findings, Outcome, require_folder, write_findings

SAID = Findings(
    "Dice", "six sides", "all sides come up", {"x": [math.nan, math.inf, 1]}
)


class Sides(Outcome):
    """What was found by the study that says so."""

    def findings(self) -> Findings:
        return SAID


def test_a_page_and_its_numbers_are_written_into_a_new_folder(tmp_path: Path) -> None:
    out = tmp_path / "a" / "b"
    lines = write_findings(Coding(2, out=out), Sides(), SAID)
    assert lines == [f"page: {out}/coding.html", f"numbers: {out}/coding.json"]
    page = (out / "coding.html").read_text()
    assert "<h1>Dice</h1>" in page
    assert "<strong>All sides come up.</strong>" in page


def test_numbers_that_are_none_become_null(tmp_path: Path) -> None:
    write_findings(Coding(2, out=tmp_path), Sides(), SAID)
    found = json.loads((tmp_path / "coding.json").read_text())
    assert found == {"x": [None, None, 1]}


def test_without_a_folder_nothing_is_written() -> None:
    assert write_findings(Coding(2), Sides(), SAID) == []


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="file: is a file, not a folder"):
        Coding(2, out=tmp_path / "file")
    assert require_folder(tmp_path / "new") == tmp_path / "new"
