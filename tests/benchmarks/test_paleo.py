"""Predicted seconds of a step are put beside measured ones; every series is kept."""

import json
from pathlib import Path

import pytest
import torch

from benchmarks import paleo
from benchmarks.series import runs
from fedtorch.models import mlp


def tiny() -> dict[str, paleo.Case]:
    x, y = torch.rand(4, 6), torch.zeros(4, dtype=torch.long)
    return {"a tiny MLP": paleo.Case(lambda: mlp(6, 5, 3), x, y)}


def test_the_command_measures_and_saves_beside_what_was_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(paleo, "RESULTS", tmp_path / "paleo.json")
    monkeypatch.setattr(paleo, "cases", tiny)
    monkeypatch.setattr(paleo, "SECONDS", 0.0)
    paleo.main(["--repetitions", "2", "--save"])
    paleo.main(["--repetitions", "1", "--save"])
    shown = capsys.readouterr().out
    assert shown.count("a tiny MLP") == 6
    assert "predicted / measured" in shown
    earlier, last = runs(json.loads((tmp_path / "paleo.json").read_text()))
    assert [earlier["repetitions"], last["repetitions"]] == [2, 1]
    assert [len(run["models"]["a tiny MLP"]) for run in (earlier, last)] == [2, 1]
    for row in earlier["models"]["a tiny MLP"]:
        assert 0 < row["measured_ms"] <= row["median_ms"]
        assert 0 < row["paper"] <= row["with_start"]
    assert last["machine"]["cores"] > 0
