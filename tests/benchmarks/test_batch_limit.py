"""The flag of ``fedsim scale`` is put beside rounds, and every study is kept."""

import json
from pathlib import Path

import pytest

from benchmarks import batch_limit
from benchmarks.series import runs


@pytest.fixture(autouse=True)
def _tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_limit, "RESULTS", tmp_path / "batch_limit.json")
    monkeypatch.setattr(batch_limit, "CLIENTS", 16)
    monkeypatch.setattr(batch_limit, "COHORTS", (1, 8))
    monkeypatch.setattr(batch_limit, "RATES", (0.3, 1.0))
    monkeypatch.setattr(batch_limit, "TARGET", 0.2)
    monkeypatch.setattr(batch_limit, "MOST", 40)
    monkeypatch.setattr(batch_limit, "SKEWS", {"alike": 1000.0})


def test_the_command_studies_and_saves_beside_what_was_saved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        batch_limit.main(["--seeds", "1", "--save"])
    shown = capsys.readouterr().out
    assert "alpha 1000,   8 clients" in shown
    assert "fitted" in shown
    earlier, last = runs(json.loads((tmp_path / "batch_limit.json").read_text()))
    assert earlier["alike"] == last["alike"]
    assert last["rates"] == [0.3, 1.0]
    assert set(last["alike"]["limits"]) == {"initial", "trained"}
    for row in last["alike"]["rounds"].values():
        assert 0 < row["rounds"] <= 40


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_a_rate_that_diverges_is_not_the_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_limit, "RATES", (0.3, 1e6))
    batch_limit.main(["--seeds", "1", "--save"])
    (kept,) = runs(json.loads((tmp_path / "batch_limit.json").read_text()))
    assert {row["lr"] for row in kept["alike"]["rounds"].values()} == {0.3}
