"""A client and what a server may say to it, true or not."""

import uuid
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import grpc
import pytest
from fedwire.connect import Address
from fedwire.frames import chunk_frames, reply_frame
from fedwire.v1 import federation_pb2 as pb
from hypothesis import given
from hypothesis import strategies as st

from fedclient.wire.connection import Connection, Refusal
from fedcore.errors import (
    LatecomerError,
    ProtocolError,
    RefusedError,
    UnavailableError,
)
from fedcore.params import content_digest
from fedcore.protocol import (
    NOTHING_SETTLED,
    Answer,
    ModelName,
    Pull,
    Push,
    Reply,
    Verdict,
)
from fedrun.cli.exit_codes import exit_code
from tests.fedclient.liar import frames, lying
from tests.served import spec_of

E0 = "0" * 16
KEY = bytes(16)
PULL = Pull(cid="ann", nonce=1, epoch=E0)
BODY = bytes(range(256)) * 8000  # two chunks
DIM = len(BODY) // 4


def told(**changes: Any) -> pb.PullReply:
    """A reply whose patch is ``BODY``."""
    known: dict[str, Any] = {"kind": pb.PATCH_KIND_FULL, "lengths": [len(BODY)]}
    return pb.PullReply(**{**known, **changes})


def connected(address: Address, dim: int = DIM) -> "closing[Connection]":
    """A connection that is closed after the block."""
    return closing(Connection(address, spec_of(dim)))


def pulled(sent: list[bytes]) -> Reply | Refusal:
    """What a client makes of these frames."""
    with lying(pull=frames(sent)) as address, connected(address) as connection:
        return connection.pull(PULL)


def test_a_patch_arrives_whole() -> None:
    reply = pulled([reply_frame(told()), *chunk_frames([BODY])])
    assert isinstance(reply, Reply)
    assert reply.patch.parts == (BODY,)


def test_a_refusal_is_an_answer() -> None:
    refused = pb.PullReply(refused=pb.ANSWER_RETRY, retry_after=2.5)
    assert pulled([reply_frame(refused)]) == Refusal(Answer.RETRY, 2.5)
    refused.reason = "too few samples"
    assert pulled([reply_frame(refused)]) == Refusal(
        Answer.RETRY, 2.5, "too few samples"
    )


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ([], "an empty answer to a pull"),
        ([b"\xff"], "the first frame cannot be read"),
        (list(chunk_frames([BODY])), "the first frame of an answer must be its reply"),
        (
            [reply_frame(pb.PullReply(refused=77))],  # type: ignore[arg-type]
            "unknown answer 77",
        ),
        ([reply_frame(told())], "a patch ends at byte 0 of 2048000"),
        (
            [reply_frame(told()), *chunk_frames([BODY[:-1]])],
            "a patch ends at byte 2047999 of 2048000",
        ),
        (
            [reply_frame(told()), *chunk_frames([BODY + b"x"])],
            "chunks of a patch do not fit",
        ),
        (
            [reply_frame(told()), *chunk_frames([BODY], 1)],
            "chunks of a patch do not fit",
        ),
        (
            [reply_frame(told(from_byte=9)), *chunk_frames([BODY], 9)],
            "chunks of a patch do not fit",
        ),
        ([reply_frame(told()), b"junk"], "expected a chunk"),
        ([reply_frame(told(lengths=[2**40]))], "a patch of 1099511627776 bytes for"),
        (
            [reply_frame(told(kind=9)), *chunk_frames([BODY])],
            "unknown kind of patch 9",
        ),
    ],
)
def test_a_pull_that_is_answered_wrongly_is_told(
    sent: list[bytes], reason: str
) -> None:
    with pytest.raises(ProtocolError, match=reason) as caught:
        pulled(sent)
    assert exit_code(caught.value) == 76


def test_a_chunk_that_was_damaged_on_its_way_is_worth_another_try() -> None:
    [first, second] = chunk_frames([BODY])
    with pytest.raises(UnavailableError, match="checksum of the chunk at byte 1048576"):
        pulled([reply_frame(told()), first, second[:-1] + b"?"])


@given(junk=st.lists(st.binary(max_size=40), max_size=3))
def test_any_frames_are_an_answer_or_an_error_of_the_platform(
    liar: tuple[Address, list[bytes]], junk: list[bytes]
) -> None:
    address, says = liar
    says[:] = junk
    with connected(address) as connection, suppress(LatecomerError):
        connection.pull(PULL)


@pytest.fixture(scope="module")
def liar() -> Iterator[tuple[Address, list[bytes]]]:
    """A server whose answers to pulls are changed by the test."""
    says: list[bytes] = []
    with lying(pull=lambda request, context: iter(list(says))) as address:
        yield address, says


@pytest.mark.parametrize("cut", [1, 1000, 1 << 20, len(BODY) - 1])
def test_a_download_goes_on_where_it_was_cut(cut: int) -> None:
    asked: list[pb.PullRequest] = []

    def pull(request: pb.PullRequest, context: grpc.ServicerContext) -> Iterator[bytes]:
        asked.append(request)
        start = request.partial_bytes
        yield reply_frame(told(from_byte=start))
        if len(asked) == 1:
            yield from chunk_frames([BODY[:cut]])
            context.abort(grpc.StatusCode.UNAVAILABLE, "cut off")
        yield from chunk_frames([BODY], start)

    with lying(pull=pull) as address, connected(address) as connection:
        with pytest.raises(UnavailableError, match="cut off"):
            connection.pull(PULL)
        reply = connection.pull(PULL)
        assert isinstance(reply, Reply)
        assert reply.patch.parts == (BODY,)
        connection.pull(PULL)
    assert [request.partial_bytes for request in asked] == [0, cut, 0]


def test_a_download_of_another_version_begins_anew() -> None:
    asked: list[pb.PullRequest] = []

    def pull(request: pb.PullRequest, context: grpc.ServicerContext) -> Iterator[bytes]:
        asked.append(request)
        yield reply_frame(told(version=len(asked)))
        yield from chunk_frames([BODY[: 100 if len(asked) == 1 else None]])
        if len(asked) == 1:
            context.abort(grpc.StatusCode.UNAVAILABLE, "cut off")

    with lying(pull=pull) as address, connected(address) as connection:
        with pytest.raises(UnavailableError):
            connection.pull(PULL)
        reply = connection.pull(PULL)
        assert isinstance(reply, Reply)
        assert (reply.patch.version, reply.patch.parts) == (2, (BODY,))


def push_of(payload: bytes) -> Push:
    """An update."""
    return Push(
        cid="ann",
        epoch=E0,
        seq=1,
        base=ModelName(E0, 0),
        payload=payload,
        digest=content_digest(payload),
        settled=NOTHING_SETTLED,
        samples=1,
    )


@pytest.mark.parametrize("received", [0, 5, 1 << 20, len(BODY), 2**60])
def test_an_upload_goes_on_from_what_the_server_has(received: int) -> None:
    arrived: list[int] = []

    def push(sent: Iterator[bytes], context: grpc.ServicerContext) -> pb.PushReply:
        arrived.append(sum(len(frame) for frame in sent))
        return pb.PushReply(answer=pb.ANSWER_ACCEPTED)

    resume = lambda request, context: pb.ResumeReply(received=received)  # noqa: E731
    with (
        lying(push=push, resume=resume) as address,
        connected(address) as connection,
    ):
        ack = connection.push(push_of(BODY), again=True)
        assert ack.answer is Verdict.ACCEPTED
    rest = max(0, len(BODY) - received)
    assert rest <= arrived[0] <= rest + 200


def test_an_answer_that_nobody_knows_is_told() -> None:
    def push(sent: Iterator[bytes], context: grpc.ServicerContext) -> pb.PushReply:
        list(sent)
        return pb.PushReply(answer=42)  # type: ignore[arg-type]

    with (
        lying(push=push) as address,
        connected(address) as connection,
        pytest.raises(ProtocolError, match="unknown answer 42; the peer may be newer"),
    ):
        connection.push(push_of(b"x"), again=False)


def enrolled(**reply: Any) -> None:
    """Enrols at a server that answers so."""
    enrol = lambda request, context: pb.EnrolReply(**reply)  # noqa: E731
    with lying(enrol=enrol) as address, connected(address) as connection:
        connection.enrol(pb.EnrolRequest(key=uuid.uuid4().bytes))


def test_a_server_that_chooses_an_unknown_protocol_is_told() -> None:
    with pytest.raises(ProtocolError, match="chose protocol 9"):
        enrolled(protocol=9)
    with pytest.raises(ProtocolError, match="chose protocol 0"):
        enrolled()
    enrolled(protocol=4, heartbeat=2.0)


def test_an_older_server_is_told() -> None:
    with (
        lying() as address,
        connected(address) as connection,
        pytest.raises(RefusedError, match="does not speak this protocol") as caught,
    ):
        connection.enrol(pb.EnrolRequest(key=KEY))
    assert exit_code(caught.value) == 77


def test_nobody_at_the_address_is_told() -> None:
    with lying() as address:
        pass
    with (
        connected(address) as connection,
        pytest.raises(UnavailableError, match="does not answer") as caught,
    ):
        connection.enrol(pb.EnrolRequest(key=KEY))
    assert exit_code(caught.value) == 69


@pytest.mark.parametrize("method", ["report", "report_failure", "leave"])
def test_calls_that_fail_are_explained(method: str) -> None:
    arguments: dict[str, tuple[Any, ...]] = {
        "report": (ModelName(E0, 0), {"loss": 1.0}, 3),
        "report_failure": ("Traceback",),
        "leave": (),
    }
    with (
        lying() as address,
        connected(address) as connection,
        pytest.raises(RefusedError, match="not today"),
    ):
        getattr(connection, method)(*arguments[method])


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -1.0, 1e300])
def test_a_time_that_nobody_can_wait_is_none(seconds: float) -> None:
    refusal = pulled(
        [reply_frame(pb.PullReply(refused=pb.ANSWER_RETRY, retry_after=seconds))]
    )
    assert isinstance(refusal, Refusal)
    assert 0 <= refusal.retry_after <= 86_400


@pytest.mark.parametrize("heartbeat", [float("nan"), float("inf"), -1.0, 0.0])
def test_a_heartbeat_that_cannot_be_is_refused(heartbeat: float) -> None:
    reply = pb.EnrolReply(protocol=4, heartbeat=heartbeat)
    with (
        lying(enrol=lambda request, context: reply) as address,
        connected(address) as connection,
        pytest.raises(ProtocolError, match="wants a heartbeat every"),
    ):
        connection.enrol(pb.EnrolRequest(key=KEY))
