"""``fedsim staleness``: what is trained, told and written."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from fedstudies.staleness.matrix import Matrix, matrix_figure
from fedstudies.staleness.slowdown import Row
from fedstudies.staleness.training import Course
from tests.fedsim.toys import APP as NUMPY
from tests.fedsim.toys import write
from tests.integration.typed import Ended, desk, typed

pytest.importorskip("torch")

APP = """
from tests.fedsim.toys import linear, points
workload = linear()
"""
WORDS = ("--workers", "2", "--batch", "4", "--target", "0.05", "-o", "out")
TWO = ("--optimizer", "sgd:lr=0.1", "--optimizer", "momentum:lr=0.01")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with desk(tmp_path, monkeypatch) as here:
        write(APP)
        yield here


def study(*words: str) -> Ended:
    return typed("fedsim", "staleness", "fed.yaml", *WORDS, *words)


def test_a_data_set_comes_to_what_its_arrays_come_to() -> None:
    rows = []
    for data in ("points(c.index + 1)", "list(zip(*points(c.index + 1)))"):
        write(APP.replace("linear()", f"linear(train_data=lambda c: {data})"))
        assert study("--optimizer", "sgd:lr=0.1", "--staleness", "0").status == 0
        rows.append(json.loads(Path("out", "staleness.json").read_text())["rows"])
    assert rows[0] == rows[1]


def test_the_matrix_is_told_and_written() -> None:
    done = study(*TWO, "--staleness", "0, 3", "--seeds", "2", "--coherence")
    assert (done.status, done.errors) == (0, [])
    *lines, page, numbers = done.err.splitlines()
    assert (page, numbers) == (
        "page: out/staleness.html",
        "numbers: out/staleness.json",
    )
    assert len(lines) == 8
    assert lines[0].startswith("sgd:lr=0.1, s = 0: ")
    saved = json.loads(Path("out", "staleness.json").read_text())
    assert saved["metric"] == "loss"
    assert [row["name"] for row in saved["rows"]] == ["sgd:lr=0.1", "momentum:lr=0.01"]
    for row in saved["rows"]:
        took = {(r["staleness"], r["seed"]): r["iterations"] for r in row["runs"]}
        assert list(took) == [(0, 0), (0, 1), (3, 0), (3, 1)]
        assert row["slowdowns"]["0"] == [1.0, 1.0]
        ratios = [took[3, seed] / took[0, seed] for seed in (0, 1)]
        assert row["slowdowns"]["3"] == pytest.approx(ratios)
        lengths = [len(r["coherence"]) for r in row["runs"]]
        assert lengths == [r["iterations"] - 1 for r in row["runs"]]
    assert done.out.splitlines()[-1].startswith("with s = 3 ")
    html = Path("out", "staleness.html").read_text()
    assert html.count('<figure class="plot"') == 3  # the matrix, and one for each row


def test_apps_are_compared_as_optimizers_are() -> None:
    Path("other.py").write_text(APP)
    done = study(
        "--optimizer", "sgd:lr=0.1", "--staleness", "2", "--also", "other.py:workload"
    )
    assert done.status == 0
    rows = json.loads(Path("out", "staleness.json").read_text())["rows"]
    assert [row["name"] for row in rows] == [
        "mine.py:workload sgd:lr=0.1",
        "other.py:workload sgd:lr=0.1",
    ]
    assert rows[0]["runs"] == rows[1]["runs"]
    assert "Gradient coherence" not in Path("out", "staleness.html").read_text()


def test_what_is_not_reached_is_said() -> None:
    done = study(*TWO[:2], "--staleness", "4", "--most", "2")
    assert done.status == 0
    assert "Even without staleness sgd:lr=0.1 did not always reach" in done.out
    assert done.out.splitlines()[-1].startswith("nothing was slowed down")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ("--optimizer", "sdg"),
            "--optimizer sdg: there is no optimizer 'sdg'; expected sgd, momentum, "
            "adam, rms_prop, adagrad",
        ),
        (
            ("--optimizer", "sgd:lr=fast"),
            "--optimizer sgd:lr=fast: expected a learning rate above 0, such as "
            "sgd:lr=0.5",
        ),
        (
            ("--staleness", "0,-4"),
            "--staleness 0,-4: expected iterations from 0 on, such as 0,4,16",
        ),
        (
            ("--metric", "recall"),
            "--metric recall: is not measured; measured: loss",
        ),
        (("--batch", "1000"), "a batch of 1000 out of 32 samples"),
    ],
)
def test_mistakes_are_answered_in_a_sentence(
    words: tuple[str, ...], sentence: str
) -> None:
    assert study(*words).sentence(os.EX_CONFIG) == sentence


def test_a_target_is_needed_and_may_be_that_of_the_federation() -> None:
    without = tuple(word for word in WORDS if word not in ("--target", "0.05"))
    words = ("staleness", "fed.yaml", *without, *TWO[:2], "--staleness", "0")
    assert typed("fedsim", *words).sentence(os.EX_CONFIG) == (
        "--target: give the value of the metric up to which iterations are counted, or "
        "one stop.target in the config"
    )
    done = typed("fedsim", *words, "--set", "stop.target.loss=0.05")
    assert done.status == 0
    assert json.loads(Path("out", "staleness.json").read_text())["target"] == 0.05


def test_models_that_keep_other_values_are_refused() -> None:
    write(APP + "workload = linear(local=['0.bias'])\n")
    assert "this one has batch statistics or tensors that stay" in study().sentence(
        os.EX_CONFIG
    )
    Path("numbers.py").write_text(NUMPY)
    sentence = study("--app", "numbers.py:workload").sentence(os.EX_CONFIG)
    assert "the study trains the copies of a model together" in sentence


def matrix(**rows: Mapping[int, Sequence[int | None]]) -> Matrix:
    """A matrix of these iterations, by row, staleness and seed."""
    nothing = np.empty(0)
    made = [
        Row(
            name,
            100,
            {
                (late, seed): Course(took, nothing)
                for late, each in counts.items()
                for seed, took in enumerate(each)
            },
        )
        for name, counts in rows.items()
    ]
    return Matrix("app", "accuracy", 0.9, [0, 4], 8, 32, made)


def test_the_verdict_names_who_suffers_most_and_least() -> None:
    found = matrix(
        a={0: [10, 20], 4: [20, 40]}, b={0: [10, 10], 4: [15, None]}, c={0: [None]}
    )
    cells = found.cells()
    assert cells.rows[0][:2] == ["a", "15"]
    assert cells.rows[0][2] == "2.00"
    assert cells.rows[1][2].startswith("≥ 5.75")
    assert cells.rows[2][1:] == ["≥ 100", "–"]
    assert found.verdict == (
        "with s = 4 b seems to suffer most (≥ 5.75 ± 54 times as long), a least (2.00 "
        "times), which may be chance (p = 1)"
    )
    assert [doubt.split()[0] for doubt in found.doubts] == ["Even", "Slowdowns"]
    drawn = matrix_figure(found).data[0]
    assert drawn.z[0] == [1.0, 2.0]
    assert drawn.z[2] == [None, None]
    assert drawn.zmax == 5.75


def test_the_verdict_is_certain_only_beyond_chance() -> None:
    seeds = range(8)
    a, b = ([10] * 8, [20 + n for n in seeds]), ([10] * 8, [30 + n for n in seeds])
    found = matrix(a={0: a[0], 4: a[1]}, b={0: b[0], 4: b[1]})
    assert "b suffers most (3.35 ± 0.2 times as long), a least" in found.verdict
    assert found.verdict.endswith("more than chance (p = 0.0078)")
    # Of five optimisers, any two might have been most and least.
    like = {name: {0: a[0], 4: [25] * 8} for name in "cde"}
    more = matrix(a={0: a[0], 4: a[1]}, b={0: b[0], 4: b[1]}, **like)
    assert more.verdict.endswith("may be chance (p = 0.078)")
    one = matrix(a={0: [10], 4: [11]}, b={0: [10], 4: [30]})
    assert one.verdict.endswith("a least (1.10 times), which may be chance")
    alone = matrix(a={0: [10, 10], 4: [10, 12]})
    assert alone.verdict.endswith("times as long, which may be chance")
    sure = matrix(a={0: [10, 10], 4: [20, 21]})
    assert sure.verdict == "with s = 4 a takes 2.05 ± 0.64 times as long"


def test_rows_that_were_not_begun_are_left_out() -> None:
    found = matrix(a={0: [10]}, b={})
    found.drop_unfinished()
    assert [row.name for row in found.rows] == ["a"]
    assert found.cells().rows == [["a", "10", "–"]]
