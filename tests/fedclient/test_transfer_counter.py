"""A client counts its own bytes, and says at the end how many they were."""

import logging
from pathlib import Path
from typing import Any

import pytest

from fedclient.wire.transfer_counter import TransferCounter
from fedrun.traffic import WAYS, by_client, total
from tests.fedclient.test_member import worker, workload
from tests.served import served

DENSE = b"\1\0" + bytes(8)


def test_what_passes_is_counted_by_direction() -> None:
    counter = TransferCounter()
    counter.count("up", 17)
    counter.carry("up", 0, DENSE, 10)
    counter.carry("up", 0, b"", 0)
    counter.carry("down", 0, DENSE[:4], 10)
    up, down = counter.load("up"), counter.load("down")
    assert (up.transfers, up.payload, up.framed) == (1, 10, 17)
    assert (down.transfers, down.payload, down.framed) == (0, 4, 0)
    counter.carry("down", 4, DENSE[4:], 10)
    assert counter.load("down").transfers == 1
    assert str(counter) == (
        "up: 1 payload of 10 bytes (dense) in messages of 17 bytes; "
        "down: 1 payload of 10 bytes (dense) in messages of 0 bytes"
    )


def test_without_a_payload_it_says_so() -> None:
    assert str(TransferCounter()) == (
        "up: 0 bytes in messages without a payload; "
        "down: 0 bytes in messages without a payload"
    )


def test_client_and_server_say_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config: dict[str, Any] = {"stop": {"versions": 3}, "timeouts": {"linger": 9.0}}
    with served(tmp_path, 600_000, **config) as server:
        with (
            caplog.at_level(logging.INFO, "fedclient"),
            worker(server, tmp_path / "ann", workload(600_000)) as ann,
        ):
            ann.run()
        counter = ann._member.connection.transferred
        server.wait()
    [lanes] = by_client(server.progress.traffic.lanes()).values()
    for way in WAYS:
        theirs = total(load for lane, load in lanes.items() if lane.way == way)
        ours = counter.load(way)
        assert (ours.transfers, ours.payload) == (theirs.transfers, theirs.payload)
        assert ours.framed == pytest.approx(theirs.framed, abs=60), way
    assert "bytes of this session: up: 3 payloads of " in caplog.text
