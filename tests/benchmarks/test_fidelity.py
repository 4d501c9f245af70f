"""The federations that are run and predicted, and how they are told."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.fidelity import __main__ as command
from benchmarks.fidelity.assess import FidelityOptions
from benchmarks.fidelity.comparison import Fidelity, InOrder
from benchmarks.fidelity.federation import must_be_playable
from benchmarks.fidelity.settings import SETTINGS
from fedrun.config import parse_config
from tests.benchmarks.test_fidelity_of_a_run import fidelity


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_can_be_played_by_processes(name: str) -> None:
    must_be_playable(parse_config(SETTINGS[name]))


def test_all_values_are_kept_and_settings_that_were_not_run_keep_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[FidelityOptions] = []

    def assess(options: FidelityOptions) -> Fidelity:
        asked.append(options)
        found = fidelity(target=0.8)
        return Fidelity(
            found.measured,
            found.predicted,
            found.metric,
            found.target,
            found.pilot,
            InOrder(3, 3, found.measured.trial.bytes_up),
        )

    monkeypatch.setattr(command, "assess", assess)
    monkeypatch.setattr(command, "RESULTS", tmp_path / "fidelity.json")
    shown = ""
    for name in ("FedBuff", "FedBuff, dropout"):
        done = CliRunner().invoke(command.main, [name, "-o", str(tmp_path), "--save"])
        assert done.exit_code == 0, done.output
        shown += done.output
    assert [options.pilot is None for options in asked] == [True, False]
    assert all(options.run is None and options.config.is_file() for options in asked)
    told = json.loads((tmp_path / "fidelity.json").read_text())
    assert list(told["settings"]) == ["FedBuff", "FedBuff, dropout"]
    assert "2.2 (+10.0%)" in shown
    assert "exact" in shown


def test_a_file_and_a_setting_are_not_taken_together() -> None:
    done = CliRunner().invoke(command.main, ["fed.yaml", "FedBuff"])
    assert done.exit_code == 2
    assert "expected one YAML file, or settings of synchronous;" in done.output
