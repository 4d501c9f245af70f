"""Sweeps and comparisons from Python, and the names that the package shows."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedcore.errors import ConfigError, LatecomerError
from tests.fedsim.toys import write
from tests.integration.typed import desk, typed


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    with desk(tmp_path, monkeypatch) as here:
        write()
        yield here


def test_the_public_names_show_before_they_are_used() -> None:
    code = (
        "import fedsim, json, sys; print(json.dumps([dir(fedsim), len(sys.modules)]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    names, modules = json.loads(done.stdout)
    assert {"run", "run_sweep", "compare_codecs", "compare_runs"} <= set(names)
    assert modules < 150  # nothing heavy was imported to tell
    for name in ("run", "run_sweep", "compare_codecs", "compare_runs"):
        assert callable(getattr(fedsim, name))
    with pytest.raises(AttributeError, match="no attribute 'rnu'"):
        fedsim.rnu  # noqa: B018


def test_a_sweep_in_python_is_that_of_the_command() -> None:
    grid: dict[str, Sequence[Any]] = {
        "algorithm.buffer": [1, np.int64(2)],
        "algorithm.client.lr": [1e-05, 0.05],
    }
    found = fedsim.run_sweep("fed.yaml", grid, seeds=2, out="here")
    table = found.table()
    points = zip(table["algorithm.buffer"], table["algorithm.client.lr"], strict=True)
    assert sorted(points) == [(1, 1e-05), (1, 0.05), (2, 1e-05), (2, 0.05)]
    assert table["runs"] == [2] * 4
    assert found.verdict.startswith("best: buffer=")
    words = (
        "--grid",
        "algorithm.buffer=1,2",
        "--grid",
        "algorithm.client.lr=1.0e-05,0.05",
    )
    done = typed("fedsim", "sweep", "fed.yaml", *words, "--seeds", "2", "-o", "here")
    assert "known from before: 8 runs of 8" in done.err
    assert found.verdict in done.out
    drawn = fedsim.run_sweep(
        "fed.yaml",
        ranges={"algorithm.client.lr": ("log", 0.01, 0.1)},
        random=2,
        changes={"stop.versions": 2},
    )
    assert len(drawn.rows) == 2
    assert all(t.versions == 2 for row in drawn.rows for t in row.trials.values())


def test_runs_and_sweeps_are_compared_in_python() -> None:
    short = {"stop": {"versions": 2}}
    runs = [
        fedsim.run("fed.yaml", folder="a"),
        fedsim.run({**_plain("fed.yaml"), **short}, folder="b"),
    ]
    found = fedsim.compare_runs(runs[0], "b", out="page.html")
    assert [side.name for side in found.sides] == ["a", "b"]
    assert found.metric == "loss"
    assert "b against a:" in found.sentences()
    assert Path("page.html").is_file()
    with pytest.raises(ConfigError, match="compare needs two runs at least"):
        fedsim.compare_runs("a")


def test_codecs_are_compared_in_python() -> None:
    found = fedsim.compare_codecs(
        "fed.yaml", uplinks=["top_k:ratio=0.5"], downlinks=["cast"], versions=4,
        out="codecs",
    )  # fmt: skip
    assert len(found.rows) >= 2
    assert found.advice.startswith("take ")
    assert Path("codecs/codecs.html").is_file()


def test_what_cannot_be_swept_is_a_sentence() -> None:
    with pytest.raises(ConfigError, match=r"expected a list of values .* got '4,8'"):
        fedsim.run_sweep("fed.yaml", {"algorithm.buffer": "4,8"})
    with pytest.raises(ConfigError, match="SCALE one of linear, log, int"):
        fedsim.run_sweep(
            "fed.yaml", ranges={"algorithm.client.lr": ("cubic", 1, 2)}, random=1
        )
    Path("steep.py").write_text(
        "from tests.fedsim.toys import toy\n"
        "def gradient(params, x, y):\n"
        "    raise ArithmeticError('too steep')\n"
        "workload = toy(gradient=gradient)\n"
    )
    with pytest.raises(LatecomerError, match=r"every run of the sweep .* too steep"):
        fedsim.run_sweep(
            "fed.yaml", {"algorithm.buffer": [1, 2]}, app="steep.py:workload"
        )


def _plain(path: str) -> dict[str, object]:
    import yaml

    found: dict[str, object] = yaml.safe_load(Path(path).read_text())
    return found
