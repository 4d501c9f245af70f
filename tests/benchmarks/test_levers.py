"""What was tried to save bytes is run by a command, and keeps every seed."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.bytes import levers
from benchmarks.bytes.data import small_digits
from benchmarks.bytes.levers import LEVERS, Codec
from benchmarks.bytes.mlp import digits
from benchmarks.bytes.tasks import TASKS


def test_all_levers_run_and_their_values_are_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(levers, "RESULTS", tmp_path / "levers.json")
    monkeypatch.setattr(levers, "fashion", digits)
    monkeypatch.setitem(TASKS, "mlp_decay", TASKS["digits"])
    assert TASKS["digits"].share is small_digits
    assert levers.main(["--rounds", "12", "--seeds", "2", "--save"]) == 0
    told = json.loads((tmp_path / "levers.json").read_text())
    assert set(told) == {lever.name for lever in LEVERS}
    shown = capsys.readouterr().out
    for name, kept in told.items():
        assert name in shown
        assert len(kept["runs"]) == 2
        assert all(0 < each["accuracy"] <= 1 for each in kept["runs"])
    plain, coded = (told[lever.name]["runs"][0]["up"] for lever in LEVERS[:2])
    assert plain > 4 * digits.flat().spec.dim > 20 * coded


def test_bits_follow_the_share_of_the_rounds_that_are_over() -> None:
    spec = digits.flat().spec
    codec = Codec(spec, 0.5, lambda over: 1.0 if over < 0.5 else 0.5)
    x_D = np.random.default_rng(0).normal(size=spec.dim).astype(np.float32)
    for over in (0.0, 0.9):
        codec.sent(x_D, over)
    early, late = codec.nbytes
    assert late < 0.7 * early


def test_data_that_is_not_there_ends_the_command_with_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert levers.main(["--data", str(tmp_path), "--seeds", "1"]) != 0
    assert str(tmp_path) in capsys.readouterr().err
