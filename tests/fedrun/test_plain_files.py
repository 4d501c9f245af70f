"""Only plain files are read, and what is written follows no link."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fedrun.plain_files import (
    make_own,
    open_to_read,
    open_to_write,
    read_plain,
    remove_tree,
    replacing,
    write_text,
)
from tests.patience import must_end
from tests.strangers import ODD, a_hole, a_link


@pytest.mark.parametrize("odd", ODD)
def test_what_is_no_file_is_not_read(
    tmp_path: Path, odd: Callable[[Path], None]
) -> None:
    path = tmp_path / "file"
    odd(path)
    with must_end(5), pytest.raises(OSError, match=str(path)):
        read_plain(path, links=False)


@pytest.mark.parametrize("odd", [odd for odd in ODD if odd is not a_hole])
def test_what_is_no_file_is_not_written(
    tmp_path: Path, odd: Callable[[Path], None]
) -> None:
    path = tmp_path / "file"
    odd(path)
    with must_end(5), pytest.raises(OSError, match=str(path)):
        os.close(open_to_write(path))


def test_a_file_is_read_up_to_its_limit_also_through_a_link(tmp_path: Path) -> None:
    path, link = tmp_path / "file", tmp_path / "link"
    path.write_bytes(b"x" * 10)
    link.symlink_to(path)
    assert read_plain(path, 10) == read_plain(link, 10) == b"x" * 10
    for most in (0, 9):
        with pytest.raises(OSError, match=f"has 10 bytes; at most {most} are read"):
            read_plain(path, most)
    with pytest.raises(OSError, match="is a link; expected a file"):
        read_plain(link, links=False)
    with pytest.raises(FileNotFoundError):
        read_plain(tmp_path / "none")
    os.close(open_to_read(link))


def test_a_link_is_replaced_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    path = tmp_path / "page"
    a_link(path)
    (tmp_path / ".page.tmp").symlink_to(tmp_path / "foreign")
    write_text(path, "hello \ud800")
    assert not path.is_symlink()
    assert path.read_text() == r"hello \ud800"
    assert (tmp_path / "foreign").read_bytes() == b"mine"
    assert sorted(os.listdir(tmp_path)) == ["foreign", "page"]


@pytest.mark.parametrize("odd", [odd for odd in ODD if odd not in (a_link, a_hole)])
def test_a_place_that_is_no_file_is_not_replaced(
    tmp_path: Path, odd: Callable[[Path], None]
) -> None:
    path = tmp_path / "page"
    odd(path)
    before = path.lstat()
    with must_end(5), pytest.raises(OSError, match=str(path)):
        write_text(path, "hello")
    assert path.lstat() == before
    assert os.listdir(tmp_path) == ["page"]


def test_what_fails_half_way_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "page"
    path.write_text("before")

    def fail() -> None:
        with replacing(path) as temporary:
            temporary.write_text("half")
            tmp_path.write_text("no file")

    with pytest.raises(IsADirectoryError):
        fail()
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["page"]


def test_files_have_the_mode_of_the_umask_or_are_private(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "page", "x")
        write_text(tmp_path / "key", "x", private=True)
        os.close(open_to_write(tmp_path / "lock"))
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"page": 0o640, "key": 0o600, "lock": 0o600}


def test_a_folder_that_is_a_link_is_refused_and_removed_alone(tmp_path: Path) -> None:
    elsewhere, link = tmp_path / "elsewhere", tmp_path / "runs"
    (elsewhere / "kept").mkdir(parents=True)
    link.symlink_to(elsewhere)
    with pytest.raises(OSError, match="is a link; expected a folder") as raised:
        make_own(link)
    assert raised.value.errno == errno.EINVAL
    remove_tree(link)
    assert not link.is_symlink()
    assert (elsewhere / "kept").is_dir()
    remove_tree(elsewhere)
    assert not elsewhere.exists()
    assert make_own(link / "more").is_dir()
