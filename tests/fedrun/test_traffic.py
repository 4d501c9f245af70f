"""The book of bytes: sums are kept, what is written comes back, and is never synced."""

import errno
import logging
import sqlite3
import string
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from fedcore import payloads
from fedcore.payloads import dense_payload, sparse_payload
from fedrun.cli.traffic_tables import (
    bytes_of_all,
    less,
    overhead_line,
    totals_table,
)
from fedrun.sqlite import connect
from fedrun.traffic import (
    CONTROL,
    OTHERS,
    UNKNOWN,
    Lane,
    Load,
    Traffic,
    busiest,
    by_client,
    codec_of,
    lanes_json,
    of_all,
    overhead,
    read_lanes,
    total,
)
from fedrun.traffic_file import FILE, LaneRow, TrafficFile, read_traffic
from fedrun.units import in_bytes, unbroken_bytes
from fedview.results import Results

NAMES = st.text(string.ascii_lowercase, min_size=1, max_size=2)
LANES = st.builds(
    Lane, NAMES, st.sampled_from(["up", "down"]), st.sampled_from(["dense", CONTROL])
)
COUNTS = st.integers(0, 2**40)
PASSED = st.lists(st.tuples(LANES, COUNTS, COUNTS, st.integers(0, 9)), max_size=30)
DIM = 100


def book(passed: list[tuple[Lane, int, int, int]]) -> Traffic:
    """All of it, counted."""
    traffic = Traffic()
    for lane, framed, payload, transfers in passed:
        traffic.count(lane, framed=framed, payload=payload, transfers=transfers)
    return traffic


@given(PASSED)
def test_what_was_counted_adds_up_by_client_and_in_all(
    passed: list[tuple[Lane, int, int, int]],
) -> None:
    traffic = book(passed)
    lanes = traffic.lanes()
    assert traffic.sums() == of_all(lanes)
    framed = sum(item[1] for item in passed)
    assert total(lanes.values()).framed == framed
    assert total(of_all(lanes).values()).framed == framed
    groups = by_client(lanes)
    assert sum(total(g.values()).framed for g in groups.values()) == framed
    assert len(lanes) <= len({item[0] for item in passed})


@given(PASSED, PASSED)
def test_a_book_comes_back_as_it_was_written(
    first: list[tuple[Lane, int, int, int]], then: list[tuple[Lane, int, int, int]]
) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        file = TrafficFile(Path(scratch))
        traffic = file.load()
        for part in (first, then):
            for lane, framed, payload, transfers in part:
                traffic.count(lane, framed=framed, payload=payload, transfers=transfers)
            file.save(traffic)
            read = read_traffic(Path(scratch))
            assert read is not None
            assert read.lanes() == traffic.lanes()
        file.close()


@given(PASSED)
def test_a_program_is_told_all_of_it(passed: list[tuple[Lane, int, int, int]]) -> None:
    traffic = book([(lane._replace(cid="ann"), f, p, t) for lane, f, p, t in passed])
    assert read_lanes("ann", lanes_json(traffic.lanes())) == traffic.lanes()


def test_only_what_has_changed_is_written(tmp_path: Path) -> None:
    file = TrafficFile(tmp_path)
    traffic = file.load()
    traffic.count(Lane("ann", "up", "dense"), framed=9)
    file.save(traffic)
    assert traffic.take_fresh() == {}
    traffic.count(Lane("bob", "up", "dense"), framed=9)
    assert list(traffic.take_fresh()) == [Lane("bob", "up", "dense")]
    file.close()


def test_loads_that_others_have_counted_are_written_beside_it(tmp_path: Path) -> None:
    file = TrafficFile(tmp_path)
    traffic = file.load()
    traffic.count(Lane("bob", "up", "dense"), payload=9, transfers=1)
    others: list[LaneRow] = [(f"{i}", "down", "dense", 2, i, 0) for i in range(120)]
    file.save(traffic, iter(others))
    read = read_traffic(tmp_path)
    assert read is not None
    expected = {Lane(f"{i}", "down", "dense"): Load(2, i) for i in range(120)}
    assert read.lanes() == {Lane("bob", "up", "dense"): Load(1, 9), **expected}
    file.close()


def test_writing_it_never_waits_for_the_disk(tmp_path: Path) -> None:
    file = TrafficFile(tmp_path)
    file.load()
    assert file._db is not None
    assert file._db.execute("PRAGMA synchronous").fetchone() == (0,)
    file.close()


def test_what_could_not_be_written_waits_for_the_next_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = TrafficFile(tmp_path)
    traffic = file.load()
    other = sqlite3.connect(tmp_path / FILE, isolation_level=None)
    assert file._db is not None
    file._db.execute("PRAGMA busy_timeout=1")
    other.execute("BEGIN IMMEDIATE")
    traffic.count(Lane("ann", "up", "dense"), framed=9)
    with caplog.at_level(logging.WARNING):
        file.save(traffic)
        file.save(traffic)
    assert caplog.text.count("bytes are counted on") == 1
    other.execute("COMMIT")
    other.close()
    file.save(traffic)
    read = read_traffic(tmp_path)
    assert read is not None
    assert read.lanes() == {Lane("ann", "up", "dense"): Load(0, 0, 9)}
    file.close()


def test_a_run_without_a_book_has_none(tmp_path: Path) -> None:
    assert read_traffic(tmp_path) is None
    (tmp_path / FILE).write_bytes(b"junk" * 999)
    assert read_traffic(tmp_path) is None


def test_a_codec_is_named_by_the_first_bytes() -> None:
    update_D = np.zeros(4, np.float32)
    dense = payloads.pack(dense_payload(update_D))
    one = np.array([2])
    sparse = payloads.pack(sparse_payload(4, one, update_D[one]))
    assert codec_of(dense).partition(" ")[0] == "dense"
    assert codec_of(memoryview(sparse)).partition(" ")[0] == "sparse"
    assert codec_of(b"\2" + dense[1:2]) == "dense deflated"
    assert [codec_of(junk) for junk in (b"", b"\1", b"ju", b"\1\xff")] == [UNKNOWN] * 4


# -------------------------------------------------------------------------- tables


def shown(what: object) -> str:
    """What a terminal shows."""
    console = Console(width=120)
    with console.capture() as capture:
        console.print(what)
    return capture.get()


def small() -> Traffic:
    """Two updates of a client, and a model for it and for an evaluator."""
    traffic = Traffic()
    traffic.count(Lane("ann", "up", "sparse"), framed=70, payload=40, transfers=2)
    traffic.count(Lane("ann", "down", "dense"), framed=450, payload=406, transfers=1)
    traffic.count(Lane("ann", "down", CONTROL), framed=20)
    traffic.count(Lane("judge", "down", "dense"), framed=410, payload=406, transfers=1)
    return traffic


def test_the_overhead_is_what_messages_hold_beside_payload() -> None:
    lanes = small().lanes()
    assert overhead(lanes) == (950 - 852) / 2
    line = overhead_line(lanes)
    assert line == "messages hold 49 bytes beside payload for each update"
    silent = {Lane("ann", "up", "dense"): Load(1, 40)}  # of a simulation
    assert overhead(silent) is None
    assert overhead_line(silent) == ""
    assert overhead_line({}) == ""


def test_the_tables_say_what_travelled() -> None:
    traffic = small()
    text = "".join(map(shown, bytes_of_all(traffic.lanes(), DIM)))
    assert "20 times less" in text
    assert "no less" in text
    rows = [line.split() for line in text.splitlines()]
    assert [
        "up",
        "sparse",
        "2",
        "40",
        "bytes",
        "70",
        "bytes",
        "20",
        "times",
        "less",
    ] in rows
    assert bytes_of_all({}, DIM) == []


def test_a_simulation_has_no_messages() -> None:
    traffic = Traffic()
    traffic.count(Lane("ann", "up", "dense"), payload=40, transfers=1)
    text = shown(totals_table(traffic.lanes(), DIM))
    assert "messages" not in text
    assert "10 times less" in text


def test_the_busiest_clients_come_first() -> None:
    lanes = {Lane(str(n), "up", "dense"): Load(1, n, n) for n in range(9)}
    assert busiest(lanes, 3) == ["8", "7", "6"]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1234, "1.23 kB"),
        (5e6, "5 MB"),
        (2e15, "2,000 TB"),
    ],
)
def test_sizes_have_three_digits(count: float, text: str) -> None:
    assert in_bytes(count) == text
    assert unbroken_bytes(count) == text.replace(" ", "\u00a0")


def test_nothing_saves_nothing() -> None:
    assert less(Load(), DIM) == ""
    assert less(Load(1, 0, 0), DIM) == ""
    assert {OTHERS} == {""}


def test_a_full_disk_at_the_start_costs_no_earlier_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = TrafficFile(tmp_path)
    traffic = file.load()
    traffic.count(Lane("ann", "up", "dense"), framed=9)
    file.save(traffic)
    file.close()

    def full(path: Path, how: str) -> sqlite3.Connection:
        if "immutable" in how:
            return connect(path, how)
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("fedrun.traffic_file.connect", full)
        traffic = file.load()
        assert traffic.lanes() == {Lane("ann", "up", "dense"): Load(0, 0, 9)}
        traffic.count(Lane("ann", "up", "dense"), framed=9)
        file.save(traffic)
        file.close()
    (said,) = caplog.messages
    assert said == (
        f"{tmp_path / FILE}: database or disk is full; bytes are counted on from those "
        "that it holds, and are not kept until the server starts again"
    )
    assert file.load().lanes() == {Lane("ann", "up", "dense"): Load(0, 0, 9)}
    file.close()


def test_a_file_that_a_full_disk_left_empty_is_told_once_and_truly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(path: Path) -> None:
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("fedrun.traffic_file.make_private", full)
        assert TrafficFile(tmp_path).load().lanes() == {}
    assert "bytes are counted from zero, and are not kept" in caplog.text
    caplog.clear()
    results = Results(tmp_path)
    assert results.messages is None
    assert results.lanes == {}
    (said,) = caplog.messages
    assert "it holds no counts: the disk was full" in said
    file = TrafficFile(tmp_path)
    file.load()
    file.close()
    assert len(caplog.messages) == 1
