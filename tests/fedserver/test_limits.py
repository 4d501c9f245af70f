"""What one client can hold: a pull, an upload, and neither of them for ever."""

import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from fedwire.connect import OPTIONS, SERVICE
from fedwire.frames import CHUNK, chunk_frames, header_frame, read_reply
from fedwire.v1 import federation_pb2 as pb

from fedserver.calls.pulls import Downloads
from tests.fedserver.disk import Disk
from tests.fedserver.honest import still_serves
from tests.peer import CALL, Peer, packed
from tests.served import Served, ones, served, until

LARGE = 2_000_000  # values: a model of 8 MB, more than fits on the way
DIM = 250_000  # an update of 1 MB
QUICK = {"stall": 0.5, "drain": 1.0, "linger": 0.0}


def own_connection(server: Served) -> grpc.Channel:
    """A channel that shares its connection with no other."""
    options = [*OPTIONS, ("grpc.use_local_subchannel_pool", 1)]
    return grpc.insecure_channel(server.address, options)


def unread(channel: grpc.Channel, peer: Peer) -> Any:
    """A pull of which nothing is read."""
    call = channel.stream_stream(f"/{SERVICE}/Pull", None, None)
    request = pb.PullRequest(key=peer.key, epoch=peer.epoch).SerializeToString()
    return call(iter([request]), timeout=CALL)


def test_a_newer_pull_ends_the_one_before(tmp_path: Path) -> None:
    algorithm = {"min_clients": 9}
    with served(tmp_path, algorithm=algorithm) as server, Peer(server.address) as peer:
        request = pb.PullRequest(key=peer.key, epoch=peer.epoch)
        calls = [peer.stub.pull(request, timeout=CALL) for _ in range(3)]
        for call in calls[:2]:
            assert read_reply(next(call)).refused == pb.ANSWER_RETRY
        assert len(server.server._service.pulls._newest._calls) == 1
        calls[2].cancel()


@pytest.mark.skipif("sys.platform != 'linux'", reason="connections are known on Linux")
def test_who_does_not_read_holds_no_place_for_long(tmp_path: Path) -> None:
    limits = {"max_downloads": 1}
    with (
        served(tmp_path, LARGE, server=limits, timeouts=QUICK) as server,
        ExitStack() as stack,
    ):
        lazy = stack.enter_context(Peer(server.address, "lazy", LARGE))
        own = stack.enter_context(own_connection(server))
        call = unread(own, lazy)
        places = server.server._service.pulls._downloads
        until(lambda: places.is_full, "it has the place")
        with Peer(server.address, "honest", LARGE) as honest:
            assert honest.pull().task == pb.TASK_KIND_TRAIN
            assert len(honest.body) > 4 * LARGE
        assert not places.is_full
        with pytest.raises(
            grpc.RpcError
        ):  # its connection is closed, and so all is free
            list(call)


def test_downloads_that_wait_hold_no_frame(tmp_path: Path) -> None:
    limits = {"max_downloads": 1}
    timeouts = {**QUICK, "stall": 20.0}
    with (
        served(tmp_path, LARGE, server=limits, timeouts=timeouts) as server,
        ExitStack() as stack,
    ):
        names = [f"lazy {number}" for number in range(8)]
        peers = [stack.enter_context(Peer(server.address, n, LARGE)) for n in names]
        own = stack.enter_context(own_connection(server))
        calls = [unread(own, peer) for peer in peers]
        waiting = server.server._service.pulls._downloads
        until(lambda: waiting.waiting == 7, "all others wait")
        sent = server.progress.traffic.lanes()
        assert (
            sum(load.payload for lane, load in sent.items() if lane.way == "down") == 0
        )
        for call in calls:
            call.cancel()
        until(lambda: not waiting.is_full, "all are gone")


@pytest.mark.skipif("sys.platform != 'linux'", reason="connections are known on Linux")
def test_a_crowd_that_does_not_read_makes_room_for_whoever_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Downloads.__init__, "__defaults__", (0.2,))
    limits, timeouts = {"max_downloads": 2}, {**QUICK, "stall": 60.0}
    with (
        served(tmp_path, LARGE, server=limits, timeouts=timeouts) as server,
        ExitStack() as stack,
    ):
        for number in range(6):
            own = stack.enter_context(own_connection(server))
            lazy = stack.enter_context(Peer(server.address, f"lazy {number}", LARGE))
            stack.callback(unread(own, lazy).cancel)
        places = server.server._service.pulls._downloads
        until(lambda: places.waiting == 4, "all others wait")
        with Peer(server.address, "honest", LARGE) as honest:
            for _ in range(3):
                honest.pull()
                assert len(honest.body) > 4 * LARGE


# ------------------------------------------------------------------------- uploads


def pushed(peer: Peer, seq: int = 1) -> Any:
    """An update on its way."""
    payload = packed(np.full(peer.dim, seq, np.float32))
    header = peer.header(payload, seq=seq)
    frames = [header_frame(header), *chunk_frames([payload])]
    return peer.stub.push.future(iter(frames), timeout=CALL)


def test_updates_are_held_until_their_verdict_and_no_more_than_so_many(
    tmp_path: Path,
) -> None:
    limits = {"max_uploads": 4}
    with served(tmp_path, DIM, server=limits) as server, ExitStack() as stack:
        names = [f"client {number}" for number in range(20)]
        peers = [stack.enter_context(Peer(server.address, n, DIM)) for n in names]
        for peer in peers:
            peer.pull()
        disk = Disk(server)
        disk.stop()
        calls = [pushed(peer) for peer in peers]
        uploads = server.server._service.pushes._uploads
        until(
            lambda: sum(call.done() for call in calls) == 12,
            "there is room for four, and four more wait in the line",
        )
        assert {call.result().answer for call in calls if call.done()} == {
            pb.ANSWER_RETRY
        }
        assert uploads.nbytes <= 4 * (4 * DIM + 100)
        judging = server.server._service.pushes._judging
        cancelled = next(
            call
            for peer, call in zip(peers, calls, strict=True)
            if peer.cid in judging and not call.done()
        )
        cancelled.cancel()
        held = uploads.nbytes
        assert held > 3 * 4 * DIM  # it waits on, and is not forgotten
        disk.go()
        answers = [c.result().answer for c in calls if not c.cancelled()]
        assert answers.count(pb.ANSWER_ACCEPTED) == 7
        until(lambda: uploads.nbytes == 0, "all have their verdict")
        until(lambda: server.state.applied == 8, "and the cancelled one too")


def test_small_updates_are_counted_in_bytes(tmp_path: Path) -> None:
    size = len(packed(ones()))
    limits = {"max_upload_bytes": 3 * size + 1, "max_update_bytes": size}
    with served(tmp_path, server=limits) as server, ExitStack() as stack:
        peers = [stack.enter_context(Peer(server.address, f"p{i}")) for i in range(9)]
        for peer in peers:
            peer.pull()
        disk = Disk(server)
        disk.stop()
        calls = []
        for peer in peers:
            payload = packed(ones())
            header = peer.header(payload, size=0, digest=b"")
            header.payload, header.crc32 = payload, zlib.crc32(payload)
            frames = iter([header_frame(header)])
            calls.append(peer.stub.push.future(frames, timeout=CALL))
        uploads = server.server._service.pushes._uploads
        until(lambda: len(uploads._lines[True]) == 6, "six wait in the line")
        assert uploads.nbytes == 3 * size
        disk.go()
        assert {call.result().answer for call in calls} == {pb.ANSWER_ACCEPTED}


def test_an_update_that_comes_again_waits_for_the_same_verdict(tmp_path: Path) -> None:
    with served(tmp_path, DIM) as server, Peer(server.address, dim=DIM) as peer:
        peer.pull()
        disk = Disk(server)
        disk.stop()
        first = pushed(peer)
        disk.until_it_waits()
        again, other = pushed(peer), pushed(peer, seq=2)
        assert other.result().answer == pb.ANSWER_RETRY  # one after the other
        assert server.server._service.pushes._uploads.nbytes < 5 * DIM
        disk.go()
        assert first.result() == again.result()
        assert first.result().answer == pb.ANSWER_ACCEPTED


def test_who_sends_too_slowly_is_stopped_and_makes_room(tmp_path: Path) -> None:
    limits = {"max_uploads": 1}
    with (
        served(tmp_path, server=limits, timeouts=QUICK) as server,
        Peer(server.address, "slow") as slow,
    ):
        slow.pull()
        payload = packed(ones())
        done = threading.Event()

        def frames() -> Iterator[bytes]:
            yield header_frame(slow.header(payload))
            while not done.wait(0.05):  # one byte, sent again and again
                yield from chunk_frames([payload[:1]])

        began = time.monotonic()
        assert slow.send(frames()).answer == pb.ANSWER_RETRY
        assert time.monotonic() - began > 0.4
        done.set()
        still_serves(server)


def test_who_never_says_what_it_sends_is_stopped(tmp_path: Path) -> None:
    with (
        served(tmp_path, timeouts=QUICK) as server,
        Peer(server.address) as peer,
    ):
        done = threading.Event()

        def nothing() -> Iterator[bytes]:
            done.wait(CALL)
            yield from ()

        with pytest.raises(grpc.RpcError) as caught:
            peer.send(nothing())
        done.set()
        assert isinstance(caught.value, grpc.Call)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        still_serves(server)


def test_a_newer_upload_ends_the_one_before(server: Served) -> None:
    with Peer(server.address) as peer:
        peer.pull()
        size = 2 * CHUNK
        server.server._service.pushes._receiver._most = size
        done, begun = threading.Event(), threading.Event()

        def stalled() -> Iterator[bytes]:
            yield header_frame(peer.header(b"", size=size, digest=b"x"))
            begun.set()
            done.wait(CALL)

        first = peer.stub.push.future(stalled(), timeout=CALL)
        begun.wait(CALL)
        uploads = server.server._service.pushes._uploads
        until(lambda: uploads.nbytes == size, "it has begun")
        assert peer.push(packed(ones())).answer == pb.ANSWER_ACCEPTED
        assert first.result().answer == pb.ANSWER_RETRY
        done.set()
