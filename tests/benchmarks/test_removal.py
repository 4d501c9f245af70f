"""A client is removed in both ways, and every comparison is kept."""

import json
from pathlib import Path

import pytest

from benchmarks import removal
from benchmarks.series import runs


@pytest.mark.slow
def test_the_command_removes_and_saves_beside_what_was_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(removal, "RESULTS", tmp_path / "removal.json")
    monkeypatch.setattr(removal, "VERSIONS", (20,))
    monkeypatch.setattr(removal, "SEEDS", (0,))
    for _ in range(2):
        assert removal.main(["--save"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    earlier, last = runs(json.loads((tmp_path / "removal.json").read_text()))
    assert earlier["rows"] == last["rows"] == told[:2] == told[2:]
    once, more = last["rows"]
    assert once["versions"] == 1
    assert once["equal"]
    assert more["versions"] == 20
    assert more["relative"] > 0
