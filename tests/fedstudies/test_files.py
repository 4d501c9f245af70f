"""The files of an experiment."""

import json
import math
from pathlib import Path

import pytest

from fedcore.errors import ConfigError
from fedstudies.files import require_folder, write_files


def test_a_page_and_its_numbers_are_written_into_a_new_folder(tmp_path: Path) -> None:
    found = write_files(tmp_path / "a" / "b", "plan", "<html>", {"x": 1.5})
    assert found.page.read_text() == "<html>"
    assert json.loads(found.numbers.read_text()) == {"x": 1.5}
    assert found.lines == (f"page: {found.page}", f"numbers: {found.numbers}")


def test_numbers_that_are_none_become_null(tmp_path: Path) -> None:
    found = write_files(tmp_path, "plan", "", {"x": [math.nan, math.inf, 1.0]})
    assert json.loads(found.numbers.read_text()) == {"x": [None, None, 1.0]}


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="file: is a file, not a folder"):
        require_folder(tmp_path / "file")
    assert require_folder(tmp_path / "new") == tmp_path / "new"
