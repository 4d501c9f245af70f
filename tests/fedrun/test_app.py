"""Finding the user's workload; what goes wrong there is in tests/integration."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedcore.errors import WorkloadError
from fedcore.workload import Client
from fedrun.app import code_hash, load_app
from tests.integration.typed import desk

APP = """
from fedcore.workload import Workload
workload = Workload(initial=dict, train=print, train_data=lambda client: {data!r})
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with desk(tmp_path, monkeypatch) as here:
        yield here


def write(folder: Path, data: str, name: str = "mine.py") -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(APP.format(data=data))


def data_of(name: str, folder: Path | None = None) -> object:
    return load_app(name, folder).train_data(None)  # type: ignore[arg-type]


def test_a_file_is_looked_for_in_the_given_folder_or_in_the_working_one(
    folder: Path,
) -> None:
    write(folder, "here")
    write(folder / "there", "there")
    assert data_of("mine.py:workload") == "here"
    assert data_of("mine.py:workload", folder / "there") == "there"
    assert data_of(f"{folder}/mine.py:workload", folder / "there") == "here"


def test_a_module_is_looked_for_in_the_folder_first(folder: Path) -> None:
    write(folder, "mine", "colorsys.py")  # the name of a standard module
    sys.modules.pop("colorsys", None)
    assert data_of("colorsys:workload") == "mine"
    del sys.modules["colorsys"]


def test_a_file_may_import_what_lies_beside_it(folder: Path) -> None:
    (folder / "beside_it.py").write_text("DATA = 5\n")
    text = APP.format(data=0).replace("0", "DATA")
    (folder / "mine.py").write_text(f"from beside_it import DATA\n{text}")
    assert data_of("mine.py:workload") == 5


def test_a_file_is_read_once() -> None:
    write(Path(), "here")
    assert load_app("mine.py:workload") is load_app("mine.py:workload")


def test_a_file_that_failed_is_read_anew() -> None:
    Path("mine.py").write_text("x = 1 / 0")
    for _ in range(2):
        with pytest.raises(WorkloadError, match="ZeroDivisionError"):
            load_app("mine.py:workload")
    write(Path(), "mended")
    assert data_of("mine.py:workload") == "mended"


def test_an_app_that_would_end_the_process_at_its_import_says_so() -> None:
    Path("mine.py").write_text(
        "import argparse\nargparse.ArgumentParser().parse_args(['--no-such'])"
    )
    words = r"it called sys\.exit\(2\).* under if __name__ == \"__main__\":"
    with pytest.raises(WorkloadError, match=words):
        load_app("mine.py:workload")
    with pytest.raises(WorkloadError, match=words):
        load_app("mine:workload")


def test_the_hash_of_the_code_is_that_of_its_text(folder: Path) -> None:
    for where, data in (("a", "1"), ("b", "1"), ("c", "2")):
        write(folder / where, data)
    a, b, c = (code_hash(f"{folder / where}/mine.py:workload") for where in "abc")
    assert a == b != c


@pytest.mark.parametrize("name", ["mine:workload", "mine.py:workload"])
def test_two_projects_with_a_module_of_one_name_are_two(
    name: str, folder: Path
) -> None:
    write(folder / "a", "first")
    write(folder / "b", "second")
    for project, data in [("a", "first"), ("b", "second"), ("a", "first")]:
        assert data_of(name, folder / project) == data


@pytest.mark.parametrize("name", ["mine:workload", "mine.py:workload"])
def test_a_file_that_has_changed_is_imported_again_where_that_is_wanted(
    name: str, folder: Path
) -> None:
    write(folder, "first")
    once = load_app(name, folder, fresh=True)
    assert load_app(name, folder, fresh=True) is once
    write(folder, "the second one")
    assert load_app(name, folder) is once  # a sweep does not mix two of them
    again = load_app(name, folder, fresh=True)
    assert again.train_data(Client("ann")) == "the second one"
    assert load_app(name, folder) is again
