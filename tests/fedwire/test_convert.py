import contextlib
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fedwire import convert
from fedwire import convert as values
from fedwire.v1 import federation_pb2 as pb
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcore.errors import ProtocolError
from fedcore.protocol import (
    Ack,
    Answer,
    Epoch,
    Held,
    ModelName,
    Pull,
    Push,
    Reply,
    Settled,
    Verdict,
)
from tests.fedwire import messages

E0, KEY = "0" * 16, bytes(16)
PULL = Pull(cid="ann", nonce=1, epoch=E0)
PUSH = Push(
    cid="ann",
    epoch=E0,
    seq=1,
    base=ModelName(E0, 0),
    payload=b"",
    digest="00",
    settled=Settled(),
    samples=1,
)
READERS: dict[Any, Any] = {
    pb.PullRequest: lambda message: convert.read_pull(message, "ann", 1),
    pb.PullReply: lambda message: convert.read_pull_reply(message, PULL),
    pb.PushHeader: lambda message: convert.read_push(message, "ann", b"", "00"),
    pb.PushReply: lambda message: convert.read_push_reply(message, PUSH),
}
FIELDS: dict[Any, st.SearchStrategy[Any]] = {
    "string": st.text(max_size=8),
    "bytes": st.binary(max_size=8),
    "uint64": messages.uint64,
    "fixed64": messages.uint64,
    "uint32": messages.uint32,
    "sint64": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(),
    "float": st.floats(width=32),
    "fixed32": messages.uint32,
    "bool": st.booleans(),
    "enum": st.integers(-3, 40),
}


def over_the_wire(message: Any) -> Any:
    """The message as its receiver parses it."""
    return type(message).FromString(message.SerializeToString())


@given(messages.pulls())
def test_a_pull_survives_the_wire(pull: Pull) -> None:
    told = over_the_wire(convert.pull_request(pull, KEY))
    held = pull.held and pull.held._replace(digest=pull.held.digest[:16])
    read = convert.read_pull(told, pull.cid, pull.nonce)
    if pull.plan is not None and pull.plan.counts is not None:
        assert read.plan is not None
        assert read.plan.counts is not None
        assert read.plan.samples == pull.plan.samples
        assert read.plan.counts.tolist() == pull.plan.counts.tolist()
        read, pull = replace(read, plan=None), replace(pull, plan=None)
    assert read == replace(pull, held=held)


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (pb.Plan(), "a plan of 0 samples; expected 1 to 1099511627776"),
        (pb.Plan(samples=2**63), "a plan of 9223372036854775808 samples"),
        (
            pb.Plan(samples=1, counts=[2**63], has_counts=True),
            "a label count is out of range",
        ),
        (
            pb.Plan(samples=1, counts=[0] * 65_537, has_counts=True),
            "a plan with 65537 label counts; expected up to 65536",
        ),
    ],
)
def test_an_impossible_plan_is_refused(plan: pb.Plan, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        convert.read_pull(pb.PullRequest(plan=plan), "ann", 1)


@given(messages.pushes)
def test_a_push_survives_the_wire(push: Push) -> None:
    header = over_the_wire(convert.push_header(push, KEY))
    read = convert.read_push(header, push.cid, header.payload, push.digest)
    assert header.crc32 == zlib.crc32(push.payload)
    assert (read.counts is None) == (push.counts is None)
    if read.counts is not None:
        np.testing.assert_array_equal(read.counts, push.counts)
    assert replace(read, counts=None) == replace(push, counts=None)


@pytest.mark.parametrize("size", [convert.INLINE, convert.INLINE + 1])
def test_a_large_payload_is_announced_and_a_small_one_is_there(size: int) -> None:
    header = convert.push_header(
        replace(PUSH, payload=bytes(size), digest="ab" * 16), KEY
    )
    small = size <= convert.INLINE
    assert (len(header.payload), header.size) == ((size, 0) if small else (0, size))
    assert header.digest.hex() == ("" if small else "ab" * 16)


@given(messages.acks)
def test_an_answer_to_a_push_survives_the_wire(ack: Ack) -> None:
    push = replace(PUSH, seq=ack.seq, digest=ack.digest)
    told = over_the_wire(convert.push_reply(ack))
    assert convert.read_push_reply(told, push) == ack


@given(messages.replies(), messages.epochs)
def test_an_answer_to_a_pull_survives_the_wire(reply: Reply, asked: Epoch) -> None:
    pull = replace(PULL, nonce=reply.nonce, epoch=asked)
    if reply.patch.kind != "full":
        held = Held(asked, reply.patch.start, reply.patch.digest)
        pull = replace(pull, held=held)
    told = over_the_wire(convert.pull_reply(reply, asked))
    if reply.patch.kind != "none":
        patch = replace(reply.patch, digest=reply.patch.digest[:16])
        reply = replace(reply, patch=patch)
    assert convert.read_pull_reply(told, pull, told.patch) == reply


@pytest.mark.parametrize("answer", [*Verdict, *Answer])
def test_every_answer_has_a_number_of_its_own(answer: Verdict | Answer) -> None:
    assert values.read_answer(values.answer_code(answer)) is answer


@pytest.mark.parametrize("kind", READERS)
@given(data=st.binary(max_size=200))
@settings(max_examples=100)
def test_any_bytes_are_a_message_or_a_protocol_error(kind: Any, data: bytes) -> None:
    try:
        message = kind.FromString(data)
    except DecodeError:
        return  # gRPC answers it
    read(message)


@pytest.mark.parametrize("kind", READERS)
@given(data=st.data())
@settings(max_examples=100)
def test_any_values_of_the_fields_are_a_message_or_a_protocol_error(
    kind: Any, data: st.DataObject
) -> None:
    told = {
        name: data.draw(FIELDS[typed], label=name)
        for name, typed in fields(kind).items()
        if typed in FIELDS
    }
    read(over_the_wire(kind(**told)))


def read(message: Any) -> None:
    """Reads a message; only a ProtocolError may come of it."""
    with contextlib.suppress(ProtocolError):
        READERS[type(message)](message)


def fields(kind: Any) -> dict[str, str]:
    """The names and types of a message's single fields."""
    empty = kind()
    single = [
        field
        for field in kind.DESCRIPTOR.fields
        if not hasattr(getattr(empty, field.name), "append")
    ]
    return {field.name: TYPES.get(field.type, "") for field in single}


TYPES = {
    1: "double",
    2: "float",
    7: "fixed32",
    4: "uint64",
    6: "fixed64",
    8: "bool",
    9: "string",
    12: "bytes",
    13: "uint32",
    14: "enum",
    18: "sint64",
}


def test_an_unknown_answer_is_named_and_may_be_newer() -> None:
    with pytest.raises(ProtocolError, match="unknown answer 99; the peer may be newer"):
        convert.read_push_reply(pb.PushReply(answer=99), PUSH)  # type: ignore[arg-type]


def test_what_has_no_verdict_settles_nothing() -> None:
    told = pb.PullRequest(settled=3, settled_verdict=pb.ANSWER_RETRY)
    with pytest.raises(ProtocolError, match="expected a verdict, got retry"):
        convert.read_pull(told, "ann", 1)


def test_a_settled_message_without_a_verdict_is_refused() -> None:
    with pytest.raises(ProtocolError, match="unknown answer 0"):
        convert.read_pull(pb.PullRequest(settled=3), "ann", 1)


def test_a_verdict_on_no_message_is_no_verdict() -> None:
    told = pb.PullRequest(settled=0, settled_verdict=pb.ANSWER_ACCEPTED)
    assert convert.read_pull(told, "ann", 1).settled == Settled()


def test_counts_whose_sum_no_integer_holds_are_refused() -> None:
    header = pb.PushHeader(has_counts=True, counts=[1, 2**62])
    with pytest.raises(ProtocolError, match="a label count is out of range"):
        convert.read_push(header, "ann", b"", "00")
    with pytest.raises(ProtocolError, match="an update of 9223372036854775808 samples"):
        convert.read_push(pb.PushHeader(samples=2**63), "ann", b"", "00")


def test_a_patch_must_be_as_long_as_it_says() -> None:
    told = pb.PullReply(kind=pb.PATCH_KIND_FULL, lengths=[5])
    with pytest.raises(ProtocolError, match="a patch of 5 bytes has 3"):
        convert.read_pull_reply(told, PULL, b"abc")


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (pb.PullReply(kind=9), "unknown kind of patch 9"),  # type: ignore[arg-type]
        (pb.PullReply(task=9), "unknown kind of task 9"),  # type: ignore[arg-type]
    ],
    ids=["patch", "task"],
)
def test_what_a_newer_server_says_is_named(reply: pb.PullReply, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        convert.read_pull_reply(reply, PULL)


def test_downloads_of_other_bytes_have_other_names() -> None:
    told = pb.PullReply(
        kind=pb.PATCH_KIND_FULL,
        epoch=7,
        version=2,
        lengths=[10],
    )
    others = [
        pb.PullReply(kind=pb.PATCH_KIND_REPLAY),
        pb.PullReply(epoch=8),
        pb.PullReply(version=3),
        pb.PullReply(lengths=[1]),
    ]
    request = pb.PullRequest(epoch=7, held=1)
    names = {convert.patch_name(told, request)}
    for other in others:
        changed = pb.PullReply()
        changed.CopyFrom(told)
        changed.MergeFrom(other)
        names.add(convert.patch_name(changed, request))
    told.kind = pb.PATCH_KIND_REPLAY
    names.add(convert.patch_name(told, pb.PullRequest(epoch=7, held=2)))
    assert len(names) == 2 + len(others)
