import pytest
from fedwire.frames import Part
from hypothesis import given
from hypothesis import strategies as st

from fedcore.errors import ProtocolError, UnavailableError
from fedserver import uploads as module
from fedserver.uploads import Uploads

NAME = ("ann", 1, "digest")


def part(offset: int, data: bytes) -> Part:
    """A chunk whose checksum was right."""
    return Part(offset, memoryview(data))


@given(st.binary(min_size=1, max_size=60), st.lists(st.integers(0, 60)))
def test_an_upload_is_whole_however_often_it_was_cut(
    whole: bytes, cuts: list[int]
) -> None:
    uploads = Uploads(2)
    for end in [*sorted(cut for cut in cuts if cut < len(whole)), len(whole)]:
        start = uploads.received(NAME)
        upload = uploads.begin(NAME, len(whole))
        assert not upload.is_whole
        if end > start:
            upload.write(part(start, whole[start:end]))
        uploads.pause(upload)
        assert uploads.received(NAME) == max(start, end)
    assert upload.is_whole
    assert bytes(upload.buffer) == whole
    uploads.end(NAME, upload)
    assert uploads.received(NAME) == 0


@given(st.lists(st.tuples(st.integers(0, 12), st.binary(max_size=12)), max_size=8))
def test_chunks_never_leave_the_buffer(chunks: list[tuple[int, bytes]]) -> None:
    upload = Uploads(1).begin(NAME, 10)
    for offset, data in chunks:
        before = upload.received
        try:
            upload.write(part(offset, data))
        except ProtocolError:
            assert upload.received == before
        assert upload.received <= len(upload.buffer) == 10


def test_a_chunk_must_follow_the_one_before() -> None:
    upload = Uploads(1).begin(NAME, 10)
    upload.write(part(0, b"abc"))
    with pytest.raises(ProtocolError, match="expected byte 3, got 4"):
        upload.write(part(4, b"x"))
    with pytest.raises(ProtocolError, match="11 bytes in an update of 10"):
        upload.write(part(3, b"12345678"))


def test_a_sender_may_begin_anew() -> None:
    uploads = Uploads(1)
    upload = uploads.begin(NAME, 4)
    upload.write(part(0, b"ab"))
    uploads.pause(upload)
    again = uploads.begin(NAME, 4)
    again.write(part(0, b"wxyz"))
    assert again.is_whole
    assert again.buffer == b"wxyz"


def test_an_upload_of_another_size_is_another_one() -> None:
    uploads = Uploads(1)
    first = uploads.begin(NAME, 4)
    first.write(part(0, b"ab"))
    uploads.pause(first)
    assert len(uploads.begin(NAME, 5).buffer) == 5


def test_what_is_being_received_is_not_told() -> None:
    uploads = Uploads(1)
    uploads.begin(NAME, 4).write(part(0, b"ab"))
    assert uploads.received(NAME) == 0


def test_a_second_connection_takes_the_upload_over() -> None:
    uploads = Uploads(1)
    first = uploads.begin(NAME, 4)
    first.write(part(0, b"ab"))
    second = uploads.begin(NAME, 4)
    with pytest.raises(UnavailableError, match="needed for another upload"):
        first.write(part(2, b"cd"))
    assert (len(first.buffer), first.is_whole) == (0, False)
    second.write(part(0, b"abcd"))
    uploads.end(NAME, first)  # changes nothing: it is not there any more
    uploads.pause(second)
    assert uploads.received(NAME) == 4


def test_no_more_than_so_many_are_received_at_a_time() -> None:
    uploads = Uploads(2)
    uploads.begin(("ann", 1, ""), 4)
    uploads.begin(("bob", 1, ""), 4)
    with pytest.raises(UnavailableError, match="2 uploads are in progress"):
        uploads.begin(("cleo", 1, ""), 4)


def test_the_one_that_waits_longest_makes_room() -> None:
    uploads = Uploads(2)
    for name in ("ann", "bob"):
        upload = uploads.begin((name, 1, ""), 4)
        upload.write(part(0, b"ab"))
        uploads.pause(upload)
    uploads.begin(("cleo", 1, ""), 4)
    assert uploads.received(("ann", 1, "")) == 0
    assert uploads.received(("bob", 1, "")) == 2


def test_one_that_nobody_goes_on_with_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    uploads = Uploads(9)
    upload = uploads.begin(NAME, 4)
    upload.write(part(0, b"ab"))
    uploads.pause(upload)
    monkeypatch.setattr(module, "IDLE", -1.0)
    uploads.begin(("bob", 1, ""), 4)
    assert uploads.received(NAME) == 0


def test_a_sender_that_stalls_does_not_keep_others_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    uploads = Uploads(1)
    stalled = uploads.begin(NAME, 4)
    monkeypatch.setattr(module, "IDLE", -1.0)
    uploads.begin(("bob", 1, ""), 4)
    assert stalled.is_released
