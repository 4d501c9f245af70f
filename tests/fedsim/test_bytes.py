"""A simulation counts the payloads that it really makes."""

from collections import Counter
from pathlib import Path

import pytest

import latecomer
from fedcore.coordinator.events import Decided, Leased
from fedrun.traffic import Lane
from fedrun.traffic_file import read_traffic
from tests.fedsim.toys import settings, toy
from tests.integration.typed import desk, typed

SPARSE = {
    "kind": "latecomer",
    "uplink": {"kind": "error_feedback", "inner": {"kind": "top_k", "ratio": 0.4}},
    "downlink": {"kind": "top_k", "ratio": 0.4},
}


def test_the_book_is_that_of_the_journal_by_client(tmp_path: Path) -> None:
    config = settings(algorithm=SPARSE, simulate={"clients": 4, "dropout": 0.2})
    results = latecomer.run(config, toy(), folder=tmp_path / "run")
    book = read_traffic(results.folder)
    assert book is not None
    up: Counter[str] = Counter()
    down: Counter[str] = Counter()
    for lane, load in book.lanes().items():
        assert load.framed == 0
        (up if lane.way == "up" else down)[lane.cid] += load.payload
    told_up: Counter[str] = Counter()
    for record in results.of(Decided):
        told_up[record.cid] += record.nbytes
    told_down: Counter[str] = Counter()
    for record in results.of(Leased):
        told_down[record.cid] += record.nbytes
    assert up == told_up
    assert all(down[cid] >= told_down[cid] > 0 for cid in told_up)


def test_a_replay_of_arrivals_counts_what_is_fetched(tmp_path: Path) -> None:
    config = settings(algorithm=SPARSE)
    first = latecomer.run(config, toy(), folder=tmp_path / "first")
    replayed = settings(algorithm=SPARSE, simulate={"arrivals": str(first.folder)})
    again = latecomer.run(replayed, toy(), folder=tmp_path / "again")
    book = read_traffic(again.folder)
    assert book is not None
    lanes = book.lanes()
    name = next(lane.cid for lane in lanes if lane.way == "up")
    assert sum(v.payload for k, v in lanes.items() if k.way == "down") > 0
    assert any(lane == Lane(name, "up", lane.codec) for lane in lanes)


def test_the_command_prints_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch):
        Path("mine.py").write_text(
            "from tests.fedsim.toys import toy\nworkload = toy()\n"
        )
        Path("fed.yaml").write_text(
            "app: mine.py:workload\n"
            "algorithm: {kind: fed_buff, buffer: 2, client: {kind: local_sgd}}\n"
            "stop: {versions: 2}\nsimulate: {clients: 3}\n"
        )
        done = typed("fedsim", "run", "fed.yaml", "--no-report")
    assert done.status == 0, done.err
    assert "than float32" in done.out
