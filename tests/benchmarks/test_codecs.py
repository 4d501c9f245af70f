"""The codecs' benchmark runs and fills its tables; its figures are not asked for."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks.basis import RESTS_ON
from benchmarks.codecs import __main__ as command
from benchmarks.codecs import entropy, ours, peers, updates
from benchmarks.codecs.codec import STAGES, measure
from benchmarks.codecs.targets import Target
from benchmarks.codecs.vectors import SHAPES, draw, relative_error
from benchmarks.series import runs

TINY = ["--values", "300", "10000", "--shapes", "laplace", "--repetitions", "1"]


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the command else starts a child process for."""
    for name, one in command.ONE_THREAD.items():
        monkeypatch.setenv(name, one)


def test_the_command_fills_every_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results" / "codecs.json"
    monkeypatch.setattr(command, "RESULTS", results)
    assert command.main([*TINY, "--save", "--markdown"]) == 0
    shown, told = capsys.readouterr().out, json.loads(results.read_text())
    assert set(told["vectors"]) == {f"laplace, {d:,} values" for d in (300, 10_000)}
    for rows in told["vectors"].values():
        assert set(rows) == {*ours.CONFIGS, *peers.PEERS}
        for name in ours.CONFIGS:
            assert set(rows[name]["passes"]) == set(STAGES), name
            assert 0 < rows[name]["bits"] < 100, name
            assert math.isfinite(rows[name]["error"]), name
    assert "met" in shown
    assert "| sign_l1 |" in shown
    exact = [t for t in told["targets"] if "full sort" in t["target"]]
    assert len(exact) == 2
    assert all(target["met"] for target in exact)


def test_a_peer_that_is_not_installed_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def absent() -> None:
        raise ImportError

    monkeypatch.setattr(peers, "PEERS", {"some peer": absent})
    monkeypatch.setattr(command, "PEERS", peers.PEERS)
    assert (
        command.main(["--values", "300", "--shapes", "gaussian", "--repetitions", "1"])
        == 0
    )
    assert "not installed" in capsys.readouterr().out


def test_vectors_are_the_same_in_every_run() -> None:
    for shape in SHAPES:
        first_D = draw(shape, 100)
        assert np.array_equal(first_D, draw(shape, 100))
        assert first_D.dtype == np.float32


def test_errors_are_squares_of_what_is_lost() -> None:
    true_D = np.array([3, 4], np.float32)
    assert relative_error(np.array([3, 0], np.float32), true_D) == 16 / 25


def test_bytes_and_errors_are_those_of_the_message() -> None:
    found = measure(ours.our_codec("identity", 100), draw("gaussian", 100), 1)
    assert (found.nbytes, found.error) == (406, 0)
    assert found.time("encode", "decode") > 0


def test_targets_are_bounds_from_above_or_below() -> None:
    assert Target("a", 4, 4).met
    assert not Target("a", 4.1, 4).met
    assert Target("a", 4.1, 4, at_least=True).met
    assert str(Target("a", 5, 4)) == "a ≤ 4: 5, NOT MET"


def test_what_codecs_hold_of_real_updates_is_kept_run_by_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(updates, "RESULTS", tmp_path / "updates.json")
    for _ in range(2):
        assert updates.main(["--codecs", "sign_l1", "--save"]) == 0
    first, second = runs(json.loads(updates.RESULTS.read_text())["digits: sign_l1"])
    assert first == {k: value for k, value in second.items() if k != RESTS_ON}
    assert first["values"] == 4810
    assert first["bytes up"] == 626
    assert 0.1 < first["held up"] < first["held down"] < 1
    assert "626" in capsys.readouterr().out


def test_what_coders_leave_of_real_messages_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entropy, "RESULTS", tmp_path / "entropy.json")
    monkeypatch.setattr(entropy, "CODERS", {})
    words = ["--codecs", "uniform 2 bits", "--save", "--as-in-torch"]
    assert entropy.main(words) == 0
    found = json.loads(entropy.RESULTS.read_text())
    ways = [f"digits, uniform 2 bits {way}, as in torch" for way in ("up", "down")]
    assert list(found) == ways
    assert all(0.1 < found[way]["as it travels"]["share"] < 0.6 for way in ways)
