"""Gaps in SQLite's log, in logs that are made by hand after its description."""

import sqlite3
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from fedrun.journal.wal import Gap, gap

LITTLE, BIG = 0x377F0682, 0x377F0683
SALTS = (5, 99)


class Frame(NamedTuple):
    """One page as a transaction leaves it; ``size`` is not 0 in its last frame."""

    page: int
    commits: bool = True
    salts: tuple[int, int] = SALTS
    fill: int = 1


class Log:
    """A log and its database, written after https://www.sqlite.org/fileformat2.html."""

    def __init__(
        self,
        folder: Path,
        frames: Sequence[Frame],
        *,
        size: int = 512,
        magic: int = LITTLE,
        salts: tuple[int, int] = SALTS,
    ) -> None:
        self.file, self.log = folder / "db", folder / "db-wal"
        self.size, self.order = size, "<" if magic == LITTLE else ">"
        head = struct.pack(">IIIIII", magic, 3007000, size, 0, *salts)
        sums = self.sums(head, (0, 0))
        self.content = bytearray(head + struct.pack(">II", *sums))
        for frame in frames:
            sums = self.add(frame, sums)
        told = {65536: 1}.get(size, size)
        self.file.write_bytes(bytes(16) + struct.pack(">H", told) + bytes(2 * size))

    def add(self, frame: Frame, sums: tuple[int, int]) -> tuple[int, int]:
        """One more frame, with the checksum that goes on from the one before it."""
        top = struct.pack(">II", frame.page, 3 if frame.commits else 0)
        page = bytes([frame.fill]) * self.size
        sums = self.sums(top + page, sums)
        tail = struct.pack(">IIII", *frame.salts, *sums)
        self.content += top + tail + page
        return sums

    def sums(self, content: bytes, sums: tuple[int, int]) -> tuple[int, int]:
        """The checksum, step by step."""
        first, second = sums
        words = struct.unpack(f"{self.order}{len(content) // 4}I", content)
        for one, other in zip(words[::2], words[1::2], strict=True):
            first = (first + one + second) & 0xFFFFFFFF
            second = (second + other + first) & 0xFFFFFFFF
        return first, second

    def start(self, frame: int) -> int:
        """Where a frame begins."""
        return 32 + frame * (24 + self.size)

    def flip(self, at: int) -> None:
        """A bit rots."""
        self.content[at] ^= 1

    def gap(self) -> Gap | None:
        """What is found."""
        self.log.write_bytes(self.content)
        return gap(self.log, self.file)


def three() -> list[Frame]:
    """Three transactions of two frames each."""
    return [Frame(page, commits=page % 2 == 0) for page in range(1, 7)]


@pytest.mark.parametrize("size", [512, 4096, 65536])
@pytest.mark.parametrize("magic", [LITTLE, BIG])
def test_a_sound_log_has_no_gap(tmp_path: Path, size: int, magic: int) -> None:
    assert Log(tmp_path, three(), size=size, magic=magic).gap() is None


@pytest.mark.parametrize("magic", [LITTLE, BIG])
def test_a_frame_before_the_last_commit_that_was_followed_is_missed(
    tmp_path: Path, magic: int
) -> None:
    log = Log(tmp_path, three(), magic=magic)
    for frame in range(6):
        for place in (0, 8, 12, 16, 20, 24, 24 + 511):
            log.flip(log.start(frame) + place)
            # Where salts or checksum are wrong, nothing says what follows from them.
            if frame < 3 or (frame == 3 and place not in (8, 12, 16, 20)):
                assert log.gap() == Gap(frame, log.start(frame), 5)
            else:  # what was written last may never have been synced
                assert log.gap() is None
            log.flip(log.start(frame) + place)


def test_a_transaction_that_was_not_committed_says_nothing(tmp_path: Path) -> None:
    log = Log(tmp_path, [*three()[:4], Frame(1, commits=False)])
    log.flip(log.start(2) + 30)
    assert log.gap() == Gap(2, log.start(2), 5)
    one = [Frame(1, commits=False), Frame(2), *[Frame(3, commits=False)] * 2]
    log = Log(tmp_path, one)
    log.flip(log.start(2) + 30)
    assert log.gap() is None  # all that was committed is there
    log = Log(tmp_path, one)
    log.flip(log.start(1) + 30)
    assert log.gap() == Gap(1, log.start(1), 3)


def test_frames_that_do_not_follow_from_a_commit_say_nothing(tmp_path: Path) -> None:
    log = Log(tmp_path, three())
    log.flip(log.start(1) + 30)
    for frame in (2, 4):  # the first ones of the transactions behind it
        log.flip(log.start(frame) + 30)
    assert log.gap() is None


def test_what_an_earlier_use_of_the_log_left_behind_its_end_says_nothing(
    tmp_path: Path,
) -> None:
    old = [frame._replace(salts=(4, 98)) for frame in three()]
    log = Log(tmp_path, [*three()[:2], *old])
    assert log.gap() is None
    log.flip(log.start(1) + 30)
    assert log.gap() is None
    mixed = [*three()[:3], *old]
    log = Log(tmp_path, mixed)
    log.flip(log.start(0) + 30)
    assert log.gap() == Gap(0, log.start(0), 3)


@pytest.mark.parametrize("count", [256, 257, 513])
def test_a_log_may_be_long(tmp_path: Path, count: int) -> None:
    frames = [Frame(number % 7 + 1, fill=number % 251) for number in range(count)]
    log = Log(tmp_path, frames)
    assert log.gap() is None
    for frame in (0, 254, count - 2):
        log.flip(log.start(frame) + 100)
        assert log.gap() == Gap(frame, log.start(frame), count)
        log.flip(log.start(frame) + 100)
    log.flip(log.start(count - 1) + 100)
    assert log.gap() is None


def test_a_log_that_ends_within_a_frame_has_one_less(tmp_path: Path) -> None:
    log = Log(tmp_path, three())
    log.flip(log.start(2) + 30)
    del log.content[log.start(5) + 24 + 511 :]
    assert log.gap() == Gap(2, log.start(2), 5)
    del log.content[log.start(4) + 24 + 511 :]
    assert log.gap() is None


def test_a_log_without_frames_has_no_gap(tmp_path: Path) -> None:
    log = Log(tmp_path, three())
    assert gap(tmp_path / "none", log.file) is None
    whole = bytes(log.content)
    for length in (0, 1, 31, 32, 55, 56, 57, 32 + 24 + 511, 32 + 24 + 512):
        log.content[:] = whole[:length]
        assert log.gap() is None


# ---------------------------------------------------------------- a damaged head


@pytest.mark.parametrize("size", [512, 4096, 65536])
@pytest.mark.parametrize("magic", [LITTLE, BIG])
@pytest.mark.parametrize("at", [0, 8, 13, 16, 20, 24, 28])
def test_behind_a_damaged_head_all_that_was_committed_is_missed(
    tmp_path: Path, size: int, magic: int, at: int
) -> None:
    log = Log(tmp_path, three(), size=size, magic=magic)
    log.flip(at)
    assert log.gap() == Gap(0, 32, 5)


def test_the_size_of_a_page_may_not_be_told(tmp_path: Path) -> None:
    log = Log(tmp_path, three(), size=4096)
    log.flip(8)
    log.file.write_bytes(bytes(30))
    assert log.gap() == Gap(0, 32, 5)
    log.file.write_bytes(b"")
    assert log.gap() == Gap(0, 32, 5)


def test_behind_a_damaged_head_the_newest_use_of_the_log_counts(tmp_path: Path) -> None:
    old = [frame._replace(salts=(4, 200)) for frame in three()]
    log = Log(tmp_path, [*three()[:4], *old])
    log.flip(24)
    assert log.gap() == Gap(0, 32, 3)


def test_a_head_behind_which_nothing_was_committed_is_no_gap(tmp_path: Path) -> None:
    log = Log(tmp_path, [Frame(1, commits=False), Frame(2)])
    log.flip(24)
    assert log.gap() is None


def test_a_damaged_head_is_no_loss_where_the_database_has_it_all(
    tmp_path: Path,
) -> None:
    frames = [*three(), Frame(2, fill=9), Frame(1, commits=False, fill=7)]
    log = Log(tmp_path, frames)
    log.flip(24)
    pages = {page: bytes([1]) * 512 for page in range(1, 7)}
    pages[2] = bytes([9]) * 512  # the newest of its frames
    told = b"".join(pages[page] for page in sorted(pages))
    assert _with_size(log, told) is None
    for page in range(2, 7):
        harmed = bytearray(told)
        harmed[page * 512 - 1] ^= 1
        assert _with_size(log, bytes(harmed)) == Gap(0, 32, 8)


def _with_size(log: Log, pages: bytes) -> Gap | None:
    """Of a database of these pages; its first one says how large they are."""
    content = bytearray(pages)
    content[16:18] = struct.pack(">H", log.size)
    start = log.start(0) + 24
    log.content[start : start + log.size] = content[: log.size]
    log.file.write_bytes(content)
    return log.gap()


# ----------------------------------------------------------------- SQLite itself


def test_logs_of_sqlite_itself_are_understood(tmp_path: Path) -> None:
    file = tmp_path / "journal.sqlite3"
    db = sqlite3.connect(file, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("CREATE TABLE t (x)")
    for number in range(5):
        db.execute("INSERT INTO t VALUES (?)", (bytes([number]) * 9000,))
    log = tmp_path / "journal.sqlite3-wal"
    whole = log.read_bytes()
    frames = (len(whole) - 32) // 4120
    assert gap(log, file) is None
    commits = [at for at in range(frames) if any(whole[36 + at * 4120 :][:4])]
    for frame in range(frames):
        content = bytearray(whole)
        content[32 + frame * 4120 + 1000] ^= 1
        log.write_bytes(content)
        found = gap(log, file)
        if frame > commits[-2]:
            assert found is None  # the last transaction may never have been synced
        else:
            assert found == Gap(frame, 32 + frame * 4120, commits[-2] + 2)
    log.write_bytes(whole)
    db.close()
