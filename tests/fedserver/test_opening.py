"""What an update may cost to read, and where that is paid."""

import struct
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fedwire.v1 import federation_pb2 as pb

from fedcore import payloads
from fedcore.compressors import (
    CompressorConfig,
    DeadZone,
    ErrorFeedback,
    LowRank,
    RandomK,
    SemiDiscrete,
    TopK,
)
from fedcore.coordinator.rounds import open_update
from fedcore.errors import PayloadError
from fedcore.params import ParamSpec
from fedcore.payloads import low_rank_payload, sparse_payload
from fedcore.rng import Key
from fedcore.typing import Vector
from fedserver.calls import pushes as opening
from tests.fedserver.honest import still_serves
from tests.peer import Peer, packed
from tests.served import DIM, ones, served

SPARSE = {"kind": "error_feedback", "inner": {"kind": "top_k", "ratio": 0.1}}


def sparse(count: int, dim: int = DIM) -> bytes:
    """A message of so many values."""
    places_K = np.arange(count, dtype=np.int64)
    return payloads.pack(sparse_payload(dim, places_K, np.ones(count, np.float32)))


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (sparse(11), "a message that takes 11 steps, expected at most 10"),
        (
            payloads.pack(
                low_rank_payload(np.ones((1, 10), "f"), np.ones((1, 10), "f"))
            ),
            "a message of format 'low_rank', expected dense or sparse",
        ),
    ],
)
def test_only_what_the_uplink_makes_is_read(
    tmp_path: Path, payload: bytes, words: str
) -> None:
    with (
        served(tmp_path, algorithm={"uplink": SPARSE}) as server,
        Peer(server.address) as peer,
    ):
        peer.pull()
        reply = peer.push(payload)
        assert (reply.answer, reply.reason) == (pb.ANSWER_REJECTED_MALFORMED, words)
        assert peer.push(sparse(10)).answer == pb.ANSWER_ACCEPTED
        peer.pull()
        farewell = peer.push(packed(ones()))  # who leaves sends the memory itself
        assert farewell.answer == pb.ANSWER_ACCEPTED


def test_updates_are_read_beside_the_core_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[str] = set()
    read = payloads.unpack

    def noted(*args: Any) -> payloads.Payload:
        threads.add(threading.current_thread().name)
        return read(*args)

    monkeypatch.setattr("fedcore.coordinator.rounds.payloads.unpack", noted)
    dim = 2 * opening.LIGHT
    with served(tmp_path, dim) as server, Peer(server.address, dim=dim) as peer:
        peer.pull()
        assert peer.push(packed(ones(dim))).answer == pb.ANSWER_ACCEPTED
        assert all(name.startswith("opening") for name in threads)
        assert threads
        still_serves(server)


def test_an_update_at_which_reading_raises_is_put_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: payloads.Payload) -> float:
        raise ZeroDivisionError("a mistake in a codec")

    with served(tmp_path) as server, Peer(server.address) as peer:
        peer.pull()
        with monkeypatch.context() as patch:
            patch.setattr("fedcore.coordinator.rounds.payloads.magnitude", fail)
            reply = peer.push(packed(ones()))
        assert reply.answer == pb.ANSWER_REJECTED_MALFORMED
        assert "a mistake in a codec" in reply.reason
        still_serves(server)


# ------------------------------------------------- dear messages, before they are paid

MANY = 1_000_000


def spec(dim: int = MANY) -> ParamSpec:
    """A square matrix."""
    side = round(dim**0.5)
    return ParamSpec.of({"w": np.zeros((side, side), np.float32)})


def update(dim: int = MANY) -> Vector:
    """Some values."""
    return Key.root(1).generator().standard_normal(dim, np.float32)


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (TopK(ratio=0.01), TopK(ratio=1.0)),
        (RandomK(ratio=0.01), RandomK(ratio=1.0)),
        (DeadZone(ratio=0.01), DeadZone(ratio=0.5)),
        (LowRank(rank=1), LowRank(rank=16)),
    ],
)
def test_more_of_the_same_is_refused_before_it_is_read(
    mine: CompressorConfig, theirs: CompressorConfig
) -> None:
    payload, _ = theirs.build_for(spec()).encode(update(), None, Key.root(2))
    declared = mine.list_formats_for(spec())
    opened = open_update(payloads.pack(payload), spec(), declared)
    assert isinstance(opened.error, PayloadError)
    assert "expected at most" in str(opened.error)
    own, _ = mine.build_for(spec()).encode(update(), None, Key.root(2))
    assert open_update(payloads.pack(own), spec(), declared).payload is not None


def test_a_body_is_not_inflated_beyond_what_it_may_say() -> None:
    declared = ErrorFeedback(inner=TopK(ratio=0.01)).list_formats_for(spec())
    payload = bytes.fromhex("02 01") + struct.pack("<IBI", MANY, 1, 4 * MANY)
    opened = open_update(payload + bytes(20), spec(), declared)
    assert "4000000 bytes deflated, expected at most" in str(opened.error)


def test_factors_beyond_those_that_fit_are_refused_by_their_shapes() -> None:
    declared = SemiDiscrete().list_formats_for(spec(10_000))
    assert declared == {"semi_discrete": 502_513}  # 100 x 100, 50.25 terms
