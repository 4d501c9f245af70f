"""Large payloads over a connection that breaks: what arrived is not sent again."""

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from fedwire.convert import patch_name
from fedwire.frames import CHUNK, chunk_frames, header_frame
from fedwire.v1 import federation_pb2 as pb
from hypothesis import given
from hypothesis import strategies as st

from tests.fedserver.disk import Disk
from tests.fedserver.honest import still_serves
from tests.peer import CALL, Peer, digest_of, packed
from tests.served import Served, served, until

DIM = 700_000  # 2.7 chunks
PAYLOAD = packed(np.linspace(-1, 1, DIM).astype(np.float32))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A federation whose updates take several chunks."""
    with served(tmp_path_factory.mktemp("large"), DIM) as running:
        yield running


def cut_off(peer: Peer, until_byte: int) -> None:
    """Sends a part of the next update, and hangs up."""
    header = header_frame(peer.header(PAYLOAD))
    sent, hang_up = threading.Event(), threading.Event()

    def frames() -> Iterator[bytes]:
        yield header
        yield from chunk_frames([PAYLOAD[:until_byte]])
        sent.set()
        hang_up.wait(CALL)

    call = peer.stub.push.future(frames(), timeout=CALL)
    sent.wait(CALL)
    before = received(peer)
    call.cancel()
    hang_up.set()
    assert before in (0, until_byte)  # not told while it is being received


def received(peer: Peer) -> int:
    """How much of the next update the server has."""
    request = pb.ResumeRequest(
        key=peer.key, seq=peer.seq + 1, digest=digest_of(PAYLOAD)
    )
    return int(peer.stub.resume(request, timeout=CALL).received)


@pytest.mark.parametrize("byte", [1, CHUNK - 1, CHUNK, CHUNK + 1, len(PAYLOAD) - 1])
def test_an_upload_goes_on_where_it_was_cut(large: Served, byte: int) -> None:
    with Peer(large.address, f"cut at {byte}", DIM) as peer:
        peer.pull()
        cut_off(peer, byte)
        until(lambda: received(peer) > 0, "the server has noticed")
        start = received(peer)
        assert start <= byte
        frames = [header_frame(peer.header(PAYLOAD)), *chunk_frames([PAYLOAD], start)]
        assert peer.send(frames).answer == pb.ANSWER_ACCEPTED


def test_an_upload_that_was_cut_may_also_begin_anew(large: Served) -> None:
    with Peer(large.address, "anew", DIM) as peer:
        peer.pull()
        cut_off(peer, CHUNK)
        until(lambda: received(peer) > 0, "the server has noticed")
        assert peer.push(PAYLOAD).answer == pb.ANSWER_ACCEPTED


def test_an_upload_is_taken_over_while_the_old_connection_still_hangs(
    large: Served,
) -> None:
    with Peer(large.address, "hanging", DIM) as peer:
        peer.pull()
        header = header_frame(peer.header(PAYLOAD))
        sent, hang_up = threading.Event(), threading.Event()

        def frames() -> Iterator[bytes]:
            yield header
            yield from chunk_frames([PAYLOAD[:CHUNK]])
            sent.set()
            hang_up.wait(CALL)

        hanging = peer.stub.push.future(frames(), timeout=CALL)
        sent.wait(CALL)
        assert peer.push(PAYLOAD).answer == pb.ANSWER_ACCEPTED
        hang_up.set()
        assert hanging.result().answer == pb.ANSWER_RETRY


def test_while_a_message_is_decided_on_by_its_header_another_one_does_not_wait(
    tmp_path: Path,
) -> None:
    with served(tmp_path, DIM) as server, Peer(server.address, "eager", DIM) as peer:
        disk = Disk(server)

        def frames(seq: int) -> list[bytes]:
            header = peer.header(PAYLOAD, seq=seq)  # of no task
            return [header_frame(header), *chunk_frames([PAYLOAD])]

        disk.stop()
        first = peer.stub.push.future(iter(frames(1)), timeout=CALL)
        disk.until_it_waits()
        for seq in (1, 2):
            reply = peer.stub.push(iter(frames(seq)), timeout=CALL / 4)
            assert reply.answer == pb.ANSWER_RETRY
        disk.go()
        assert first.result().answer == pb.ANSWER_REJECTED_POLICY


@given(st.integers(0, 5 * DIM))
def test_a_download_goes_on_from_any_byte(large: Served, byte: int) -> None:
    with Peer(large.address, "downloading", DIM) as peer:
        told = peer.pull()
        whole = peer.body
        assert told.kind == pb.PATCH_KIND_FULL
        again = peer.pull(
            partial=patch_name(told, pb.PullRequest(epoch=peer.epoch)),
            partial_bytes=byte,
        )
        assert again.from_byte == min(byte, len(whole))
        assert peer.body == whole[byte:]


def test_a_download_of_other_bytes_begins_anew(large: Served) -> None:
    with Peer(large.address, "of others", DIM) as peer:
        whole = sum(peer.pull().lengths)
        told = peer.pull(partial="something else", partial_bytes=100)
        assert told.from_byte == 0
        assert len(peer.body) == whole


def test_what_was_cut_counts_once(tmp_path: Path) -> None:
    with served(tmp_path, DIM) as server, Peer(server.address, dim=DIM) as peer:
        peer.pull()
        for _ in range(3):
            cut_off(peer, CHUNK)
        assert peer.push(PAYLOAD).answer == pb.ANSWER_ACCEPTED
        still_serves(server)
        assert server.state.applied == 2
