"""The server counts the bytes that pass, and whose they are, whatever is sent."""

import errno
import json
import logging
import os
from pathlib import Path
from typing import Any

import grpc
import pytest
from click.testing import CliRunner
from fedwire.connect import OPTIONS
from fedwire.frames import CHUNK, chunk_frames, header_frame
from fedwire.keys import cid_of
from fedwire.service import PREFIX, Stub
from fedwire.v1 import federation_pb2 as pb
from rich.console import Console

from fedrun.traffic import CONTROL, OTHERS, UNKNOWN, Lane, Load, codec_of
from fedrun.traffic_file import FILE, read_traffic
from fedrun.units import in_bytes
from fedserver.cli import main
from fedserver.operator.remote import ask_status
from fedserver.view.live import LiveView
from fedserver.view.status import status_table
from tests.fedserver.test_status import shown
from tests.peer import CALL, Peer, key_of, packed
from tests.served import Served, ones, served, settings

GOOD = packed(ones())
CODEC = codec_of(GOOD)
LARGE = 600_000  # values: more than two chunks
OWN = ("grpc.use_local_subchannel_pool", 1)


def lane(server: Served, cid: str, way: Any, codec: str) -> Load:
    """What the server has counted."""
    return server.progress.traffic.lanes().get(
        Lane(cid_of(key_of(cid)), way, codec), Load()
    )


def work(server: Served, name: str = "ann") -> None:
    """A client delivers a good update."""
    with Peer(server.address, name) as peer:
        peer.pull()
        peer.push(GOOD)


class Alone(Peer):
    """A client with a connection of its own, which counts its messages."""

    def __init__(self, address: str, cid: str) -> None:
        super().__init__(address, cid)
        self.channel.close()
        self.channel = grpc.insecure_channel(address, (*OPTIONS, OWN))
        self.framed = {"up": 0, "down": 0}
        self.stub = Stub(self.channel, self._count)

    def _count(self, way: str, nbytes: int) -> None:
        self.framed[way] += nbytes


def test_an_update_is_counted_as_payload_and_as_message(server: Served) -> None:
    work(server)
    up = lane(server, "ann", "up", CODEC)
    assert (up.transfers, up.payload) == (1, len(GOOD))
    header = pb.PushHeader(key=key_of("ann"), seq=1, size=len(GOOD))
    assert up.framed > len(GOOD) + 3 * PREFIX + len(header.SerializeToString())
    assert lane(server, "ann", "up", CONTROL).framed > 0
    assert lane(server, "ann", "down", CONTROL).payload == 0


def test_both_sides_count_the_same_messages(server: Served) -> None:
    with Alone(server.address, "ann") as peer:
        for _ in range(3):
            peer.pull()
            peer.push(GOOD)
        report = pb.ReportRequest(key=key_of("ann"), error="none")
        peer.stub.report(report, timeout=CALL)
        lanes = server.progress.traffic.lanes()
        counted = dict.fromkeys(("up", "down"), 0)
        for key, load in lanes.items():
            assert key.cid == cid_of(key_of("ann"))
            counted[key.way] += load.framed
        assert counted == peer.framed


def test_a_model_that_goes_down_is_counted_with_its_chunks(tmp_path: Path) -> None:
    with served(tmp_path, LARGE) as server, Peer(server.address, "ann", LARGE) as peer:
        peer.pull()  # it says that it holds nothing
        body = len(peer.body)
        peer.push(packed(ones(LARGE)))
    assert body > 2 * CHUNK
    down = lane(server, "ann", "down", "dense")
    assert (down.transfers, down.payload) == (1, body)
    assert body < down.framed < 1.001 * body
    up = lane(server, "ann", "up", CODEC)
    assert up.payload == len(packed(ones(LARGE)))


def test_a_transfer_that_was_cut_off_counts_as_far_as_it_came(tmp_path: Path) -> None:
    payload = packed(ones(LARGE))
    with served(tmp_path, LARGE) as server, Peer(server.address, "ann", LARGE) as peer:
        peer.pull()
        frames = [header_frame(peer.header(payload)), *chunk_frames([payload])]
        assert peer.send(frames[:2]).answer == pb.ANSWER_RETRY
        up = lane(server, "ann", "up", CODEC)
        assert (up.transfers, up.payload) == (0, CHUNK)
        again = [header_frame(peer.header(payload)), *chunk_frames([payload], CHUNK)]
        assert peer.send(again).answer == pb.ANSWER_ACCEPTED
        up = lane(server, "ann", "up", CODEC)  # although its start came before
        assert (up.transfers, up.payload) == (1, len(payload))
        assert lane(server, "ann", "up", UNKNOWN) == Load()


def test_junk_is_counted_as_what_it_is(server: Served) -> None:
    with Peer(server.address, "ann") as peer:
        peer.pull()
        peer.push(b"junk")
    assert lane(server, "ann", "up", UNKNOWN).payload == 4


def test_made_up_names_have_one_account_between_them(server: Served) -> None:
    channel = grpc.insecure_channel(server.address, OPTIONS)
    stub = Stub(channel)
    for number in range(5):
        stub.leave(pb.LeaveRequest(key=key_of(f"nobody-{number}")), timeout=CALL)
    channel.close()
    lanes = server.progress.traffic.lanes()
    assert {key.cid for key in lanes} == {OTHERS}
    assert len(lanes) == 2


def test_heartbeats_count_while_they_go_on(server: Served) -> None:
    with Peer(server.address, "ann") as peer:
        before = lane(server, "ann", "up", CONTROL).framed
        list(peer.attend(1, [pb.Beat(), pb.Beat()]))
        first = PREFIX + len(pb.Beat(key=key_of("ann"), session=1).SerializeToString())
        now = lane(server, "ann", "up", CONTROL).framed
    assert now - before == first + 2 * PREFIX


# ----------------------------------------------------------------- shown, and kept


def test_the_status_has_them_by_client_direction_and_codec(server: Served) -> None:
    work(server)
    asked = CliRunner().invoke(main, ["status", server.address, "--json"])
    told = json.loads(asked.stdout)
    [client] = told["clients"]
    lanes = {(x["way"], x["codec"]): x for x in client["traffic"]["lanes"]}
    assert lanes["up", CODEC]["payload"] == len(GOOD)
    assert lanes["up", CODEC]["framed"] > len(GOOD)
    text = shown(status_table(told))
    for word in ("dense", "control", "than float32", "in messages"):
        assert word in text
    [row] = [line for line in text.splitlines() if line.startswith("ann")]
    payload = client["payload_up"] + client["payload_down"]
    assert row.rstrip().endswith(in_bytes(payload))


def test_the_view_has_them_as_well(server: Served) -> None:
    view = LiveView(server.progress, Console(width=120, height=40))
    work(server)
    text = shown(view._draw())
    assert f"{in_bytes(len(GOOD))} {CODEC}" in text
    assert "than float32" in text


def test_a_status_of_many_clients_lists_the_latest(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedserver.view.status.MOST_LISTED", 2)
    for name in ("ann", "bob", "eve"):
        work(server, name)
    told = ask_status(server.address)
    assert [client["name"] for client in told["clients"]] == ["bob", "eve"]
    assert told["unlisted"] == 1
    assert "and 1 more" in shown(status_table(told))


def test_a_restarted_server_counts_bytes_on(tmp_path: Path) -> None:
    run = Served(tmp_path, settings(tmp_path))
    with run:
        work(run)
    before = read_traffic(tmp_path / "run")
    assert before is not None
    with run:
        assert run.progress.traffic.lanes() == before.lanes()
        work(run, "bob")
    after = read_traffic(tmp_path / "run")
    assert after is not None
    assert after.lanes().items() >= before.lanes().items()
    assert after.lanes()[Lane(cid_of(key_of("bob")), "up", CODEC)].payload == len(GOOD)


def test_a_damaged_book_is_begun_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = Served(tmp_path, settings(tmp_path))
    with run:
        work(run)
    (tmp_path / "run" / FILE).write_bytes(b"no database at all" * 100)
    with caplog.at_level(logging.WARNING), run:
        assert run.progress.traffic.lanes() == {}
        work(run)
    assert "bytes are counted from zero" in caplog.text
    assert read_traffic(tmp_path / "run") is not None


def test_a_book_that_cannot_be_kept_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("fedrun.traffic_file.connect", full)
    with caplog.at_level(logging.WARNING), served(tmp_path) as server:
        work(server)
        assert lane(server, "ann", "up", CODEC).transfers == 1
    assert "are not kept until" in caplog.text
