"""The choice of the default rates tries what the recipe has, and others beside it."""

import json
from pathlib import Path

import pytest

from benchmarks.asynchrony import choice
from benchmarks.asynchrony.choice import CANDIDATES, SETTINGS, Candidate, rows
from benchmarks.asynchrony.contenders import OWN
from fedcore.recipes import Latecomer
from fedrun.config import parse_config


def test_the_default_is_among_the_candidates() -> None:
    recipe = Latecomer().model_dump()
    server, weights = recipe["server"], recipe["staleness"]["inner"]
    own = Candidate(server["lr"], weights["limit"], server["power"])
    assert own in CANDIDATES
    assert own.rate == OWN.server
    algorithm = own.contender().algorithm(200, OWN, batch=10)
    found = parse_config({"algorithm": algorithm}).algorithm
    assert found.staleness == Latecomer().staleness
    assert found.server == Latecomer().server


def test_the_command_measures_and_saves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        choice, "SETTINGS", {"digits": SETTINGS["digits, 12 in flight"]}
    )
    monkeypatch.setattr(choice, "CANDIDATES", CANDIDATES[:1])
    monkeypatch.setattr(choice, "RESULTS", tmp_path / "choice.json")
    monkeypatch.setattr(choice, "LIMIT", 12.0)
    assert choice.main(["--seeds", "0", "--processes", "1", "--save"]) == 0
    assert str(CANDIDATES[0]) in capsys.readouterr().out
    told = json.loads((tmp_path / "choice.json").read_text())["choice"]
    (times,) = told["times"]["digits"].values()
    assert len(times) == 1


def test_a_run_that_never_was_there_is_told() -> None:
    told = {name: {str(each): [3.0, None] for each in CANDIDATES} for name in SETTINGS}
    assert next(rows(told))[1:] == ["never in 1 of 2"] * len(SETTINGS)


def test_data_that_is_not_there_ends_the_command_with_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert choice.main(["--data", str(tmp_path), "--seeds", "0", "--processes", "1"])
    assert str(tmp_path) in capsys.readouterr().err
