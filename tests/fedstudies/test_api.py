"""Sweeps and comparisons from Python."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import latecomer
from fedcore.errors import ConfigError, LatecomerError
from fedview.callbacks import Callback
from fedview.results import Results
from tests.fedsim.toys import write
from tests.integration.typed import desk, typed

SWEEP: Any = latecomer.run_sweep
COMPARE: Any = latecomer.compare_runs


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    with desk(tmp_path, monkeypatch) as here:
        write()
        yield here


def test_a_sweep_in_python_is_that_of_the_command() -> None:
    grid: dict[str, Sequence[Any]] = {
        "algorithm.buffer": [1, np.int64(2)],
        "algorithm.client.lr": [1e-05, 0.05],
    }
    found = latecomer.run_sweep("fed.yaml", grid, seeds=2, out="here")
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
    drawn = latecomer.run_sweep(
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
        latecomer.run("fed.yaml", folder="a"),
        latecomer.run({**_plain("fed.yaml"), **short}, folder="b"),
    ]
    found = latecomer.compare_runs(runs[0], "b", out="page.html")
    assert [side.name for side in found.sides] == ["a", "b"]
    assert found.metric == "loss"
    assert "b against a:" in found.sentences()
    assert Path("page.html").is_file()
    with pytest.raises(ConfigError, match="compare needs at least two runs"):
        latecomer.compare_runs("a")


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: SWEEP("fed.yaml", random=3), "random needs ranges or grid to draw"),
        (lambda: SWEEP("fed.yaml", metric="speed"), "metric speed: was not measured"),
        (lambda: SWEEP("fed.yaml", {"seed": [1]}), "the option seeds sets the seeds"),
        (
            lambda: SWEEP("fed.yaml", {"algorithm.buffer": [1, "x"]}),
            "grid algorithm.buffer: algorithm.buffer=x: should be",
        ),
        (lambda: SWEEP("fed.yaml", out="fed.yaml"), "out fed.yaml: is a file"),
        (
            lambda: latecomer.predict("none", server_up_mbit=-1.0),
            "server_up_mbit -1: expected a rate above 0",
        ),
        (
            lambda: latecomer.scale("fed.yaml", measure=True, device="a"),
            "give device or measure, not both",
        ),
    ],
)
def test_an_error_of_a_function_names_arguments_and_no_options(
    call: Any, sentence: str
) -> None:
    with pytest.raises(LatecomerError) as caught:
        call()
    assert sentence in str(caught.value)
    assert "--" not in str(caught.value)


def test_codecs_are_compared_in_python() -> None:
    found = latecomer.compare_codecs(
        "fed.yaml", uplinks=["top_k:ratio=0.5"], downlinks=["cast"], versions=4,
        out="codecs",
    )  # fmt: skip
    assert len(found.rows) >= 2
    assert found.advice.startswith("take ")
    assert Path("codecs/codecs.html").is_file()


def test_what_cannot_be_swept_is_a_sentence() -> None:
    with pytest.raises(ConfigError, match=r"expected a list of values .* got '4,8'"):
        latecomer.run_sweep("fed.yaml", {"algorithm.buffer": "4,8"})
    with pytest.raises(ConfigError, match="SCALE one of linear, log, int"):
        latecomer.run_sweep(
            "fed.yaml", ranges={"algorithm.client.lr": ("cubic", 1, 2)}, random=1
        )
    Path("steep.py").write_text(
        "from tests.fedsim.toys import toy\n"
        "def gradient(params, x, y):\n"
        "    raise ArithmeticError('too steep')\n"
        "workload = toy(gradient=gradient)\n"
    )
    with pytest.raises(LatecomerError, match=r"every run of the sweep .* too steep"):
        latecomer.run_sweep(
            "fed.yaml", {"algorithm.buffer": [1, 2]}, app="steep.py:workload"
        )


def _plain(path: str) -> dict[str, object]:
    import yaml

    found: dict[str, object] = yaml.safe_load(Path(path).read_text())
    return found


# ------------------------------------------------------------------- mistakes of users


class Silent(Callback):
    """Does nothing."""


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"config": 42}, "config: expected the path of a YAML file, a mapping or a "),
        ({"config": None}, "FederationConfig, got NoneType"),
        ({"config": "runs"}, "runs: No such file or directory"),
        ({"config": "stop: {versions: 3}"}, "No such file or directory"),
        ({"workload": "mine:workload"}, "got str; a name belongs into the config, as"),
        (
            {"workload": {}},
            "workload: expected a Workload or a TorchWorkload, got dict",
        ),
        ({"workload": object}, "got the class object; make an object of it"),
        (
            {"data": ["site=a"]},
            "data: expected a mapping such as {'site': 'a'}, got li",
        ),
        ({"callbacks": Silent()}, "expected a list of Callback objects, got Silent"),
        ({"callbacks": [Silent]}, "got the class Silent; make an object of it"),
        ({"callbacks": [print]}, "callbacks: expected Callback objects, got builtin"),
        ({"on_event": "told"}, "on_event: expected a function, got str"),
        ({"resume": True}, "resume: say which run: folder="),
        ({"folder": "mine.py"}, "mine.py: cannot be written: File exists"),
    ],
)
def test_a_call_with_a_mistake_is_answered_by_a_sentence(
    given: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(LatecomerError) as caught:
        latecomer.run(**{"config": "fed.yaml", **given})
    assert sentence in str(caught.value)
    assert not list(Path().glob("runs*"))


def test_what_a_function_returns_that_is_no_text_stops_nothing() -> None:
    results = latecomer.run("fed.yaml", folder="a", on_event=lambda run, event: True)  # type: ignore[arg-type,return-value]
    assert results.summary["ended"] == "6 versions"
    assert Results("a").summary == results.summary  # type: ignore[arg-type]
    for version in ("3", 2.0):
        with pytest.raises(ConfigError, match="expected a whole number"):
            results.model(version=version)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: SWEEP({}, {}), "of a YAML file, which names the app, got"),
        (lambda: SWEEP("fed.yaml", ["a=1"]), "grid: expected a mapping by"),
        (lambda: SWEEP("fed.yaml", {"a": 4}), "grid: a: expected a list of"),
        (
            lambda: SWEEP("fed.yaml", seeds=0),
            "seeds: expected 1 or more, go",
        ),
        (
            lambda: latecomer.compare_codecs(),
            "app: is missing; the simulator needs the",
        ),
        (
            lambda: latecomer.compare_codecs("fed.yaml", uplinks="cast"),
            "uplinks: expected a list of codecs, got 'cast'",
        ),
        (
            lambda: latecomer.compare_codecs("fed.yaml", versions=0),
            "versions: expected 1 or more, got 0",
        ),
        (lambda: COMPARE(["a", "b"]), "expected folders or Results, one"),
        (
            lambda: latecomer.compare_runs("a", "b"),
            "a: is no folder of a run or a sweep",
        ),
    ],
)
def test_so_is_one_of_a_study(call: Any, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        call()
    assert sentence in str(caught.value)
