"""The ablation tells what a part is worth, all else equal."""

import itertools
import json
import math
from pathlib import Path

import pytest

from benchmarks import ablation
from benchmarks.ablation import PARTS, Reached, Scene, all_of_them, name_of, worth
from fedrun.config import parse_config


def test_a_planted_effect_is_found() -> None:
    effects = dict(zip(PARTS, (2.0, 0.5, 1.0, 3.0, 0.8, 1.25), strict=True))
    runs = {}
    for parts in all_of_them():
        seconds = math.prod(effects[part] for part in parts)
        runs[name_of(parts)] = [Reached(seconds, 10 * seconds), Reached(7, 9)]
    for part, effect in effects.items():
        time, nbytes, missing = worth(runs, part)
        assert math.exp(2 * time.mean) == pytest.approx(effect)  # half of the pairs
        assert nbytes.mean == pytest.approx(time.mean)
        assert missing == 0


def test_a_run_that_never_was_there_counts_for_nothing_and_is_told() -> None:
    runs = {name_of(parts): [Reached(2.0, 5.0)] for parts in all_of_them()}
    runs[name_of(ablation.DEFAULT)] = [Reached(math.inf, math.nan)]
    for part in PARTS:
        time, _, missing = worth(runs, part)
        assert time.mean == 0
        assert missing == 1


def test_every_set_of_parts_is_a_recipe_of_its_own_that_can_be_run() -> None:
    sets = list(all_of_them())
    assert len({*map(name_of, sets)}) == len(sets) == 2 ** len(PARTS)
    assert name_of(ablation.DEFAULT) == "the default recipe"
    for parts in sets:
        algorithm = ablation.section(parts)(12, 1.0)
        parse_config({"algorithm": {**algorithm, "buffer": 4}})


@pytest.mark.slow
def test_the_command_measures_and_saves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = dict(itertools.islice(PARTS.items(), 2))
    monkeypatch.setattr(ablation, "PARTS", few)
    monkeypatch.setattr(ablation, "ALL", Scene("digits", 12, 0.5, 30.0))
    monkeypatch.setattr(ablation, "RESULTS", tmp_path / "ablation.json")
    assert ablation.main(["--only", "all", "--seeds", "2", "--save"]) == 0
    assert "times as many bytes" in " ".join(capsys.readouterr().out.split())
    told = json.loads((tmp_path / "ablation.json").read_text())["all"]
    assert len(told["runs"]) == 4
    assert all(
        run["payload"] > 0 for seeds in told["runs"].values() for run in seeds.values()
    )
    assert (
        min(each.seconds for seeds in ablation.load(told).values() for each in seeds)
        < 30
    )


def test_data_that_is_not_there_ends_the_command_with_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ablation.main(["--only", "one by one", "--data", str(tmp_path)]) != 0
    assert str(tmp_path) in capsys.readouterr().err
