"""Trials are judged like updates, and count nowhere."""

import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

import grpc
import numpy as np
import pytest
from fedwire.frames import chunk_frames, header_frame
from fedwire.service import PROTOCOLS
from fedwire.v1 import federation_pb2 as pb

from fedrun.traffic import OTHERS, of_all
from fedserver.calls import enrolment as trials
from fedserver.calls.enrolment import MOST, OF_ADDRESS, OF_CLIENT
from tests.fedserver.honest import refused, still_serves
from tests.peer import CALL, Peer, key_of, packed
from tests.served import DIM, Served, ones, spec_of, until


def stranger(server: Served) -> Peer:
    """A peer that never enrols."""
    return Peer(server.address, "stranger")


def trial(peer: Peer, payload: bytes, **changes: Any) -> pb.TrialReply:
    header = peer.header(payload, **changes)
    frames = [header_frame(header), *chunk_frames([payload])]
    return peer.stub.trial(iter(frames), timeout=CALL)


def asked(peer: Peer, package: str = "0.1.0", **changes: Any) -> pb.CheckReply:
    told: dict[str, Any] = {
        "protocols": PROTOCOLS,
        "key": peer.key,
        "owner": peer.owner,
        "name": peer.name,
        "spec": spec_of(DIM).to_json(),
    }
    request = pb.CheckRequest(
        enrol=pb.EnrolRequest(**{**told, **changes}), package=package
    )
    return peer.stub.check(request, timeout=CALL)


def about(reply: pb.CheckReply) -> set[str]:
    return {objection.about for objection in reply.objections}


def trials_of(server: Served) -> Any:
    """What takes the trials of a server."""
    method: Any = server.server._service.trial
    return method.__self__


def untouched(server: Served) -> None:
    """Nobody is enrolled, no update is counted, no memory is held."""
    assert server.state.clients == {}
    assert server.state.roster.owners == {}
    assert (server.state.version, server.state.count) == (0, 0)
    assert server.lines("enrolled") == []
    assert server.lines("decided") == []
    assert server.server._service.pushes._uploads.nbytes == 0
    assert trials_of(server)._uploads.nbytes == 0


def test_a_trial_gets_a_verdict_and_counts_nowhere(server: Served) -> None:
    peer = stranger(server)
    for _ in range(3):
        reply = trial(peer, packed(ones()))
        assert reply.answer == pb.ANSWER_ACCEPTED
        assert reply.received == len(packed(ones()))
    untouched(server)
    with Peer(server.address, "honest") as honest:  # buffer: 1
        assert honest.push(packed(ones())).answer == pb.ANSWER_ACCEPTED
    assert server.state.applied + server.state.count == 1
    peer.channel.close()


@pytest.mark.parametrize(
    ("payload", "verdict"),
    [
        (packed(np.full(DIM, np.nan, np.float32)), pb.ANSWER_DISCARDED),
        (packed(np.ones(DIM + 1, np.float32)), pb.ANSWER_REJECTED_MALFORMED),
        (b"no payload at all", pb.ANSWER_REJECTED_MALFORMED),
    ],
)
def test_a_trial_that_no_server_could_use_is_told_so(
    server: Served, payload: bytes, verdict: int
) -> None:
    peer = stranger(server)
    reply = trial(peer, payload)
    assert (reply.answer, bool(reply.reason)) == (verdict, True)
    untouched(server)
    peer.channel.close()


def test_a_policy_that_raises_at_a_trial_is_told_and_ends_nothing(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judge(*_: Any) -> Any:
        raise ValueError("no such weight")

    monkeypatch.setattr(trials, "judge", judge)
    peer = stranger(server)
    reply = trial(peer, packed(ones()))
    assert reply.answer != pb.ANSWER_ACCEPTED
    assert "no such weight" in reply.reason
    untouched(server)
    peer.channel.close()


def test_no_trial_is_taken_while_the_disk_fails(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(context: Any) -> None:
        await context.abort(grpc.StatusCode.UNAVAILABLE, "the disk is full")

    monkeypatch.setattr(trials_of(server)._callers, "check_disk", fails)
    peer = stranger(server)
    with refused("UNAVAILABLE", "the disk is full"):
        trial(peer, packed(ones()))
    peer.channel.close()


def test_a_trial_is_bounded_like_an_update(server: Served) -> None:
    peer = stranger(server)
    limit = server.server._service.pushes.max_update_bytes
    with pytest.raises(grpc.RpcError) as caught:
        trial(peer, b"x", size=limit + 1)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    with pytest.raises(grpc.RpcError) as caught:
        trial(peer, packed(ones()), key=b"short")
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert trial(peer, packed(ones()), digest=b"other").answer == pb.ANSWER_RETRY
    untouched(server)
    peer.channel.close()


def test_nothing_is_kept_of_trials_that_fail(server: Served) -> None:
    uploads = trials_of(server)._uploads
    begun = threading.Event()

    def part(header: pb.PushHeader) -> Iterator[bytes]:
        yield header_frame(header)
        yield next(iter(chunk_frames([b"x" * 10])))
        begun.wait(CALL)

    for number in range(3):
        peer = Peer(server.address, f"stranger {number}")
        payload = b"x" * 100
        begun.clear()
        call = peer.stub.trial.future(part(peer.header(payload)), timeout=CALL)
        until(lambda: uploads.nbytes, "a part has arrived")
        call.cancel()
        begun.set()
        until(lambda: not uploads.nbytes, "its memory is free")
        peer.channel.close()
    kept = uploads._open, uploads._spent, uploads._since, uploads._known
    assert not any(kept)


@contextmanager
def crowd(peers: Sequence[Peer]) -> Iterator[list[Any]]:
    """Trials of these peers, whose calls end with the block."""
    over, payload = threading.Event(), packed(ones())

    def held(peer: Peer) -> Iterator[bytes]:
        header = peer.header(payload, size=0, crc32=zlib.crc32(payload))
        header.payload = payload
        yield header_frame(header)
        over.wait(CALL)

    calls = [peer.stub.trial.future(held(peer), timeout=CALL) for peer in peers]
    try:
        yield calls
    finally:
        over.set()
        for call in calls:
            call.result()
        for peer in dict.fromkeys(peers):
            peer.channel.close()


def strangers(server: Served, many: int) -> list[Peer]:
    return [Peer(server.address, f"stranger {number}") for number in range(many)]


def test_a_crowd_of_strangers_fills_the_place_of_trials_and_no_other(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = count()  # each call comes from an address of its own
    monkeypatch.setattr(trials, "neighbours_of", lambda _: str(next(numbers)))
    places = trials_of(server)._places
    other = stranger(server)
    with crowd(strangers(server, MOST)) as calls:
        until(lambda: places.here == MOST, "all are here")
        assert trial(other, packed(ones())).answer == pb.ANSWER_RETRY
        still_serves(server)
    assert {call.result().answer for call in calls} == {pb.ANSWER_ACCEPTED}
    until(lambda: not places.here, "all are gone")
    assert trial(other, packed(ones())).answer == pb.ANSWER_ACCEPTED
    other.channel.close()


def test_an_address_has_a_share_of_the_places_whatever_its_keys(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    places, payload = trials_of(server)._places, packed(ones())
    other = stranger(server)
    with crowd(strangers(server, OF_ADDRESS)):
        until(lambda: places.here == OF_ADDRESS, "all that may be are here")
        assert trial(other, payload).answer == pb.ANSWER_RETRY
        monkeypatch.setattr(trials, "neighbours_of", lambda _: "elsewhere")
        assert trial(other, payload).answer == pb.ANSWER_ACCEPTED
    until(lambda: not places.here, "all are gone")
    other.channel.close()


def test_a_client_leaves_places_to_others_at_its_address(server: Served) -> None:
    places, other = trials_of(server)._places, stranger(server)
    one = Peer(server.address, "one")
    with crowd([one] * (OF_ADDRESS + 1)) as calls:
        until(lambda: sum(call.done() for call in calls) >= len(calls) - 1, "the rest")
        assert places.here <= OF_CLIENT
        assert trial(other, packed(ones())).answer == pb.ANSWER_ACCEPTED
    answers = [call.result().answer for call in calls]
    assert answers.count(pb.ANSWER_RETRY) >= len(calls) - OF_CLIENT
    other.channel.close()


def test_a_check_with_the_longest_description_of_a_model_is_answered(
    server: Served,
) -> None:
    enrolment = server.server._service.check.__self__  # type: ignore[attr-defined]
    peer = stranger(server)
    assert about(asked(peer, spec="x" * enrolment._longest_spec)) == {"model"}
    peer.channel.close()


def test_a_check_that_is_long_is_refused_before_it_waits(server: Served) -> None:
    peer = stranger(server)
    with refused("INVALID_ARGUMENT", "the limit is"):
        asked(peer, code="x" * (1 << 20))
    untouched(server)
    peer.channel.close()


def test_a_trial_under_the_key_of_a_client_changes_nothing_of_it(
    server: Served,
) -> None:
    with Peer(server.address, "client") as client:
        client.pull()
        assert client.push(packed(ones())).answer == pb.ANSWER_ACCEPTED
        row = server.state.clients[client.cid]
        before = row.seq, server.state.version
        assert trial(client, packed(ones())).answer == pb.ANSWER_ACCEPTED
        assert (row.seq, server.state.version) == before
        assert client.push(packed(ones())).answer == pb.ANSWER_ACCEPTED
        assert row.seq == 2


def test_the_bytes_of_a_trial_are_no_payload(server: Served) -> None:
    peer = stranger(server)
    assert trial(peer, packed(ones())).received
    lanes = of_all(server.progress.traffic.lanes())
    assert {lane.codec for lane in lanes} == {"control"}
    assert sum(load.payload for load in lanes.values()) == 0
    assert {lane.cid for lane in server.progress.traffic.lanes()} == {OTHERS}
    peer.channel.close()


def test_what_enrolling_would_answer_is_told_and_nobody_is_enrolled(
    server: Served,
) -> None:
    peer = stranger(server)
    reply = asked(peer)
    assert about(reply) == set()
    assert reply.enrol.run_id == server.run.run_id
    assert reply.enrol.name == "stranger"
    assert tuple(reply.protocols) == PROTOCOLS
    assert peer.push(packed(ones())).answer == pb.ANSWER_UNKNOWN
    untouched(server)
    with Peer(server.address, "stranger") as other:
        assert other.name == "stranger", "the name was not taken"
    peer.channel.close()


@pytest.mark.parametrize(
    ("changes", "objections"),
    [
        ({"protocols": [1]}, {"protocol"}),
        ({"run_id": "another"}, {"run"}),
        ({"spec": spec_of(DIM + 1).to_json()}, {"model"}),
        ({"spec": "no model"}, {"model"}),
        ({"role": pb.ROLE_EVALUATOR}, {"role"}),
        ({"name": "taken"}, {"name"}),
        (
            {"protocols": [9], "run_id": "x", "spec": "", "name": "taken"},
            {"protocol", "run", "model", "name"},
        ),
    ],
)
def test_every_reason_against_enrolling_is_named_at_once(
    server: Served, changes: dict[str, Any], objections: set[str]
) -> None:
    with Peer(server.address, "taken"):
        peer = stranger(server)
        reply = asked(peer, **changes)
        assert about(reply) == objections
        assert all(objection.text for objection in reply.objections)
        assert not reply.HasField("enrol"), "no settings for whom it would refuse"
        assert list(server.state.roster.owners) == ["taken"]
        peer.channel.close()


def test_a_name_is_its_owners_in_a_check(server: Served) -> None:
    with Peer(server.address, "mine") as peer:
        assert about(asked(peer)) == set()
        assert about(asked(peer, key=key_of("another key"))) == set()
        assert about(asked(peer, key=key_of("x"), owner=key_of("y"))) == {"name"}
        assert len(server.state.clients) == 1


def test_a_check_tells_of_a_client_that_has_left(server: Served) -> None:
    with Peer(server.address, "gone") as peer:
        peer.stub.leave(pb.LeaveRequest(key=peer.key), timeout=CALL)
        assert asked(peer).enrol.gone


def test_a_check_warns_of_the_same_part_of_the_data(server: Served) -> None:
    with Peer(server.address, "first") as first:
        first.enrol(index=1, count=3)
        peer = stranger(server)
        assert "index 1 of count 3" in asked(peer, index=1, count=3).enrol.warning
        assert asked(peer, index=2, count=3).enrol.warning == ""
        peer.channel.close()


def test_why_a_client_waits_is_noted_until_it_waits_no_more(server: Served) -> None:
    with Peer(server.address, "waits") as peer:
        list(peer.attend(1, [pb.Beat(waiting="charging: on\x1bbattery")]))
        assert server.server._sessions.waiting == {peer.cid: "charging: on\\x1bbattery"}
        list(peer.attend(2, [pb.Beat()]))
        assert server.server._sessions.waiting == {}
