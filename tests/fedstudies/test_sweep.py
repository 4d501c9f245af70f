"""``fedsim sweep``: what is simulated, what is known already, what is told."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import latecomer
from fedrun.app import FRAMEWORKS
from fedrun.config import load_config
from fedstudies import processes, runner
from fedstudies.cache import identity, sources
from fedstudies.curves import band, curves_figure
from fedstudies.sweep.outcome import Row, SweepOutcome
from fedstudies.sweep.points import (
    Axis,
    Point,
    Span,
    axes_of,
    points_of,
    read_grid,
    read_ranges,
    short_names,
    spans_of,
)
from fedstudies.trial import Group, Place, Trial, read_trial
from tests.fedsim.toys import APP, settings, toy, write
from tests.integration.typed import Ended, desk, typed
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
GRID = ("--grid", "algorithm.buffer=1,2")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with desk(tmp_path, monkeypatch) as here:
        yield here


def sweep(*words: object) -> Ended:
    return typed("fedsim", "sweep", "fed.yaml", "--jobs", "1", "-o", "out", *words)


def rows(name: str) -> list[dict[str, str]]:
    with Path("out", f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def simulated(done: Ended) -> list[str]:
    """The lines of the runs that were simulated."""
    lines = done.err.splitlines()
    return [line for line in lines if re.match(r"\d+/\d+ ", line)]


# ---------------------------------------------------------------------------- points


def test_a_grid_is_all_combinations() -> None:
    typed = ("algorithm.buffer=4,8", "a.codecs=[1,2],{k: 1, l: 2}")
    points = points_of(axes_of(read_grid("--grid", typed)), [], None, seed=0)
    assert [[*point.changes.items()] for point in points] == [
        [("algorithm.buffer", "4"), ("a.codecs", "[1,2]")],
        [("algorithm.buffer", "4"), ("a.codecs", "{k: 1, l: 2}")],
        [("algorithm.buffer", "8"), ("a.codecs", "[1,2]")],
        [("algorithm.buffer", "8"), ("a.codecs", "{k: 1, l: 2}")],
    ]
    assert points_of([], [], None, 0)[0].changes == {}


def test_draws_stay_when_more_are_drawn_or_a_field_is_added() -> None:
    typed = ("a.lr=log:0.01:1", "a.steps=int:1:9")
    lr, steps = spans_of(read_ranges("--range", typed))
    few = points_of([], [lr], 5, seed=3)
    more = points_of([Axis("b", ("x", "y"))], [steps, lr], 9, seed=3)
    assert [p.settings[0] for p in few] == [p.settings[2] for p in more[:5]]
    assert points_of([], [lr], 5, seed=4) != few


@pytest.mark.parametrize("scale", ["linear", "log", "int"])
def test_draws_lie_in_their_range_and_fill_it(scale: str) -> None:
    span = Span("x", scale, 2, 50)
    points = points_of([], [span], 300, seed=0)
    values = [float(value) for point in points for _, value in point.settings]
    assert 2 <= min(values) < 5
    assert 40 < max(values) <= 50
    middle = sum(value < 10 for value in values) / len(values)
    assert middle == pytest.approx({"log": 0.5}.get(scale, 8 / 48), abs=0.1)
    if scale == "int":
        assert sorted(map(int, values)) == list(range(2, 51))  # each once


def test_small_draws_are_numbers_for_yaml() -> None:
    import yaml

    for point in points_of([], [Span("x", "log", 1e-9, 1e-5)], 50, seed=0):
        assert isinstance(point.changes["x"], float)
        assert yaml.safe_load(point.texts["x"]) == point.changes["x"]


def test_names_are_as_short_as_they_can_be() -> None:
    assert short_names(["algorithm.client.lr", "algorithm.server.lr", "seed"]) == {
        "algorithm.client.lr": "client.lr",
        "algorithm.server.lr": "server.lr",
        "seed": "seed",
    }


# ------------------------------------------------------------------------ the results


def test_every_point_is_measured_with_every_seed_and_the_best_comes_first() -> None:
    write()
    done = sweep(*GRID, "--grid", "algorithm.client.lr=0.001,0.05", "--seeds", "3")
    assert (done.status, done.errors) == (0, [])
    assert len(simulated(done)) == 12
    table = rows("table")
    assert len(table) == 4
    finals = [float(row["final_loss_mean"]) for row in table]
    assert finals == sorted(finals)  # a loss should fall
    assert table[0]["algorithm.client.lr"] == "0.05"
    *_, verdict = done.out.splitlines()
    assert verdict.startswith("best: buffer=")
    assert "over 3 seeds" in verdict
    assert "mine.py:workload: 4 points, 3 seeds each, 12 runs" in done.out


def test_a_run_of_a_sweep_is_the_run_of_the_simulator(tmp_path: Path) -> None:
    write()
    sweep(*GRID, "--seeds", "2")
    (row,) = [
        r for r in rows("runs") if (r["algorithm.buffer"], r["seed"]) == ("1", "1")
    ]
    changes = ("algorithm.buffer=1", "seed=1")
    config = load_config(Path("fed.yaml"), changes)
    results = latecomer.run(config, toy(), folder=tmp_path / "alone")
    assert float(row["final_loss"]) == results.central["loss"][-1]
    assert float(row["best_loss"]) == results.best["loss"][0]
    assert int(row["updates"]) == results.summary["accepted"]
    assert int(row["bytes_up"]) == results.summary["bytes_up"]
    assert float(row["seconds"]) == results.seconds
    curve = [
        r for r in rows("curves") if (r["algorithm.buffer"], r["seed"]) == ("1", "1")
    ]
    assert [int(r["version"]) for r in curve] == results.central["version"]
    assert [float(r["loss"]) for r in curve] == results.central["loss"]
    assert int(curve[-1]["bytes"]) <= int(row["bytes_up"]) + int(row["bytes_down"])


def test_a_mean_and_its_interval_are_those_of_the_seeds() -> None:
    write()
    sweep("--seeds", "3")
    finals = [float(row["final_loss"]) for row in rows("runs")]
    (row,) = rows("table")
    mean = sum(finals) / 3
    deviation = (sum((v - mean) ** 2 for v in finals) / 2) ** 0.5
    assert float(row["final_loss_mean"]) == pytest.approx(mean)
    half = float(row["final_loss_half_width_95"])
    assert half == pytest.approx(4.3027 * deviation / 3**0.5, rel=1e-4)
    assert float(row["versions_half_width_95"]) == 0


@pytest.mark.needs("pyarrow")
def test_tables_are_parquet_as_well() -> None:
    parquet = import_module("pyarrow.parquet")
    write()
    assert "(CSV and Parquet)" in sweep(*GRID).err
    table = parquet.read_table("out/table.parquet").to_pydict()
    assert sorted(table["algorithm.buffer"]) == [1, 2]


# ------------------------------------------------------------------ known from before


def test_what_is_done_is_not_simulated_again() -> None:
    write()
    first = sweep(*GRID, "--seeds", "2")
    again = sweep(*GRID, "--seeds", "2")
    assert len(simulated(first)) == 4
    assert simulated(again) == []
    assert "known from before: 4 runs of 4" in again.err
    assert again.out == first.out


def test_an_extended_sweep_simulates_what_is_new() -> None:
    write()
    sweep(*GRID, "--seeds", "2")
    more = sweep("--grid", "algorithm.buffer=1,2,3", "--seeds", "3")
    assert len(simulated(more)) == 9 - 4
    assert len(rows("runs")) == 9
    assert len(simulated(sweep(*GRID, "--fresh"))) == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda: Path("mine.py").write_text(APP + "# another line\n"),
        lambda: Path("beside.py").write_text("OFFSET = 1\n"),
        lambda: write(APP + "import beside\n", "timeouts: {lease: 500}\n"),
    ],
    ids=["app", "beside", "config"],
)
def test_what_has_changed_is_simulated_again(change: Any) -> None:
    Path("beside.py").write_text("OFFSET = 0\n")
    write(APP + "import beside\n")
    sys.path.insert(0, str(Path.cwd()))
    assert len(simulated(sweep())) == 1
    change()
    assert len(simulated(sweep())) == 1


def test_where_a_run_lies_does_not_matter() -> None:
    write()
    sweep()
    assert simulated(sweep("--set", "server.journal=elsewhere/run")) == []


def test_a_digest_depends_on_the_code_and_the_program() -> None:
    write()
    config = load_config(Path("fed.yaml"))
    other = load_config(Path("fed.yaml"), ("seed=1",))
    found = {
        identity(config, "a", "b"),
        identity(config, "x", "b"),
        identity(config, "a", "x"),
        identity(other, "a", "b"),
    }
    assert len(found) == 4


def test_the_digest_of_an_app_of_another_framework_is_that_of_its_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[Path] = []

    class Other:
        code = "a"

        def load_app(self, name: str, folder: Path, *, fresh: bool = False) -> None:
            assert name == "other:app"

        def code_hash(self, name: str, folder: Path) -> str:
            seen.append(folder)
            return self.code

    other = Other()
    monkeypatch.setitem(FRAMEWORKS, "other", "other_framework")
    monkeypatch.setitem(sys.modules, "other_framework", other)
    before = sources("other:app", tmp_path)
    assert before == sources("other:app", tmp_path)
    other.code = "b"
    assert before != sources("other:app", tmp_path)
    assert {*seen} == {tmp_path}


def test_a_damaged_file_is_named() -> None:
    write()
    sweep()
    (path,) = Path("out/runs").glob("*.json")
    path.write_text("{")
    assert sweep().sentence(os.EX_CONFIG).startswith(f"{path}: is not the run of a sw")


def test_run_folders_are_kept_if_that_is_asked_for() -> None:
    write()
    sweep()
    assert [p.suffix for p in Path("out/runs").iterdir()] == [".json"]
    assert len(simulated(sweep("--keep"))) == 1
    (kept,) = (p for p in Path("out/runs").iterdir() if p.is_dir())
    assert (kept / "journal.db").exists() or any(kept.iterdir())
    assert simulated(sweep("--keep")) == []


@pytest.mark.processes
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "there is nothing to sweep (--grid, --range)"),
        (("--grid", "algorithm.client.lr=0.1"), "this is one of algorithm.client.lr"),
    ],
)
def test_a_sweep_of_other_fields_is_not_overwritten(
    words: tuple[str, ...], sentence: str
) -> None:
    write()
    sweep("--grid", "algorithm.buffer=1,2")
    before = rows("table")
    refused = sweep(*words).sentence(os.EX_CONFIG)
    assert refused == (
        f"out: holds a sweep of algorithm.buffer, and {sentence}; "
        "give another folder (--out)"
    )
    assert rows("table") == before
    assert sweep(*words, "-o", "other").status == 0


@pytest.mark.processes
def test_the_number_of_processes_changes_nothing() -> None:
    write()
    for jobs in ("1", "2"):
        words = ("sweep", "fed.yaml", *GRID, "--seeds", "2", "--jobs", jobs)
        assert typed("fedsim", *words, "-o", f"out{jobs}").status == 0
    for name in ("table.csv", "runs.csv", "curves.csv", "sweep.json"):
        one, two = (Path(f"out{jobs}", name).read_bytes() for jobs in (1, 2))
        assert one == two


# ------------------------------------------------------------------------------ errors

SOMETIMES = """
from tests.fedsim.toys import gradient, toy
def failing(params, x, y):
    if abs(float(params["w"].sum())) > 1e3:
        raise ArithmeticError("too steep")
    return gradient(params, x, y)
workload = toy(gradient=failing)
"""


def test_an_error_of_one_run_does_not_end_the_sweep() -> None:
    write(SOMETIMES)
    words = ("--grid", "algorithm.client.lr=100,0.05", "--seeds", "2")
    done = sweep(*words)
    assert done.status == 0
    assert "training raised ArithmeticError: too steep" in done.err
    assert 'mine.py", line 5, in failing' in done.err
    good, bad = rows("table")
    assert (good["algorithm.client.lr"], good["failed"]) == ("0.05", "0")
    assert (bad["runs"], bad["failed"], bad["final_loss_mean"]) == ("0", "2", "")
    assert "2 failed" in done.out
    assert len(simulated(sweep(*words))) == 2  # they are tried again


def test_where_every_run_fails_the_sweep_has_failed() -> None:
    write(SOMETIMES)
    done = sweep("--grid", "algorithm.client.lr=100")
    assert done.status == os.EX_SOFTWARE
    (error,) = done.errors
    assert error.startswith("every run of the sweep ended with an error: client-")


def test_values_that_do_not_fit_together_are_left_out() -> None:
    write()
    grid = ("--grid", "algorithm.buffer=2,3", "--grid", "algorithm.minimum=1,3")
    done = sweep("--set", "algorithm.deadline=60", *grid)
    assert done.status == 0
    assert "buffer=2 minimum=3: is left out: " in done.err
    assert "minimum 3 is above buffer 2" in done.err
    points = {(row["algorithm.buffer"], row["algorithm.minimum"])
              for row in rows("table")}  # fmt: skip
    assert points == {("2", "1"), ("3", "1"), ("3", "3")}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ("--grid", "algorithm.bufer=3"),
            "--grid algorithm.bufer: algorithm.bufer=3: unknown key",
        ),
        (
            ("--grid", "algorithm.buffer=1,x"),
            "--grid algorithm.buffer: algorithm.buffer=x: should be",
        ),
        (
            ("--random", "8", "--range", "algorithm.buffer=int:-5:5"),
            "--range algorithm.buffer: algorithm.buffer=-",
        ),
        (("--grid", "algorithm.buffer"), "--grid algorithm.buffer: expected field=val"),
        (("--grid", "a=1,,2"), "--grid a=1,,2: expected field=value"),
        (("--grid", "seed=1,2"), "--grid seed=1,2: the option --seeds sets the seeds"),
        ((*GRID, *GRID), "algorithm.buffer is named twice by --grid and --range"),
        (("--range", "a=log:1:2"), "--range needs --random N, the number of points"),
        (("--random", "3"), "--random needs --range or --grid"),
        (("--range", "a=log:0:1"), "--range a=log:0:1: a log range begins above 0"),
        (("--range", "a=int:0:1.5"), "--range a=int:0:1.5: an int range has whole num"),
        (("--range", "a=gauss:0:1"), "--range a=gauss:0:1: expected field=SCALE:LOW:"),
        (("--range", "a=linear:2:1"), "--range a=linear:2:1: expected field=SCALE"),
        (("-o", "mine.py"), "--out mine.py: is a file, not a folder"),
    ],
)
def test_mistakes_are_answered_before_anything_runs(
    words: tuple[str, ...], sentence: str
) -> None:
    write()
    done = typed("fedsim", "sweep", "fed.yaml", "--jobs", "1", *words)
    assert done.sentence(os.EX_CONFIG).startswith(sentence)
    assert not Path("runs").exists()


def test_a_metric_that_nobody_measures_is_named_before_anything_runs() -> None:
    write()
    done = sweep("--metric", "accuracy")
    assert done.status == os.EX_DATAERR
    assert done.errors == ["--metric accuracy: was not measured; measured: loss"]
    assert not Path("out").exists()
    assert len(simulated(sweep("--metric", "loss"))) == 1


def test_without_test_data_there_is_nothing_to_compare() -> None:
    write(APP + "workload = toy(test_data=None)\n")
    sentence = "app 'mine.py:workload': has no test_data to compare the points with"
    assert sweep().sentence(os.EX_DATAERR) == sentence


# ------------------------------------------------------------------------------ Ctrl-C


def test_ctrl_c_keeps_what_is_done_and_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write()
    whole = processes.run_all

    def interrupted(*args: Any, **options: Any) -> Any:
        for done, found in enumerate(whole(*args, **options)):
            if done == 3:
                raise KeyboardInterrupt
            yield found

    monkeypatch.setattr(runner, "run_all", interrupted)
    done = sweep(*GRID, "--seeds", "2")
    assert (done.status, done.errors) == (0, [])
    assert (
        "stopped: 3 runs of 4 done and kept; the same command goes on with the other 1"
        in done.err.splitlines()
    )
    assert "2 points, 2 seeds each, 4 runs, 3 done" in done.out
    monkeypatch.setattr(runner, "run_all", whole)
    assert len(simulated(sweep(*GRID, "--seeds", "2"))) == 1
    assert [p.name for p in Path("out").iterdir() if p.name.startswith(".")] == []


@pytest.mark.processes
def test_a_signal_ends_all_processes_politely() -> None:
    write()
    words = ("--set", "stop.versions=200", "--seeds", "60", "--jobs", "2", "-o", "out")
    process = subprocess.Popen(
        [sys.executable, "-m", "fedsim", "sweep", "fed.yaml", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    assert any(line.startswith("2/60 ") for line in process.stderr)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert "Traceback" not in err
    assert "done and kept; the same command goes on" in err
    assert len(list(Path("out/runs").glob("*.json"))) >= 2


# ------------------------------------------------------------------------- plot, page


def trial(seed: int, values: list[float | None], step: float = 1.0) -> Trial:
    """A run with an evaluation at each version."""
    places = [Place(step * v, v, 2 * v, 100 * v) for v in range(len(values))]
    return Trial(
        seed=seed,
        versions=len(values) - 1,
        updates=2 * len(values),
        bytes_up=50 * len(values),
        bytes_down=50 * len(values),
        seconds=step * len(values),
        places=places,
        metrics={"accuracy": values},
    )


def group(name: str, *trials: Trial) -> Group:
    return Group(name, {each.seed: each for each in trials})


def outcome(*finals: list[float]) -> SweepOutcome:
    """Points with these results by seed, the best one first."""
    rows = [
        Row(
            f"lr={place}",
            {seed: trial(seed, [value]) for seed, value in enumerate(values)},
            place,
            Point((("lr", str(place)),)),
            0,
        )
        for place, values in enumerate(finals)
    ]
    count = len(finals[0])
    return SweepOutcome("app", "accuracy", {"lr": "lr"}, count, 1, tuple(rows))


def test_a_best_point_that_may_be_chance_is_called_that_and_not_marked() -> None:
    seeds = range(8)
    best, near, far = ([0.9 - less + 0.01 * n for n in seeds] for less in (0, 0, 0.3))
    near[0] -= 0.02
    clear, chance = outcome(best, far), outcome(best, near, far)
    assert clear.is_clear
    assert clear.verdict.endswith("over 8 seeds")
    assert not chance.is_clear
    assert [row.name for row in chance.rivals] == ["lr=1"]
    assert chance.verdict.endswith("it may be chance that lr=1 is not as good")
    assert "may be chance" in chance.doubts[0]
    one = outcome([0.9], [0.5], [0.4])
    assert one.verdict.endswith("it may be chance that 2 others are not as good")
    for found, is_marked in ((clear, True), (chance, False), (one, False)):
        console = Console(record=True, width=140, force_terminal=True)
        *_, part = found.findings().parts
        assert part.table is not None
        console.print(part.table.on_screen(highlighted=part.highlighted))
        assert ("[1;32m" in console.export_text(styles=True)) is is_marked


def test_a_band_is_the_mean_with_its_interval_where_all_runs_were() -> None:
    runs = [trial(0, [0.0, 0.49, 0.8]), trial(1, [0.0, 0.51, 0.8, 0.9])]
    found = band(runs, "accuracy", "version")
    assert found is not None
    assert list(found.over) == [0, 1, 2]
    assert list(found.mean) == pytest.approx([0.0, 0.5, 0.8])
    assert list(found.high - found.mean) == pytest.approx(
        [0, 12.7062 * 0.01, 0], rel=1e-4
    )


def test_over_time_a_run_is_a_straight_line_between_two_evaluations() -> None:
    found = band(
        [trial(0, [0.0, 0.4], 2.0), trial(1, [0.0, 0.4], 4.0)], "accuracy", "seconds"
    )
    assert found is not None
    assert list(found.over) == [0.0, 2.0]
    assert list(found.mean) == pytest.approx([0.0, 0.3])


def test_what_was_lost_is_not_drawn() -> None:
    assert band([trial(0, [None, None])], "accuracy", "version") is None
    found = band([trial(0, [0.1, None, 0.3])], "accuracy", "version")
    assert found is not None
    assert list(found.over) == [0, 2]


def test_a_figure_has_three_columns_and_a_name_for_each_group() -> None:
    runs = [trial(0, [0.0, 0.4, 0.8]), trial(1, [0.0, 0.6, 0.8])]
    figure = curves_figure([group("<a>", *runs), group("b", runs[0])], "accuracy", 0.7)
    names = [trace.name for trace in figure.data if trace.showlegend]
    assert names == ["&lt;a&gt;", "b"]
    assert len(figure.data) == 3 * (2 + 1)  # a band and a line; a line


def test_a_figure_has_no_dots_where_there_are_lines() -> None:
    runs = [trial(0, [0.0, 0.4, 0.8]), trial(1, [0.0, 0.6, 0.8])]
    groups = [group("two", *runs), group("once measured", trial(0, [0.5]))]
    figure = curves_figure(groups, "accuracy")
    assert {(len(trace.x) > 1, trace.mode) for trace in figure.data} == {
        (True, "lines"),
        (False, "markers"),  # a line of one point would not be seen
    }


def test_neither_bands_nor_axes_leave_what_an_accuracy_can_be() -> None:
    runs = [trial(0, [0.0, 0.2, 0.9]), trial(1, [0.1, 0.9, 1.0])]
    figure = curves_figure([group("a", *runs)], "accuracy", target=0.95)
    values = np.concatenate([np.asarray(trace.y) for trace in figure.data])
    assert (values.min(), values.max()) == (0.0, 1.0)
    low, high = figure.layout.yaxis.range
    assert -0.03 < low < 0
    assert 1 < high < 1.03


def test_a_plot_with_many_curves_is_not_squeezed_by_its_legend() -> None:
    groups = [group(f"point {i}", trial(0, [0.0, 0.5])) for i in range(8)]
    layout = curves_figure(groups, "accuracy").layout
    assert layout.margin.t + layout.margin.b <= 0.3 * layout.height
    assert layout.legend.yref == "paper"  # it makes room for itself


def test_a_trial_survives_its_file() -> None:
    one = trial(3, [0.5, None])
    assert Trial.from_json(json.loads(json.dumps(one.as_json()))) == one
    assert one.final("accuracy") != one.final("accuracy")  # lost
    assert one.best("accuracy") == 0.5
    assert one.reach("accuracy", 0.5) == one.places[0]
    assert one.reach("accuracy", 0.6) is None


def test_what_a_trial_counts_is_what_a_run_holds(tmp_path: Path) -> None:
    results = latecomer.run(settings(), toy(), folder=tmp_path / "run")
    found = read_trial(results)
    assert found.places[0] == (0.0, 0, 0, found.places[0].nbytes)
    assert found.places[-1].updates == results.summary["accepted"]
    assert found.places[-1].version == found.versions == 8


def test_the_page_has_all_in_itself() -> None:
    write()
    sweep(*GRID, "--seeds", "2")
    page = Path("out/sweep.html").read_text()
    assert "<h1>Sweep of mine.py:workload</h1>" in page
    assert "Best: buffer=" in page
    assert page.count('<figure class="plot"') == 1
    assert "<link" not in page
