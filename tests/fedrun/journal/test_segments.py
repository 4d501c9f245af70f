"""Segments: where payloads lie, what is synced, and what is used again."""

import errno
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from fedcore.errors import CorruptJournalError, DiskError, JournalError
from fedrun.journal import segments
from fedrun.journal.segments import HEADER_BYTES, Header, Place, Segments

RUN = b"12345678"
TWO = 2 * (HEADER_BYTES + 100)  # bytes: two payloads of a hundred, exactly


def put(into: Segments, size: int = 100, number: int = 1) -> Place:
    return into.write(payload(size, number), RUN, number, number - 1)


def payload(size: int = 100, number: int = 1) -> bytes:
    return bytes([number]) * size


def test_payloads_lie_behind_each_other_until_a_segment_is_full(tmp_path: Path) -> None:
    some = Segments(tmp_path / "segments", TWO)
    assert HEADER_BYTES == 40
    places = [put(some, number=number) for number in (1, 2, 3)]
    assert places == [Place(1, 40, 100), Place(1, 180, 100), Place(2, 40, 100)]
    for number, place in enumerate(places, 1):
        assert some.read(place) == payload(number=number)
    sizes = {path.name: path.stat().st_size for path in some._folder.iterdir()}
    assert sizes == {"000001.segment": TWO, "000002.segment": TWO}
    modes = {path.stat().st_mode & 0o777 for path in some._folder.iterdir()}
    assert modes == {0o600}
    some.close()


def test_a_payload_that_is_larger_than_a_segment_has_one_of_its_own(
    tmp_path: Path,
) -> None:
    some = Segments(tmp_path / "segments", TWO)
    assert put(some, 5000) == Place(1, 40, 5000)
    assert (tmp_path / "segments" / "000001.segment").stat().st_size == 5040
    assert put(some) == Place(2, 40, 100)
    some.close()


def test_a_header_says_whose_payload_it_is_and_what_was_durable(tmp_path: Path) -> None:
    body = struct.pack("<4s8sQQQ", b"LCP1", RUN, 7, 6, 100)
    packed = Header(RUN, 7, 6, 100).pack()
    assert packed == body + struct.pack("<I", zlib.crc32(body))
    some = Segments(tmp_path / "segments", TWO)
    for number in (7, 8, 9):
        put(some, number=number)
    first, second, third = (Header(RUN, n, n - 1, 100) for n in (7, 8, 9))
    assert some.headers({}) == [first, second, third]
    assert some.headers({1: 140}) == [second, third]
    assert some.headers({1: 280, 2: 0}) == [third]
    assert some.headers({1: 280, 2: 140}) == []
    file = tmp_path / "segments" / "000001.segment"
    for harmed in (3, 39):  # a wrong mark, and a wrong checksum
        content = bytearray(file.read_bytes())
        content[harmed] ^= 1
        file.write_bytes(content)
        assert some.headers({}) == [third]
        content[harmed] ^= 1
        file.write_bytes(content)
    some.close()


@pytest.mark.parametrize("most", [1, 39, 40, 41, 100, 139])
def test_a_write_that_takes_only_a_part_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    real = os.pwritev

    def little(descriptor: int, parts: list[Any], start: int) -> int:
        return real(descriptor, [b"".join(map(bytes, parts))[:most]], start)

    monkeypatch.setattr(os, "pwritev", little)
    some = Segments(tmp_path / "segments", TWO)
    content = bytes(range(100))
    for number in (1, 2):
        place = some.write(content, RUN, number, 0)
        assert some.read(place) == content
    assert [each.number for each in some.headers({})] == [1, 2]
    some.close()


def test_what_was_written_is_synced_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = os.fdatasync

    def noting(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).stem)
        real(descriptor)

    monkeypatch.setattr(os, "fdatasync", noting)
    some = Segments(tmp_path / "segments", TWO)
    for number in (1, 2, 3):
        put(some, number=number)
    some.sync()
    assert sorted(synced) == ["000001", "000002"]
    some.sync()
    assert len(synced) == 2
    put(some, number=4)
    some.sync()
    assert synced[2:] == ["000002"]
    some.close()


def test_a_recycled_segment_is_written_from_its_beginning(tmp_path: Path) -> None:
    some = Segments(tmp_path / "segments", TWO)
    for number in (1, 2, 3, 4, 5):
        put(some, number=number)
    some.recycle(1)
    some.recycle(1)  # which says nothing new
    assert put(some, number=6) == Place(3, 180, 100)  # the one that is used now
    assert put(some, number=7) == Place(1, 40, 100)
    assert put(some, number=8) == Place(1, 180, 100)
    assert put(some, number=9) == Place(4, 40, 100)
    some.recycle(4)
    assert put(some, number=10) == Place(4, 40, 100)  # also that one
    some.recycle(1)
    some.recycle(3)
    assert put(some, number=11) == Place(4, 180, 100)
    assert put(some, number=12) == Place(1, 40, 100)
    some.recycle(3)
    some.recycle(4)  # the one that is used now comes before it
    assert put(some, number=13) == Place(1, 180, 100)
    some.close()


def test_a_segment_that_is_too_small_is_not_used_again(tmp_path: Path) -> None:
    some = Segments(tmp_path / "segments", 150)
    put(some, 500)
    put(some, 200, number=2)
    put(some, 300, number=3)
    some.recycle(1)
    some.recycle(2)
    assert put(some, 500, number=4).segment == 1  # just large enough
    assert put(some, 300, number=5).segment == 4
    assert put(some, 200, number=6).segment == 2
    some.close()


def test_a_restart_goes_on_behind_what_is_taken(tmp_path: Path) -> None:
    folder = tmp_path / "segments"
    some = Segments(folder, TWO)
    for number in range(1, 9):
        put(some, number=number)
    some.close()
    again = Segments(folder, TWO)
    again.start({2: 280, 3: 140})
    assert put(again, number=5) == Place(3, 180, 100)
    assert put(again, number=6) == Place(1, 40, 100)
    again.start({2: 280, 3: 280})  # the rows of these two were never committed
    assert put(again, number=5) == Place(1, 40, 100)
    again.start({})
    assert put(again, number=1) == Place(1, 40, 100)
    again.close()


def test_a_restart_makes_names_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "segments"
    synced: list[Path] = []
    monkeypatch.setattr(segments, "sync_folder", synced.append)
    some = Segments(folder, TWO)
    some.start({})
    assert synced == []  # there is none yet
    put(some)
    assert synced == [folder]
    some.start({})
    assert synced == [folder, folder]
    some.close()


def test_segments_must_be_as_long_as_their_payloads(tmp_path: Path) -> None:
    some = Segments(tmp_path / "segments", TWO)
    put(some)
    some.require({1: TWO})
    with pytest.raises(CorruptJournalError, match="ends at byte 280, its last payload"):
        some.require({1: TWO + 1})
    with pytest.raises(JournalError, match=r"000002.segment: cannot be read"):
        some.require({1: TWO, 2: 0})
    assert some.read(Place(1, 180, 100)) == bytes(100)
    with pytest.raises(CorruptJournalError, match="ends before byte 281, where a"):
        some.read(Place(1, 181, 100))
    some.close()


def test_only_segments_have_numbers(tmp_path: Path) -> None:
    for name in ("000010.segment", "000002.segment", "notes.txt"):
        (tmp_path / name).touch()
    assert Segments(tmp_path).numbers() == [2, 10]
    assert Segments(tmp_path / "none").numbers() == []
    with pytest.raises(JournalError, match=r"notes.txt: cannot be read: Not a dir"):
        Segments(tmp_path / "notes.txt").numbers()


def test_a_new_segment_never_takes_the_place_of_another_file(tmp_path: Path) -> None:
    some = Segments(tmp_path)
    (tmp_path / "000001.segment").symlink_to("elsewhere")
    some.numbers = list  # type: ignore[method-assign]
    with pytest.raises(FileExistsError):
        put(some)
    assert not (tmp_path / "elsewhere").exists()


def test_who_reads_does_not_write(tmp_path: Path) -> None:
    some = Segments(tmp_path, TWO)
    place = put(some)
    some.close()
    reader = Segments(tmp_path, read_only=True)
    assert reader.read(place) == payload()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.pwrite(reader._descriptor(1), b"x", 0)
    reader.close()


def test_files_are_closed_once(tmp_path: Path) -> None:
    some = Segments(tmp_path, TWO)
    before = len(os.listdir("/proc/self/fd"))
    some.read(put(some))
    [descriptor] = some._open.values()
    assert not os.get_inheritable(descriptor)
    some.close()
    assert len(os.listdir("/proc/self/fd")) == before
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    some.close()


# --------------------------------------------------------------------- a full disk


def test_on_a_disk_that_is_nearly_full_a_segment_is_as_large_as_must_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.posix_fallocate

    def nearly_full(descriptor: int, start: int, size: int) -> None:
        if size > 140:
            real(descriptor, start, 200)  # what it took before it was full
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor, start, size)

    monkeypatch.setattr(os, "posix_fallocate", nearly_full)
    some = Segments(tmp_path, TWO)
    assert put(some) == Place(1, 40, 100)
    assert (tmp_path / "000001.segment").stat().st_size == 140
    with pytest.raises(DiskError, match=r"000002.segment: the disk is full"):
        put(some, 101, number=2)
    assert [path.name for path in tmp_path.iterdir()] == ["000001.segment"]
    some.close()


def test_what_another_fault_leaves_of_a_segment_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def failing(descriptor: int, start: int, size: int) -> None:
        asked.append(descriptor)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "posix_fallocate", failing)
    some = Segments(tmp_path, TWO)
    with pytest.raises(DiskError, match=r"000001.segment: Input/output error"):
        put(some)
    assert len(asked) == 1  # it is not tried with less
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(asked[0])
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    assert put(some) == Place(1, 40, 100)
    some.close()
