"""The benchmark of bytes counts every byte, knows what it is, and comes to an end."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from fedwire.frames import chunk_frames, header_frame
from fedwire.v1 import federation_pb2 as pb

from benchmarks.bytes import __main__ as command
from benchmarks.bytes import tune
from benchmarks.bytes.data import SYMBOLS
from benchmarks.bytes.federation import Plan, config
from benchmarks.bytes.http2 import COUNT, PAYLOAD, PREFACE, Calls, Stream, Tally
from benchmarks.bytes.settings import SETTINGS
from benchmarks.bytes.tasks import TASKS
from benchmarks.series import runs
from fedcore.clients import SGDConfig
from fedcore.errors import WorkloadError
from fedcore.workload import Client
from fedrun.config import parse_config


def frame(kind: int, stream: int, body: bytes) -> bytes:
    """An HTTP/2 frame."""
    return len(body).to_bytes(3, "big") + bytes([kind, 0, 0, 0, 0, stream]) + body


def message(body: bytes) -> bytes:
    """A gRPC message."""
    return b"\0" + len(body).to_bytes(4, "big") + body


def literal(key: bytes, value: bytes) -> bytes:
    """A header that joins the table."""
    return b"\x40" + bytes([len(key)]) + key + bytes([len(value)]) + value


PATH = literal(b":path", b"/fedwire.v1.Federation/Push")
HEAD = message(header_frame(pb.PushHeader(key=b"ann", payload=b"y" * 50)))
CHUNK = message(next(chunk_frames([b"x" * 100])))


def fed(stream: Stream, data: bytes, step: int) -> bytes:
    """What is passed on of data that arrives in small pieces."""
    pieces = [data[at : at + step] for at in range(0, len(data), step)]
    return b"".join(part for piece in pieces for part in stream.feed(piece))


@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_every_byte_is_counted_under_its_call_and_kind(step: int) -> None:
    tally, calls = Tally(), Calls()
    data = PREFACE + frame(4, 0, b"") + frame(1, 1, PATH)
    data += frame(0, 1, HEAD + CHUNK[:50]) + frame(0, 1, CHUNK[50:])
    data += frame(1, 3, b"\xbe") + frame(8, 3, b"\0\0\0\5")
    assert fed(Stream("up", calls, tally), data, step) == data
    sizes = {key[1:]: number for key, number in tally.items() if key[2] != COUNT}
    assert sum(sizes.values()) == len(data)
    assert sizes == {
        ("connection", "preface"): 24,
        ("connection", "settings"): 9,
        ("Push", "headers"): 9 + len(PATH) + 9 + 1,
        ("Push", "windows"): 13,
        ("Push", "frames"): 18,
        ("Push", "payload"): 150,
        ("Push", "messages"): len(HEAD) + len(CHUNK) - 150,
    }
    assert tally["up", "Push", COUNT] == 2


def test_a_name_is_found_behind_entries_that_came_later() -> None:
    calls = Calls()
    calls.read(1, literal(b":path", b"/service/Pull") + literal(b"a", b"b"))
    calls.read(3, b"\x83\x86" + b"\x3f\xe1\x1f" + b"\xbf")
    calls.read(5, b"\x44\x02/x" + b"\x0f\x30\x01c" + b"\x00\x01d\x01e")
    assert [calls.name(stream) for stream in (1, 3, 5, 7)] == [
        "Pull",
        "Pull",
        "x",
        "connection",
    ]


@pytest.mark.parametrize("cut_at", [0, 6, 60, len(CHUNK) - 1])
def test_a_cut_message_is_passed_on_up_to_the_cut(cut_at: int) -> None:
    tally = Tally()
    stream = Stream("down", Calls(), tally, lambda size: cut_at)
    first = frame(0, 1, CHUNK[:20])
    data = first + frame(0, 1, CHUNK[20:]) + frame(0, 3, CHUNK)
    passed = b"".join(stream.feed(data))
    headers = 9 if cut_at <= 20 else 18
    assert passed == data[: headers + cut_at]
    assert stream.is_cut
    stream.close()
    assert sum(tally.values()) == len(data)
    assert not any(kind == PAYLOAD for _, _, kind in tally)


@pytest.mark.parametrize("name", TASKS)
def test_every_setting_of_a_task_is_a_config_that_servers_read(
    name: str, tmp_path: Path
) -> None:
    plan = Plan(task=TASKS[name], rounds=30, folder=tmp_path)
    names = [setting.name for setting in SETTINGS]
    assert len(set(names)) == len(names)
    for setting in SETTINGS:
        told = parse_config(config(plan, setting, seed=0))
        client = told.algorithm.client
        assert isinstance(client, SGDConfig)
        rates = {client.at(version).lr for version in (0, 15)}
        assert rates == {plan.task.lr}
        assert (client.at(29).lr < plan.task.lr) == plan.task.decays


def test_absent_data_are_told_with_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--task", "watch", "--data", str(tmp_path)]
    assert command.main(arguments) == os.EX_DATAERR
    assert "shoulder_smartwatch.npz: no such file" in capsys.readouterr().err


def test_every_client_of_the_texts_has_a_module_of_its_own() -> None:
    shared = TASKS["text"].share("", 10, 0)
    assert shared.train.x.shape == shared.train.y.shape == (10 * 250, 20)
    assert [len(part) for part in shared.parts] == [200] * 10
    first = Path(os.__file__).parent / "__future__.py"
    text = first.read_text()[:21] if first.stat().st_size > 5_000 else ""
    if text:
        letters = [chr(c + 32) if c < 95 else "\n" for c in shared.train.x[0]]
        assert "".join(letters) == text[:20]
    np.testing.assert_array_equal(shared.train.x[0][1:], shared.train.y[0][:-1])
    assert shared.train.y.max() < SYMBOLS
    rows = {index for part in shared.parts for index in part.tolist()}
    tested = {row.tobytes() for row in shared.test.x}
    assert len(shared.test.x) == 10 * 50
    assert len(rows) + len(shared.test.x) == len(shared.train.x)
    assert sum(shared.train.x[row].tobytes() in tested for row in rows) < 100
    with pytest.raises(WorkloadError, match=r"modules of 5,000 characters, not 9999"):
        TASKS["text"].share("", 9999, 0)


def test_a_rate_is_tried_on_rows_that_nobody_trains_on() -> None:
    task = TASKS["digits"]
    workload = tune.workload(task, "")
    assert workload.test_data is not None
    held_out = workload.test_data()[0]
    trained = [
        workload.train_data(Client("c", index, task.clients)).x
        for index in range(task.clients)
    ]
    whole = len(task.share("", task.clients, tune.SEED).train.y)
    assert sum(map(len, trained)) + len(held_out) == whole
    assert whole / 13 < len(held_out) < whole / 10
    assert tune.measure(task, "", 0.05, 3) > 0.1


def test_a_rate_that_is_tried_stands_beside_the_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bytes.json"
    known = {"settings": {"uncompressed": {"machine": {"cores": 99}}}}
    path.write_text(json.dumps({"tasks": {"digits": known}}))
    monkeypatch.setattr(command, "RESULTS", path)
    monkeypatch.setattr(tune, "measure", lambda *_: 0.5)
    assert tune.main(["--task", "digits", "--rates", ".1", "--save"]) == 0
    told = json.loads(path.read_text())["tasks"]["digits"]
    assert told == {**known, "rates": {"0.1": 0.5}}


class _Again:
    """A second run."""

    def to_json(self) -> dict[str, int]:
        """What came of it."""
        return {"a": 1}


@pytest.mark.processes
@pytest.mark.timeout(300)
def test_a_short_run_adds_up(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(command, "RESULTS", tmp_path / "bytes.json")
    arguments = ["--task", "digits", "--rounds", "6", "--seeds", "1"]
    arguments += ["--settings", "top_k 1/.2 %", "--cut", "0.4", "--where", "--save"]
    assert command.main(arguments) == 0
    assert "times fewer" in capsys.readouterr().out
    once = json.loads(command.RESULTS.read_text())["tasks"]["digits"]
    command.save("digits", 6, {"uncompressed": _Again()})  # type: ignore[dict-item]
    kept = json.loads(command.RESULTS.read_text())["tasks"]["digits"]["settings"]
    first, second = runs(kept["uncompressed"])
    assert first["seeds"] == once["settings"]["uncompressed"]["seeds"]
    assert second["a"] == 1
    command.write({"digits": once})
    told = json.loads(command.RESULTS.read_text())["tasks"]["digits"]["settings"]
    names = ["uncompressed", "top_k 1/.2 %"]
    assert list(told) == [*names, *(f"{name}, 40% cut" for name in names)]
    assert told["uncompressed"]["times fewer"] == 1
    assert told["top_k 1/.2 %"]["times fewer"] > 10
    for name, row in told.items():
        seed = row["seeds"][0]
        assert seed["updates"] == 18
        assert row["payload"]["up"] == pytest.approx(seed["journalled"]["up"] / 18, 0.1)
        assert list(map(int, seed["curve"])) == list(range(7))
        assert seed["connections"] >= 6 + seed["cuts"]
        assert row["overhead"]["steady"] > 0, name
        for counted in seed["counted"].values():
            assert counted["messages, proxy"] < counted["socket, proxy"]
            if not seed["cuts"]:  # what is cut off does not reach the server
                assert counted["payload"] == counted["payload, proxy"]
                there = counted["messages, proxy"]  # a last word may not arrive
                assert counted["messages"] == pytest.approx(there, abs=200)
        if "cut" in name:
            assert seed["cuts"]
        else:
            assert seed["connections"] == 6
