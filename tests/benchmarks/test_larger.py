"""Claims at a larger size: what is run, on images that are there in any case."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import larger
from benchmarks.claims import skew
from benchmarks.claims.normalisation import NORMALISED
from fedrun.data import digits


def small_clothes(folder: str, split: str) -> Any:
    """Digits in the middle of larger images, in place of clothes."""
    x, y = digits("train" if split == "train" else "test")
    around = ((0, 0), (0, 0), (10, 10), (10, 10))
    return np.pad(x.reshape(-1, 1, 8, 8).astype(np.float32), around)[:300], y[:300]


@pytest.mark.slow
def test_all_studies_run_and_keep_every_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(larger, "RESULTS", tmp_path / "larger.json")
    monkeypatch.setattr(larger, "clothes", small_clothes)
    monkeypatch.setattr(larger, "SKEWS", (0.0, 1.0))
    monkeypatch.setattr(larger, "CLASSES", {"1 class": 1})
    monkeypatch.setattr(skew, "THRESHOLDS", (0.02, 1.0))
    monkeypatch.setattr(skew, "EVERY", 1)
    assert larger.main(["--quick", "--seeds", "1", "--save"]) == 0
    told = json.loads((tmp_path / "larger.json").read_text())["claims"]
    assert [claim["claim"] for claim in told] == [9, 21, 24, 31, 35]
    sent = told[0]["tables"][0]["rows"]
    assert sent["top_k, k = 1.0%"]["median"]["mean"] == 1
    searched = told[1]["tables"][0]["rows"]
    assert set(searched) == {"0.02", "1.0", "skew_scout"}
    assert searched["1.0"]["kB up"]["mean"] < searched["0.02"]["kB up"]["mean"]
    assert len(told[2]["tables"][0]["rows"]) == len(NORMALISED)
    assert "too quick for a verdict" in capsys.readouterr().out


def test_absent_data_and_unknown_studies_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert larger.main(["skew", "--data", str(tmp_path)]) != 0
    assert "fashion_mnist.npz" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        larger.main(["skews"])
    assert (
        "there are focus, gaussian_k, large_batches, normalisation, skew"
        in capsys.readouterr().err
    )
