import pytest
from fedwire.frames import Part
from hypothesis import given
from hypothesis import strategies as st

from fedcore.errors import ProtocolError, UnavailableError
from fedserver.calls import pushes as module
from fedserver.calls.pushes import Uploads

NAME = ("ann", 1, "digest")


def uploads_of(
    most: int, most_bytes: int = 1 << 20, patience: float = 30.0, slowest: float = 1e3
) -> Uploads:
    """So many uploads at a time."""
    return Uploads(most, most_bytes, patience, slowest)


def part(offset: int, data: bytes) -> Part:
    """A chunk whose checksum was right."""
    return Part(offset, memoryview(data))


@given(st.binary(min_size=1, max_size=60), st.lists(st.integers(0, 60)))
def test_an_upload_is_whole_however_often_it_was_cut(
    whole: bytes, cuts: list[int]
) -> None:
    uploads = uploads_of(2)
    for end in [*sorted(cut for cut in cuts if cut < len(whole)), len(whole)]:
        start = uploads.received(NAME)
        upload = uploads.begin(NAME, len(whole))
        assert not upload.is_whole
        if end > start:
            upload.write(part(start, whole[start:end]))
        uploads.cut(upload)
        assert uploads.received(NAME) == max(start, end)
    assert upload.is_whole
    assert bytes(upload.buffer) == whole
    uploads.end(upload)
    assert uploads.received(NAME) == 0


@given(st.lists(st.tuples(st.integers(0, 12), st.binary(max_size=12)), max_size=8))
def test_chunks_never_leave_the_buffer(chunks: list[tuple[int, bytes]]) -> None:
    upload = uploads_of(1).begin(NAME, 10)
    for offset, data in chunks:
        before = upload.received
        try:
            upload.write(part(offset, data))
        except ProtocolError:
            assert upload.received == before
        assert upload.received <= len(upload.buffer) == 10


def test_a_chunk_must_follow_the_one_before() -> None:
    upload = uploads_of(1).begin(NAME, 10)
    upload.write(part(0, b"abc"))
    with pytest.raises(ProtocolError, match="expected byte 3, got 4"):
        upload.write(part(4, b"x"))
    with pytest.raises(ProtocolError, match="11 bytes in an update of 10"):
        upload.write(part(3, b"12345678"))


def test_a_sender_may_begin_anew() -> None:
    uploads = uploads_of(1)
    upload = uploads.begin(NAME, 4)
    upload.write(part(0, b"ab"))
    uploads.cut(upload)
    again = uploads.begin(NAME, 4)
    again.write(part(0, b"wxyz"))
    assert again.is_whole
    assert again.buffer == b"wxyz"


def test_an_upload_of_another_size_is_another_one() -> None:
    uploads = uploads_of(1)
    first = uploads.begin(NAME, 4)
    first.write(part(0, b"ab"))
    uploads.cut(first)
    assert len(uploads.begin(NAME, 5).buffer) == 5


def test_what_is_being_received_is_not_told() -> None:
    uploads = uploads_of(1)
    uploads.begin(NAME, 4).write(part(0, b"ab"))
    assert uploads.received(NAME) == 0


def test_a_second_connection_takes_the_upload_over() -> None:
    uploads = uploads_of(1)
    first = uploads.begin(NAME, 4)
    first.write(part(0, b"ab"))
    second = uploads.begin(NAME, 4)
    with pytest.raises(UnavailableError, match="needed for another upload"):
        first.write(part(2, b"cd"))
    assert (len(first.buffer), first.is_whole) == (0, False)
    second.write(part(0, b"abcd"))
    uploads.end(first)  # changes nothing: it is not there any more
    uploads.cut(second)
    assert uploads.received(NAME) == 4


def test_no_more_than_so_many_are_received_at_a_time() -> None:
    uploads = uploads_of(2)
    uploads.begin(("ann", 1, ""), 4)
    uploads.begin(("bob", 1, ""), 4)
    with pytest.raises(UnavailableError, match="no room for another update"):
        uploads.begin(("cleo", 1, ""), 4)


def test_the_one_that_waits_longest_makes_room() -> None:
    uploads = uploads_of(2)
    for name in ("ann", "bob"):
        upload = uploads.begin((name, 1, ""), 4)
        upload.write(part(0, b"ab"))
        uploads.cut(upload)
    uploads.begin(("cleo", 1, ""), 4)
    assert uploads.received(("ann", 1, "")) == 0
    assert uploads.received(("bob", 1, "")) == 2


def test_one_that_nobody_goes_on_with_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    uploads = uploads_of(9)
    upload = uploads.begin(NAME, 4)
    upload.write(part(0, b"ab"))
    uploads.cut(upload)
    monkeypatch.setattr(module, "IDLE", -1.0)
    uploads.begin(("bob", 1, ""), 4)
    assert uploads.received(NAME) == 0


def test_a_sender_that_stalls_does_not_keep_others_out() -> None:
    uploads, stopped = uploads_of(2), []
    stalled = uploads.begin(NAME, 9000, lambda: stopped.append("ann"))
    quick = uploads.begin(("eve", 1, ""), 9000, lambda: stopped.append("eve"))
    quick.write(part(0, bytes(8000)))
    for upload in (stalled, quick):
        upload.began -= module.BRIEF + 3
    uploads.begin(("bob", 1, ""), 4)
    assert stalled.is_released
    assert stopped == ["ann"]
    with pytest.raises(UnavailableError):  # nobody else is slow
        uploads.begin(("cleo", 1, ""), 9000)


def test_who_has_delivered_before_may_stall_for_longer() -> None:
    for has_delivered in (False, True):
        uploads = uploads_of(1)
        if has_delivered:
            first = uploads.hold(("ann", 0, ""), b"small")
            uploads.decide(first)
            uploads.end(first)
        upload = uploads.begin(NAME, 9000)
        upload.began -= 0.9 * (module.BRIEF if has_delivered else 1)
        with pytest.raises(UnavailableError):
            uploads.begin(("bob", 1, ""), 4)
        upload.began -= 0.2 * module.BRIEF
        uploads.begin(("bob", 1, ""), 4)
        assert upload.is_released


def test_who_begins_again_and_again_has_no_new_patience(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    uploads = uploads_of(1)
    for seq in range(1, 4):
        upload = uploads.begin(("ann", seq, ""), 9000)
        now += module.BRIEF / module.NEW / 2
    uploads.begin(("bob", 1, ""), 9000)
    assert upload.is_released
    with pytest.raises(UnavailableError):  # bob is young
        uploads.begin(("cleo", 1, ""), 9000)


def test_an_upload_ends_when_its_time_is_over() -> None:
    uploads = uploads_of(1, patience=30.0, slowest=100.0)
    upload = uploads.begin(NAME, 1000)
    assert uploads.ends(upload) == upload.began + 30
    upload.write(part(0, bytes(500)))
    assert uploads.ends(upload) == upload.began + 35
    upload.write(part(0, b"x"))  # what is sent again brings no more time
    assert uploads.ends(upload) < upload.began + 31
    upload.began -= 40
    uploads.cut(upload)
    assert uploads.received(NAME) == 1  # the slowest link goes on from there


def test_all_payloads_share_so_many_bytes() -> None:
    uploads = uploads_of(9, most_bytes=100)
    upload = uploads.begin(NAME, 60)
    small = uploads.hold(("bob", 1, ""), bytes(40))
    for refused in (uploads.begin, lambda name, _: uploads.hold(name, b"x")):
        with pytest.raises(UnavailableError):
            refused(("eve", 1, ""), 1)
    uploads.decide(small)
    with pytest.raises(UnavailableError):  # it is held until its verdict
        uploads.hold(("eve", 1, ""), b"x")
    uploads.end(small)
    assert uploads.nbytes == len(upload.buffer) == 60
    uploads.hold(("eve", 1, ""), bytes(40))


def test_small_payloads_take_no_place_of_large_ones() -> None:
    uploads = uploads_of(1)
    for number in range(5):
        uploads.hold((f"client {number}", 1, ""), b"small")
    uploads.begin(NAME, 4)


def test_a_client_has_one_upload() -> None:
    uploads, stopped = uploads_of(9), []
    uploads.begin(NAME, 4, lambda: stopped.append(1))
    uploads.hold(("ann", 2, "other"), b"small", lambda: stopped.append(2))
    assert (stopped, uploads.nbytes) == ([1], 5)
    last = uploads.begin(("ann", 3, "third"), 4)
    assert (stopped, uploads.nbytes) == ([1, 2], 4)
    uploads.decide(last)
    with pytest.raises(UnavailableError, match="is being decided on"):
        uploads.begin(("ann", 4, "fourth"), 4)
    assert uploads.is_waiting(("ann", 3, "third"))
    assert not uploads.is_waiting(("ann", 4, "fourth"))
    uploads.end(last)
    uploads.begin(("ann", 4, "fourth"), 4)
