"""The mark: two halves in turn, neither of which a torn write of the other harms."""

import os
import struct
import zlib
from pathlib import Path

import pytest

from fedrun.journal.segments import FILE, Mark, MarkFile, read_marks

RUN = b"12345678"


def test_the_two_newest_marks_can_be_read(tmp_path: Path) -> None:
    mark = MarkFile(tmp_path)
    assert read_marks(tmp_path) == []
    for number, found in ((1, [1]), (2, [1, 2]), (3, [3, 2]), (4, [3, 4])):
        mark.write(Mark(RUN, number))
        assert read_marks(tmp_path) == [Mark(RUN, each) for each in found]
    mark.close()


def test_marks_lie_where_a_torn_write_harms_one_of_them(tmp_path: Path) -> None:
    mark = MarkFile(tmp_path)
    for number in (1, 2):
        mark.write(Mark(RUN, number))
    mark.close()
    content = (tmp_path / FILE).read_bytes()
    for start, number in ((0, 1), (512, 2)):
        body = struct.pack("<4s8sQ", b"LCM1", RUN, number)
        expected = body + struct.pack("<I", zlib.crc32(body))
        assert content[start : start + 24] == expected
    assert len(content) == 512 + 24
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("place", [0, 3, 4, 12, 19, 20, 23])
def test_a_mark_with_a_wrong_byte_says_nothing(tmp_path: Path, place: int) -> None:
    mark = MarkFile(tmp_path)
    for number in (1, 2):
        mark.write(Mark(RUN, number))
    mark.close()
    content = bytearray((tmp_path / FILE).read_bytes())
    content[place] ^= 1
    (tmp_path / FILE).write_bytes(content)
    assert read_marks(tmp_path) == [Mark(RUN, 2)]


@pytest.mark.parametrize("kind", [b"LCA1", b"LCP1"])
def test_what_is_no_mark_says_nothing_though_its_checksum_is_right(
    tmp_path: Path, kind: bytes
) -> None:
    body = struct.pack("<4s8sQ", kind, RUN, 7)
    (tmp_path / FILE).write_bytes(body + struct.pack("<I", zlib.crc32(body)))
    assert read_marks(tmp_path) == []


def test_a_mark_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    mark = MarkFile(tmp_path)
    mark.write(Mark(RUN, 1))
    mark.close()
    (tmp_path / FILE).rmdir()
    mark.write(Mark(RUN, 2))
    assert read_marks(tmp_path) == [Mark(RUN, 2)]
    mark.close()


def test_a_half_that_was_not_written_is_written_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = MarkFile(tmp_path)
    mark.write(Mark(RUN, 1))

    def full(*_: object) -> int:
        raise OSError

    with monkeypatch.context() as broken:
        broken.setattr(os, "pwrite", full)
        mark.write(Mark(RUN, 2))
    mark.write(Mark(RUN, 3))
    assert read_marks(tmp_path) == [Mark(RUN, 1), Mark(RUN, 3)]
    mark.close()


def test_the_file_is_opened_once_and_closed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[int] = []
    real = os.open

    def noting(*given: object) -> int:
        opened.append(real(*given))  # type: ignore[arg-type]
        return opened[-1]

    monkeypatch.setattr(os, "open", noting)
    mark = MarkFile(tmp_path)
    mark.close()
    for number in (1, 2):
        mark.write(Mark(RUN, number))
    [descriptor] = opened
    assert not os.get_inheritable(descriptor)
    mark.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    mark.close()


def test_where_no_run_can_be_there_is_no_mark(tmp_path: Path) -> None:
    assert read_marks(tmp_path / "none") == []
    (tmp_path / "file").touch()
    assert read_marks(tmp_path / "file") == []
    (tmp_path / FILE).mkdir()
    with pytest.raises(IsADirectoryError):
        read_marks(tmp_path)
