"""Whatever a peer says, it gets an answer, and honest clients are served on."""

import json
import shutil
import threading
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from fedwire.connect import MESSAGE_LIMIT, SERVICE
from fedwire.convert import INLINE
from fedwire.frames import CHUNK, chunk_frames, header_frame
from fedwire.service import PROTOCOLS
from fedwire.v1 import federation_pb2 as pb
from hypothesis import given
from hypothesis import strategies as st

from fedcore import payloads
from fedcore.params import ParamSpec
from fedserver.operator.remote import ask_status
from tests.fedserver.honest import answered, refused, still_serves
from tests.fedwire.messages import uint32, uint64
from tests.peer import CALL, Peer, digest_of, key_of, packed
from tests.served import DIM, Served, ones, served, settings, spec_of, until

GOOD = packed(ones())


KINDS = ["fed_buff", "fed_async", "latecomer", "fleet"]
_running: dict[str, Served] = {}


@pytest.fixture(scope="module", autouse=True)
def _endless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One server for each recipe, on which all examples are tried."""
    with ExitStack() as stack:
        for kind in KINDS:
            folder = tmp_path_factory.mktemp(kind)
            federation = served(folder, algorithm={"kind": kind, "buffer": 1})
            _running[kind] = stack.enter_context(federation)
        yield


def endless(kind: str) -> Served:
    """The server of a recipe."""
    return _running[kind]


@pytest.fixture
def peer(server: Served) -> Iterator[Peer]:
    """An enrolled client that has pulled; the server must survive what it does."""
    with Peer(server.address) as enrolled:
        enrolled.pull()
        yield enrolled
    still_serves(server)


def with_one(value: float) -> bytes:
    """An update with one odd value."""
    update = ones()
    update[7] = value
    return packed(update)


# ----------------------------------------------------------------------- payloads


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
def test_an_update_that_is_not_finite_is_discarded(peer: Peer, value: float) -> None:
    reply = peer.push(with_one(value))
    assert reply.answer == pb.ANSWER_DISCARDED
    words = "the update holds NaN, infinite or absurdly large values in 'w'"
    assert reply.reason == words


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (packed(ones(DIM - 1)), "expected 100 values, got 99"),
        (packed(ones(DIM + 1)), "expected 100 values, got 101"),
        (GOOD[:-1], "message ends early"),
        (GOOD + b"\0", "1 bytes too many at the end of the message"),
        (b"", "message ends early"),
        (b"junk", "message ends early"),
        (b"\x63" + GOOD[1:], "unknown payload version 99, expected 1"),
        (GOOD[:1] + b"\xfa" + GOOD[2:], "unknown payload format 250; known: "),
    ],
)
def test_a_payload_that_is_no_update_is_rejected_and_says_why(
    peer: Peer, payload: bytes, reason: str
) -> None:
    reply = peer.push(payload)
    assert reply.answer == pb.ANSWER_REJECTED_MALFORMED
    assert reason in reply.reason


def test_new_values_of_a_model_are_no_update(peer: Peer) -> None:
    arrays = {
        "indices": np.array([3], np.uint32),
        "values": np.array([1.0], np.float32),
    }
    values = payloads.pack(payloads.Payload("values", DIM, arrays))
    reason = "a message of format 'values', expected dense"
    assert peer.push(values).reason == reason


@given(payload=st.binary(max_size=300))
def test_any_payload_gets_a_verdict(payload: bytes) -> None:
    running = endless("fed_buff")
    with Peer(running.address, "junk") as peer:
        peer.seq = peer.pull().receipt.seq
        reply = peer.push(payload)
    assert pb.ANSWER_ACCEPTED <= reply.answer <= pb.ANSWER_DISCARDED
    still_serves(running)


# ------------------------------------------------------------------------- headers


def test_an_update_without_samples_is_rejected(peer: Peer) -> None:
    reply = peer.push(GOOD, samples=0)
    assert reply.reason == "an update of 0 samples; expected 1 to 1099511627776"


def test_too_many_label_counts_are_rejected(peer: Peer) -> None:
    reply = peer.push(GOOD, counts=[1] * 70_000, has_counts=True)
    assert reply.answer == pb.ANSWER_REJECTED_MALFORMED
    assert reply.reason.startswith("label counts must be 0 to ")


@pytest.mark.parametrize("kind", KINDS)
def test_counts_that_no_integer_holds_are_refused(kind: str) -> None:
    running = endless(kind)
    with Peer(running.address, "counting") as peer:
        peer.pull()
        with refused("INVALID_ARGUMENT", "a label count is out of range"):
            peer.push(GOOD, counts=[2**62 - 1] * 4, has_counts=True)
        with refused("INVALID_ARGUMENT", f"{2**63} samples is out of range"):
            peer.push(GOOD, samples=2**63)
        reply = peer.push(GOOD, samples=2**40, counts=[2**40] * 4, has_counts=True)
        assert reply.answer == pb.ANSWER_ACCEPTED
    still_serves(running)


def test_a_verdict_that_does_not_exist_is_refused(peer: Peer) -> None:
    with refused("INVALID_ARGUMENT", "unknown answer 77; the peer may be newer"):
        peer.push(GOOD, settled=1, settled_verdict=77)


def test_a_decided_message_gets_its_verdict_again(server: Served, peer: Peer) -> None:
    first = peer.push(GOOD)
    assert peer.push(GOOD, seq=1) == first
    assert server.state.version == 1


def test_another_message_under_a_decided_number_is_obsolete(peer: Peer) -> None:
    peer.push(GOOD)
    assert peer.push(packed(2 * ones()), seq=1).answer == pb.ANSWER_OBSOLETE


def test_a_replayed_old_message_is_obsolete(server: Served, peer: Peer) -> None:
    peer.push(GOOD)
    peer.push(GOOD)
    assert peer.push(GOOD, seq=1).answer == pb.ANSWER_OBSOLETE
    assert server.state.applied == 2


def test_numbers_may_be_left_out_but_never_come_back(peer: Peer) -> None:
    assert peer.push(GOOD, seq=2**64 - 1).answer == pb.ANSWER_ACCEPTED
    assert peer.push(GOOD, seq=2**64 - 2).answer == pb.ANSWER_OBSOLETE


@pytest.mark.parametrize(
    "future",
    [
        {"settled": 9, "settled_verdict": pb.ANSWER_ACCEPTED},
        {"base": 9},
    ],
    ids=["a verdict", "a version"],
)
def test_a_push_from_the_future_begins_no_history(
    server: Served, peer: Peer, future: dict[str, int]
) -> None:
    epoch = peer.epoch
    for _ in range(3):
        assert peer.push(GOOD, **future).answer == pb.ANSWER_OTHER_EPOCH
    assert ask_status(server.address)["unproved"] == 3
    assert server.lines("historyforked") == []
    assert peer.pull().refused == 0
    assert peer.epoch == epoch
    assert peer.push(GOOD).answer == pb.ANSWER_ACCEPTED


def test_an_update_of_another_history_is_not_decided(peer: Peer) -> None:
    other = peer.push(GOOD, epoch=peer.epoch ^ 1)
    assert other.answer == pb.ANSWER_OTHER_EPOCH
    assert peer.push(GOOD).answer == pb.ANSWER_ACCEPTED


def test_a_late_update_is_rejected_with_its_lateness(tmp_path: Path) -> None:
    with (
        served(tmp_path, algorithm={"staleness_limit": 1}) as server,
        Peer(server.address) as peer,
    ):
        peer.pull()
        with Peer(server.address, "another") as other:
            for _ in range(2):
                assert other.push(GOOD).answer == pb.ANSWER_ACCEPTED
        reply = peer.push(GOOD)
        assert reply.answer == pb.ANSWER_REJECTED_STALE
        assert reply.reason == "2 versions late, the limit is 1"
        still_serves(server)


def test_an_update_without_a_task_is_rejected_by_its_header(peer: Peer) -> None:
    header = peer.header(GOOD, task=7)
    reply = peer.send([header_frame(header)])  # and not a byte of its payload
    assert reply.answer == pb.ANSWER_REJECTED_POLICY
    assert reply.reason == "no task stands behind this update"
    peer.seq += 1
    assert peer.push(GOOD).answer == pb.ANSWER_REJECTED_POLICY  # its task is used up
    peer.pull()
    assert peer.push(GOOD).answer == pb.ANSWER_ACCEPTED
    again = peer.header(GOOD, seq=peer.seq)
    assert peer.send([header_frame(again)]).answer == pb.ANSWER_ACCEPTED


def test_who_never_enrolled_is_not_known(server: Served) -> None:
    stranger = Peer(server.address, "stranger")
    assert stranger.push(GOOD).answer == pb.ANSWER_UNKNOWN
    assert stranger.pull().refused == pb.ANSWER_UNKNOWN
    stranger.channel.close()
    still_serves(server)


def test_who_left_is_not_known_any_more(peer: Peer) -> None:
    peer.stub.leave(pb.LeaveRequest(key=peer.key), timeout=CALL)
    assert peer.push(GOOD).answer == pb.ANSWER_UNKNOWN
    assert peer.pull().refused == pb.ANSWER_UNKNOWN
    assert peer.enrol().gone


HEADERS: dict[str, st.SearchStrategy[Any]] = {
    "epoch": uint64,
    "seq": uint64,
    "size": uint64,
    "digest": st.binary(max_size=40),
    "settled": uint64,
    "settled_verdict": st.integers(0, 30),
    "samples": uint64,
    "steps": uint32,
    "update_norm": st.floats(),
    "memory_norm": st.floats(),
    "loss": st.floats(),
    "has_counts": st.booleans(),
    "counts": st.lists(st.sampled_from([0, 1, 2**31, 2**62 - 1, 2**62]), max_size=4),
    "oldest": st.builds(pb.ModelName, epoch=uint64, version=uint64),
    "base": uint64,
    "payload": st.binary(max_size=40),
    "crc32": uint32,
}


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_any_header_gets_an_answer_or_a_refusal(kind: str, data: st.DataObject) -> None:
    running = endless(kind)
    chosen = data.draw(st.sets(st.sampled_from(sorted(HEADERS)), max_size=5))
    told = {name: data.draw(HEADERS[name], label=name) for name in sorted(chosen)}
    with Peer(running.address, "fuzz") as peer:
        peer.seq = min(peer.pull().receipt.seq, 2**63)
        inline = told.pop("payload", b"")
        header = peer.header(GOOD, **told)
        header.payload = inline
        frames = [header_frame(header), *chunk_frames([GOOD])]
        reply = answered(lambda: peer.send(frames))
    assert reply is None or reply.answer != pb.ANSWER_UNSPECIFIED
    still_serves(running)


# ------------------------------------------------------------------------- streams


def test_a_small_update_comes_in_the_first_frame(peer: Peer) -> None:
    header = peer.header(GOOD, size=0, digest=b"")
    header.payload, header.crc32 = GOOD, zlib.crc32(GOOD) ^ 1
    assert peer.send([header_frame(header)]).answer == pb.ANSWER_RETRY
    header.crc32 ^= 1
    for _ in range(2):  # the second time it is told the verdict on the first
        assert peer.send([header_frame(header)]).answer == pb.ANSWER_ACCEPTED


def test_nothing_follows_an_update_in_the_first_frame(peer: Peer) -> None:
    header = peer.header(GOOD, size=0)
    header.payload, header.crc32 = GOOD, zlib.crc32(GOOD)
    with refused("INVALID_ARGUMENT", "a frame after a payload"):
        peer.send([header_frame(header), *chunk_frames([GOOD])])


def test_a_large_update_does_not_come_in_the_first_frame(peer: Peer) -> None:
    header = peer.header(GOOD, size=0)
    header.payload = bytes(INLINE + 1)
    sentence = "a payload of 65537 bytes in the first frame; the limit is 65536"
    with refused("INVALID_ARGUMENT", sentence):
        peer.send([header_frame(header)])


def test_an_update_that_is_too_large_is_refused_before_its_body_is_read(
    server: Served, peer: Peer
) -> None:
    limit = peer.enrol().max_update_bytes
    answered = threading.Event()

    def frames() -> Iterator[bytes]:
        yield header_frame(peer.header(b"", size=limit + 1))
        answered.wait(CALL)

    with refused("INVALID_ARGUMENT", f"the limit of this server is {limit}"):
        peer.send(frames())
    answered.set()


def test_a_stream_that_is_shorter_than_it_says_is_to_be_sent_again(
    server: Served, peer: Peer
) -> None:
    header = peer.header(GOOD, size=len(GOOD) + 1)
    reply = peer.send([header_frame(header), *chunk_frames([GOOD])])
    assert reply.answer == pb.ANSWER_RETRY
    assert reply.retry_after > 0
    assert server.lines("decided") == []


def test_a_stream_that_is_longer_than_it_says_is_refused(peer: Peer) -> None:
    header = peer.header(GOOD, size=10)
    with refused("INVALID_ARGUMENT", f"{len(GOOD)} bytes in an update of 10"):
        peer.send([header_frame(header), *chunk_frames([GOOD])])


def test_a_wrong_digest_is_to_be_sent_again(server: Served, peer: Peer) -> None:
    other = digest_of(b"other")
    assert peer.push(GOOD, digest=other).answer == pb.ANSWER_RETRY
    assert peer.push(GOOD, digest=b"").answer == pb.ANSWER_RETRY
    assert server.lines("decided") == []


def test_a_chunk_that_was_damaged_on_its_way_is_to_be_sent_again(peer: Peer) -> None:
    [frame] = chunk_frames([GOOD])
    harmed = frame[:-1] + bytes([frame[-1] ^ 1])
    header = header_frame(peer.header(GOOD))
    assert peer.send([header, harmed]).answer == pb.ANSWER_RETRY
    assert peer.push(GOOD).answer == pb.ANSWER_ACCEPTED


def test_an_offset_that_skips_is_refused(peer: Peer) -> None:
    frames = [header_frame(peer.header(GOOD)), *chunk_frames([GOOD], 7)]
    with refused("INVALID_ARGUMENT", "expected byte 0, got 7"):
        peer.send(frames)


@pytest.mark.parametrize(
    ("frames", "reason"),
    [
        ([], "the first frame of a push must be its header"),
        ([b""], "the first frame of a push must be its header"),
        (list(chunk_frames([b"x"])), "the first frame of a push must be its header"),
        ([b"\xff\xff\xff"], "the first frame cannot be read"),
    ],
    ids=["nothing", "an empty frame", "a chunk", "junk"],
)
def test_a_push_begins_with_its_header(
    peer: Peer, frames: list[bytes], reason: str
) -> None:
    with refused("INVALID_ARGUMENT", reason):
        peer.send(frames)


@given(junk=st.binary(max_size=60))
def test_any_frame_behind_a_header_gets_an_answer_or_a_refusal(junk: bytes) -> None:
    running = endless("fed_buff")
    with Peer(running.address, "fuzz") as peer:
        peer.seq = min(peer.pull().receipt.seq, 2**63)
        header = peer.header(GOOD, digest=digest_of(junk))
        reply = answered(lambda: peer.send([header_frame(header), junk]))
    # Another example may have had a verdict on a message of the highest number.
    assert reply is None or reply.answer in (pb.ANSWER_RETRY, pb.ANSWER_OBSOLETE)
    still_serves(running)


def test_a_second_header_is_refused(peer: Peer) -> None:
    header = header_frame(peer.header(GOOD))
    with refused("INVALID_ARGUMENT", "expected a chunk"):
        peer.send([header, header])


def test_a_message_beyond_the_limit_of_the_wire_is_refused(peer: Peer) -> None:
    header = header_frame(peer.header(GOOD))
    with refused("RESOURCE_EXHAUSTED", "larger"):
        peer.send([header, bytes(MESSAGE_LIMIT + 1)])


@pytest.fixture
def traced() -> Iterator[None]:
    """Counts the memory of this process, server and all."""
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("traced")
def test_claims_of_size_cost_no_memory(tmp_path: Path) -> None:
    most, size = 4, 8 << 20
    limits = {"max_uploads": most, "max_update_bytes": size}
    with served(tmp_path, server=limits) as server, Peer(server.address) as peer:
        peer.pull()
        for number in range(50):
            header = peer.header(b"", size=size, seq=1 + number, digest=b"x")
            frames = [header_frame(header), *chunk_frames([b"only this"])]
            assert peer.send(frames).answer == pb.ANSWER_RETRY
        _, peak = tracemalloc.get_traced_memory()
        assert peak < (most + 1) * size
        still_serves(server)


@pytest.mark.usefixtures("traced")
def test_many_streams_of_one_upload_share_one_buffer(tmp_path: Path) -> None:
    size, streams = 8 << 20, 12
    with (
        served(tmp_path, server={"max_update_bytes": size}) as server,
        Peer(server.address) as peer,
    ):
        peer.pull()
        done = threading.Event()
        header = header_frame(peer.header(b"", size=size, digest=b"x"))
        begun: set[int] = set()

        def frames(number: int) -> Iterator[bytes]:
            yield header
            yield from chunk_frames([bytes(CHUNK)])
            begun.add(number)
            done.wait(CALL)

        calls = [
            peer.stub.push.future(frames(number), timeout=CALL)
            for number in range(streams)
        ]
        until(  # one whose buffer was taken away may have ended before
            lambda: all(n in begun or call.done() for n, call in enumerate(calls)),
            "all have begun",
        )
        still_serves(server)
        held, _ = tracemalloc.get_traced_memory()
        done.set()
        # Those whose buffer was taken away are told to come again; none is refused.
        assert {call.result().answer for call in calls} == {pb.ANSWER_RETRY}
        assert held < 2 * size + streams * 2 * CHUNK


# -------------------------------------------------------------------------- enrolling


def test_another_protocol_is_refused_with_both_versions(server: Served) -> None:
    peer = Peer(server.address)
    with refused("FAILED_PRECONDITION", "server speaks protocol 4, the client 1, 2"):
        peer.enrol(protocols=[1, 2])
    with refused("FAILED_PRECONDITION", "server speaks protocol 4, the client none"):
        peer.enrol(protocols=[])
    peer.channel.close()
    still_serves(server)


def test_a_client_that_speaks_more_is_answered_in_what_both_speak(
    server: Served,
) -> None:
    with Peer(server.address) as peer:
        assert peer.enrol(protocols=[7, 4]).protocol == 4


def test_a_client_of_another_run_is_told_both_runs(server: Served) -> None:
    words = f"belongs to run abc, this server has run {server.run.run_id}"
    peer = Peer(server.address)
    with refused("NOT_FOUND", words):
        peer.enrol(run_id="abc")
    peer.channel.close()
    still_serves(server)


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({"v": (DIM,)}, "expected tensor 'w', found 'v'"),
        ({"w": (DIM, 1)}, "tensor 'w' should have shape [100], has [100, 1]"),
        ({"w": (DIM,), "b": (1,)}, "tensor 'b' is not in the federation's model"),
    ],
)
def test_another_model_is_refused_by_its_first_differing_tensor(
    server: Served, tensors: dict[str, tuple[int, ...]], words: str
) -> None:
    spec = ParamSpec.of({name: np.zeros(shape) for name, shape in tensors.items()})
    peer = Peer(server.address)
    with refused("FAILED_PRECONDITION", words):
        peer.enrol(spec=spec.to_json())
    peer.channel.close()
    still_serves(server)


@pytest.mark.parametrize(
    "spec", ["", "{", "[]", "null", '{"tensors": 1}', '{"tensors": [["w", "x"]]}']
)
def test_a_model_description_that_is_none_is_refused(server: Served, spec: str) -> None:
    peer = Peer(server.address)
    with refused("FAILED_PRECONDITION", "not a model description"):
        peer.enrol(spec=spec)
    peer.channel.close()
    still_serves(server)


@pytest.mark.parametrize(
    "spec", ["[" * 100_000, '{"tensors": [["w", [1e999]]], "frozen": ""}']
)
def test_an_absurd_model_description_harms_nobody(server: Served, spec: str) -> None:
    peer = Peer(server.address)
    with pytest.raises(grpc.RpcError):
        peer.enrol(spec=spec)
    peer.channel.close()
    still_serves(server)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"key": b""}, "a client's key has 16 bytes, got 0"),
        ({"key": bytes(17)}, "a client's key has 16 bytes, got 17"),
        ({"owner": bytes(15)}, "an owner's key has 16 bytes, got 15"),
        ({"name": "x" * 3_000_000}, "a name of 3000000 characters, the limit is 256"),
    ],
)
def test_a_client_needs_keys_and_a_name_of_decent_length(
    server: Served, changes: dict[str, Any], words: str
) -> None:
    peer = Peer(server.address)
    with refused("INVALID_ARGUMENT", words):
        peer.enrol(**changes)
    peer.channel.close()
    still_serves(server)
    assert len(server.state.clients) == 1


def test_a_newcomer_does_not_wait_with_a_long_request(server: Served) -> None:
    peer = Peer(server.address)
    padding = b"\xfa\x7f" + b"\x80\x80\x40" + bytes(1 << 20)  # an unknown field, 2047
    with refused("INVALID_ARGUMENT", "bytes, the limit is 81920"):
        known = pb.EnrolRequest(
            protocols=PROTOCOLS,
            key=peer.key,
            owner=peer.owner,
            name=peer.name,
            spec=spec_of(DIM).to_json(),
        )
        request = pb.EnrolRequest.FromString(known.SerializeToString() + padding)
        peer.stub.enrol(request, timeout=CALL)
    peer.channel.close()
    still_serves(server)
    assert len(server.state.clients) == 1


@given(name=st.text(max_size=20))
def test_any_printable_text_may_be_a_name(name: str) -> None:
    running = endless("fed_buff")
    peer = Peer(running.address, f"named {name}")
    if name.isprintable():
        assert peer.enrol(name=name).name == (name or peer.cid)
    else:
        with refused("INVALID_ARGUMENT", "a name must be printable text"):
            peer.enrol(name=name)
    peer.channel.close()
    still_serves(running)


# ------------------------------------------------------------- pulls and the others


def test_a_pull_with_a_verdict_that_does_not_exist_is_refused(peer: Peer) -> None:
    with refused("INVALID_ARGUMENT", "unknown answer 77"):
        peer.pull(settled=1, settled_verdict=77)


FUTURES: list[dict[str, Any]] = [
    {"held": 50},
    {"held": 50, "held_proof": 7},
    {"held": 50, "held_digest": bytes(16)},
    {"settled": 9, "settled_verdict": pb.ANSWER_ACCEPTED},
    {"settled": 9, "settled_verdict": pb.ANSWER_ACCEPTED, "settled_proof": 7},
]


@pytest.mark.parametrize("future", FUTURES)
def test_a_pull_from_the_future_begins_no_history(
    server: Served, peer: Peer, future: dict[str, Any]
) -> None:
    for _ in range(3):
        assert peer.pull(**future).refused == pb.ANSWER_PROVE
    assert peer.pull().refused == 0
    assert server.lines("historyforked") == []


def test_who_says_that_it_left_this_history_begins_no_other(
    server: Served, peer: Peer
) -> None:
    there = peer.epoch
    told = {"epoch": 1, "abandoned": [3, there], "abandoned_proofs": [4, 5, 6]}
    assert peer.pull(**told).refused == pb.ANSWER_PROVE
    assert server.lines("historyforked") == []


def test_claims_of_the_future_do_not_stop_others(server: Served, peer: Peer) -> None:
    """Each of them began another history once, and 0 of 29 updates were accepted."""
    accepted = 0
    with Peer(server.address, "honest") as honest:
        for number in range(30):
            for claim in FUTURES[number % len(FUTURES) :]:
                peer.pull(**claim)
            honest.pull()
            peer.push(GOOD, base=99)
            accepted += honest.push(GOOD).answer == pb.ANSWER_ACCEPTED
    assert accepted == 30
    assert server.lines("historyforked") == []


def test_the_secret_of_a_run_is_shown_to_nobody(server: Served, peer: Peer) -> None:
    secret = server.run.journal.store.read_fact("secret")
    assert secret is not None
    assert len(bytes.fromhex(secret)) == 16
    peer.push(GOOD)
    peer.pull(**FUTURES[0])
    shown = [json.dumps(ask_status(server.address)), server.out.getvalue()]
    assert not any(secret in text for text in shown)


def test_a_server_set_back_behind_its_back_is_found_out_by_proof(
    tmp_path: Path,
) -> None:
    config = settings(tmp_path)
    run, copy = tmp_path / "run", tmp_path / "copy"
    with Served(tmp_path, config) as server, Peer(server.address) as peer:
        peer.pull()
    shutil.copytree(run, copy)
    with Served(tmp_path, config) as server, Peer(server.address) as peer:
        pushed = peer.push(GOOD)
        assert pushed.answer == pb.ANSWER_ACCEPTED
        told = peer.pull(settled=1, settled_verdict=pushed.answer)
        assert told.version == 1
    shutil.rmtree(run)
    copy.rename(run)
    with Served(tmp_path, config) as server, Peer(server.address) as peer:
        claims = {"held": 1, "settled": 1, "settled_verdict": pushed.answer}
        before = peer.epoch
        assert peer.pull(**claims).refused == pb.ANSWER_PROVE
        proofs = {"held_proof": told.proof, "settled_proof": pushed.proof}
        again = peer.pull(**claims, **proofs)
        assert (again.refused, again.version) == (0, 0)
        assert peer.epoch != before
        assert again.left
        [opened] = server.lines("historyforked")
        assert opened["reason"] == "peer knows a later state than this one"
        [unproved] = server.lines("unproved")
        assert (unproved["client"], unproved["count"]) == ("peer", 1)
        older = peer.pull(**{**claims, **proofs})  # proofs of a history that was left
        assert older.refused == pb.ANSWER_PROVE
        still_serves(server)


@given(data=st.data())
def test_any_pull_gets_an_answer_or_a_refusal(data: st.DataObject) -> None:
    running = endless("latecomer")
    fields = {
        "epoch": uint64,
        "held": uint64,
        "held_digest": st.binary(max_size=20),
        "abandoned": st.lists(uint64, max_size=20),
        "settled": uint64,
        "settled_verdict": st.integers(0, 22),
        "history_from": uint64,
        "partial": st.text(max_size=10),
        "partial_bytes": uint64,
        "held_proof": uint64,
        "settled_proof": uint64,
        "abandoned_proofs": st.lists(uint64, max_size=20),
    }
    chosen = data.draw(st.sets(st.sampled_from(sorted(fields))))
    told = {name: data.draw(fields[name], label=name) for name in sorted(chosen)}
    with Peer(running.address, "fuzz") as peer:
        reply = answered(lambda: peer.pull(**told))
        assert reply is None or reply.patch or len(peer.body) == sum(reply.lengths)
    still_serves(running)


@pytest.mark.parametrize(
    "report",
    [
        pb.ReportRequest(key=key_of("nobody"), values={"accuracy": 1.0}, samples=3),
        pb.ReportRequest(key=key_of("nobody"), error="x" * 100_000),
        pb.ReportRequest(key=key_of("peer"), values={"accuracy": float("nan")}),
        pb.ReportRequest(key=key_of("peer"), model=pb.ModelName(version=2**63)),
        pb.ReportRequest(key=key_of("peer"), error="x" * 100_000),
        pb.ReportRequest(
            key=key_of("peer"), samples=2**64 - 1, values={"a": float("inf")}
        ),
    ],
)
def test_any_report_is_answered(
    server: Served, peer: Peer, report: pb.ReportRequest
) -> None:
    report.model.epoch = peer.epoch
    peer.stub.report(report, timeout=CALL)
    for line in server.lines("failed"):
        assert len(line["error"]) <= 2000


def test_reports_in_a_loop_fill_no_journal(server: Served, peer: Peer) -> None:
    model = pb.ModelName(epoch=peer.epoch, version=peer.version)
    told: list[dict[str, Any]] = [
        {"model": model, "values": {"accuracy": 1.0}, "samples": 2**64 - 1},
        {"error": "x" * 2000},
        {"error": "no picture", "skipped": 1},
    ]
    before = server.run.journal.store.last
    for _ in range(20):
        for each in told:
            peer.stub.report(pb.ReportRequest(key=peer.key, **each), timeout=CALL)
    assert peer.push(GOOD).answer == pb.ANSWER_ACCEPTED  # what waits is written with it
    kinds = ("evaluated", "failed", "skipped")
    assert [len(server.lines(kind)) for kind in kinds] == [0, 1, 1]
    assert server.run.journal.store.last - before <= 5  # with lease, update, version


def test_leaving_without_having_been_there_changes_nothing(
    server: Served, peer: Peer
) -> None:
    peer.stub.leave(pb.LeaveRequest(key=key_of("nobody")), timeout=CALL)
    assert server.lines("departed") == []


def test_attending_without_a_word_ends(peer: Peer) -> None:
    assert list(peer.stub.attend(iter(()), timeout=CALL)) == []


def test_attending_under_any_name_is_harmless(server: Served, peer: Peer) -> None:
    call = Peer.attend(Peer(server.address, "nobody"), 1)
    assert list(call) == []


METHODS = ["Enrol", "Pull", "Push", "Resume", "Attend", "Report", "Leave", "Status"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("junk", [b"\xff" * 30, b"\x0a\x80"], ids=["junk", "cut short"])
def test_junk_in_place_of_a_message_is_an_error_of_the_caller(
    peer: Peer, method: str, junk: bytes
) -> None:
    call = peer.channel.stream_stream(f"/{SERVICE}/{method}", None, None)
    with pytest.raises(grpc.RpcError):
        list(call(iter([junk]), timeout=CALL))


def test_a_method_of_a_newer_protocol_is_not_implemented(peer: Peer) -> None:
    call = peer.channel.unary_unary(f"/{SERVICE}/Chat", None, None)
    with refused("UNIMPLEMENTED", "Method not found"):
        call(b"", timeout=CALL)


def test_a_pull_whose_client_hangs_up_is_forgotten(server: Served, peer: Peer) -> None:
    for _ in range(20):
        frames = peer.stub.pull(
            pb.PullRequest(key=peer.key, epoch=peer.epoch), timeout=CALL
        )
        frames.cancel()
    assert peer.pull().task == pb.TASK_KIND_TRAIN
