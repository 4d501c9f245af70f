"""``fedsim codecs``: what is measured, told and written."""

import json
import math
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import latecomer
from fedcore.compressors import Identity
from fedcore.coordinator.events import Leased
from fedcore.params import ParamSpec
from fedcore.rng import Key
from fedrun.config import load_config, parse_config
from fedstudies import processes, runner
from fedstudies.codecs.comparison import Comparison, Row
from fedstudies.codecs.measure import last_means, per_update, settings_of
from fedstudies.codecs.pairs import Pair, pairs_of
from fedstudies.codecs.scatter import far_off
from fedstudies.codecs.timing import (
    CodecTimes,
    PairTimes,
    codec_times,
)
from fedstudies.first_updates import Sample, first_updates
from fedstudies.runner import Task, simulate, simulate_in
from fedstudies.trial import Place, Trial
from tests.fedsim import toys
from tests.fedsim.toys import APP, settings, toy, write
from tests.integration.typed import desk, typed
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
ONE = ("--uplink", "top_k:ratio=0.2", "--downlink", "uniform:bits=4")
NOT_TIMED = CodecTimes(0.0, 0.0)
SHORT = ("--versions", "4", "--jobs", "1")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with desk(tmp_path, monkeypatch) as here:
        yield here


def numbers(folder: str) -> Any:
    return json.loads(Path(folder, "codecs.json").read_text())


# ---------------------------------------------------------------------- on a template


def test_on_the_template_two_pairs_are_measured_told_and_written() -> None:
    typed("fedsim", "new", "project", "--template", "numpy")
    words = ("codecs", "project/federation.yaml", *ONE, "--versions", "12")
    done = typed("fedsim", *words, "--jobs", "1", "-o", "out", "--tolerance", "0.9")
    assert (done.status, done.errors) == (0, [])
    first, second, *files = done.err.splitlines()
    assert first.startswith("1/2 identity up, identity down: accuracy 0.")
    assert second.startswith("2/2 top_k:ratio=0.2 up, uniform:bits=4 down: accuracy 0.")
    assert files == ["page: out/codecs.html", "numbers: out/codecs.json"]
    assert "\x1b" not in done.out + done.err
    assert "2 pairs of codecs, 12 versions, 1 seed, 650 values" in done.out

    found = numbers("out")
    assert (found["metric"], found["lower_is_better"]) == ("accuracy", False)
    assert found["recommended"] == 1
    plain, packed = found["pairs"]
    assert plain["names"] == ["identity", "identity"]
    assert packed["uplink"]["inner"] == {"kind": "top_k", "ratio": 0.2}
    assert plain["bytes_up"] == 6 + 4 * 650
    assert packed["bytes_up"] < plain["bytes_up"] / 3
    assert packed["times_fewer"] == pytest.approx(
        (plain["bytes_up"] + plain["bytes_down"])
        / (packed["bytes_up"] + packed["bytes_down"])
    )
    assert 0.3 < packed["value"] < 1
    for times in (*plain["milliseconds"].values(), *packed["milliseconds"].values()):
        assert 0 < times["encode"] < 1000
        assert 0 < times["decode"] < 1000

    *_, advice, head, uplink, downlink = done.out.splitlines()
    assert advice.startswith("take top_k:ratio=0.2 up, uniform:bits=4 down: ")
    assert yaml.safe_load("\n".join([head, uplink, downlink])) == {
        "algorithm": {k: packed[k] for k in ("uplink", "downlink")}
    }


def test_the_uncompressed_pair_is_taken_where_nothing_else_is_good_enough() -> None:
    typed("fedsim", "new", "project", "--template", "numpy")
    words = ("codecs", "project/federation.yaml", "--uplink", "top_k:ratio=0.002")
    done = typed("fedsim", *words, *SHORT, "-o", "out", "--tolerance", "0")
    assert numbers("out")["recommended"] == 0
    assert "take no compression: no pair with fewer bytes is within 0 of" in done.out


def test_without_a_config_an_app_is_federated_with_the_defaults() -> None:
    write()
    words = ("codecs", "--app", "mine.py:workload", "--set", "simulate.clients=5")
    done = typed("fedsim", *words, *ONE, *SHORT)
    assert (done.status, done.errors) == (0, [])
    lines = done.out.splitlines()
    section = yaml.safe_load("\n".join(lines[lines.index("algorithm:") :]))
    algorithm = parse_config(section).algorithm  # it can be pasted as it is
    assert algorithm.kind == "latecomer"
    assert Path("runs/latecomer-codecs-1/codecs.html").is_file()


@pytest.mark.slow
def test_the_default_grid_is_measured_whole() -> None:
    write()
    done = typed("fedsim", "codecs", "fed.yaml", *SHORT, "-o", "out")
    assert (done.status, done.errors) == (0, [])
    found = numbers("out")
    pairs = pairs_of(load_config(Path("fed.yaml")))
    assert [tuple(p["names"]) for p in found["pairs"]] == [p.names for p in pairs]
    assert sum(p["recommended"] for p in found["pairs"]) == 1
    assert [p.name for p in Path().iterdir() if p.name.startswith(".")] == []


# ------------------------------------------------------------------------------ numbers


def test_bytes_are_those_that_the_simulator_counts(tmp_path: Path) -> None:
    config = parse_config(settings(simulate={"clients": 5, "dropout": 0.3}))
    (_, pair) = pairs_of(config, ["sign_l1"], ["uniform:bits=8"])
    given = settings_of(config, pair, seed=3, versions=8)
    trial = simulate_in(tmp_path / "once", toy(), given)
    results = latecomer.run(given, toy(), folder=tmp_path / "run")
    summary = results.summary
    evaluator = sum(r.nbytes for r in results.of(Leased) if r.cid in results.evaluators)
    assert evaluator > 0
    assert trial.bytes_up == summary["bytes_up"]
    assert trial.bytes_down == summary["bytes_down"] - evaluator
    assert trial.decided == len(results.updates["bytes"])
    found = trial.evaluations()
    assert found == {name: results.central[name] for name in found}
    assert list(found) == ["version", "seconds", *trial.metrics]


def test_all_pairs_run_for_the_versions_that_were_asked_for() -> None:
    stop = {"versions": 99, "target": {"loss": 1e9}, "seconds": 0.1}
    config = parse_config(settings(stop=stop, evaluate={"every_versions": 7}))
    for pair in pairs_of(config)[:2]:
        given = settings_of(config, pair, seed=5, versions=40)
        assert given["stop"] == {"versions": 40}
        assert given["evaluate"]["every_versions"] == 2
        assert parse_config(given).seed == 5


def test_the_result_is_the_mean_over_the_last_quarter() -> None:
    metrics: dict[str, list[float | None]] = {
        "accuracy": [0.0, 0.1, 0.2, 9.0, 0.5, 0.7],
        "loss": [1.0, 1.0, 1.0, 1.0, None, 1.0],  # lost where it was infinite
    }
    trial = Trial(
        seed=0,
        versions=8,
        updates=8,
        bytes_up=0,
        bytes_down=0,
        seconds=1.0,
        places=[Place(0.0, version, 0, 0) for version in (0, 2, 4, 6, 7, 8)],
        metrics=metrics,
    )
    assert last_means(trial) == {"accuracy": pytest.approx(0.6)}
    assert last_means(replace(trial, places=[], metrics={})) == {}
    assert last_means(replace(trial, broken=True)) == {}


def test_seeds_are_told_apart_and_their_mean_is_the_result() -> None:
    write()
    typed("fedsim", "codecs", "fed.yaml", *ONE, *SHORT, "--seeds", "2", "-o", "out")
    found = numbers("out")
    assert (found["metric"], found["lower_is_better"]) == ("loss", True)
    for pair in found["pairs"]:
        assert [run["seed"] for run in pair["runs"]] == [0, 1]
        values = [run["metrics"]["loss"] for run in pair["runs"]]
        assert values[0] != values[1]
        assert pair["value"] == pytest.approx(sum(values) / 2)
    assert found["pairs"][0]["standard_error"] == 0
    assert found["pairs"][1]["standard_error"] > 0


@pytest.mark.processes
def test_the_number_of_processes_changes_nothing() -> None:
    write()
    found = []
    for jobs in (1, 2):
        words = ("codecs", "fed.yaml", *ONE, "--versions", "4", "--jobs", jobs)
        assert typed("fedsim", *words, "-o", f"out{jobs}").status == 0
        one = numbers(f"out{jobs}")
        for pair in one["pairs"]:
            del pair["milliseconds"]
        found.append(one)
    assert found[0] == found[1]


def test_times_are_medians_with_real_updates_and_the_first_one_is_left_out() -> None:
    config = parse_config(settings())
    sample = first_updates(toy(), config)
    assert sample.layout == (toys.DIM,)
    assert len(sample.deltas) == 3
    assert all(delta_D.any() for delta_D in sample.deltas)
    ticks = iter([0, 9, 19] + [x for i in range(60) for x in (i, i + 0.5, i + 0.75)])
    (_, pair) = pairs_of(config, ["top_k"], ["identity"])
    times = codec_times(pair.uplink, sample, lambda: float(next(ticks)))
    assert times == (500.0, 250.0)
    drawn_D = Key.root(0).generator().standard_normal(3).astype("f4")
    drawn = Sample(ParamSpec.of({"w": drawn_D}), [drawn_D])
    assert all(time > 0 for time in codec_times(pair.downlink, drawn))


# -------------------------------------------------------------------------- breakdowns

DIVERGING = """
import numpy as np
from tests.fedsim.toys import DIM, toy
workload = toy(gradient=lambda p, x, y: (0.0, {"w": np.full(DIM, np.nan)}))
"""


def test_a_federation_that_breaks_down_ends_and_nothing_is_recommended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(DIVERGING)
    monkeypatch.setattr(runner, "PATIENCE", 20)
    config = load_config(Path("fed.yaml"))
    (_, pair) = pairs_of(config, ["top_k"], ["identity"])
    given = settings_of(config, pair, 0, 10)
    task = Task((1, 0), "mine.py:workload", Path(), given, Path())
    trial = simulate(task)
    assert trial.broken
    assert last_means(trial) == {}
    assert math.isnan(per_update(trial.bytes_up, trial))
    assert not [path for path in Path().iterdir() if path.is_dir()]


def test_a_first_task_that_diverges_is_answered_with_a_sentence() -> None:
    write(DIVERGING)
    done = typed("fedsim", "codecs", "fed.yaml", *ONE, *SHORT)
    assert done.sentence(os.EX_CONFIG).startswith("the first task of client-0 ends in")
    assert not Path("runs").exists()


def test_a_pair_with_which_nothing_is_learnt_is_told_and_not_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write()
    whole = processes.run_all

    def breaking(*args: Any, **options: Any) -> Any:
        for task, trial in whole(*args, **options):
            lost = replace(trial, broken=True, decided=0)
            yield task, lost if task.key[0] == 1 else trial

    monkeypatch.setattr(runner, "run_all", breaking)
    done = typed("fedsim", "codecs", "fed.yaml", *ONE, *SHORT, "-o", "out")
    assert done.status == 0
    assert "nothing learnt" in done.out
    page = Path("out/codecs.html").read_text()
    assert "Not drawn, since nothing was learnt: top_k:ratio=0.2 up" in page
    assert numbers("out")["pairs"][1]["value"] is None
    assert numbers("out")["recommended"] == 0


# ----------------------------------------------------------------------------- Ctrl-C


@pytest.mark.parametrize(("after", "rows"), [(0, 0), (1, 1), (2, 2)])
def test_ctrl_c_tells_what_is_there(
    after: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    write()
    whole = processes.run_all

    def interrupted(*args: Any, **options: Any) -> Any:
        for done, found in enumerate(whole(*args, **options)):
            if done == after:
                raise KeyboardInterrupt
            yield found

    monkeypatch.setattr(runner, "run_all", interrupted)
    done = typed(
        "fedsim", "codecs", "fed.yaml", *ONE, "--uplink", "stc", *SHORT, "-o", "out"
    )
    assert (done.status, done.errors) == (0 if rows else 1, [])
    assert "stopped" in done.err.splitlines()
    assert Path("out").exists() == bool(rows)
    if rows:
        assert f"Stopped early: {rows} of 3 pairs were measured." in done.out
        assert len(numbers("out")["pairs"]) == rows
    else:
        assert "not even the uncompressed pair was measured" in done.err


@pytest.mark.processes
@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_processes_politely(which: signal.Signals) -> None:
    write()
    words = ("codecs", "fed.yaml", "--versions", "300", "--jobs", "2", "-o", "out")
    uplinks = [word for k in range(10, 40) for word in ("--uplink", f"stc:ratio=.0{k}")]
    process = subprocess.Popen(
        [sys.executable, "-m", "fedsim", *words, *uplinks],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    # The second process may be done with another pair before the uncompressed one is.
    assert any(" identity up, identity down" in line for line in process.stderr)
    os.killpg(process.pid, which)
    out, err = process.communicate(timeout=PATIENCE)  # ends when the last process has
    assert process.returncode == 0
    assert "Traceback" not in err
    assert "stopped" in err.splitlines()
    assert re.search(r"^Stopped early: \d+ of \d+ pairs were measured\.$", out, re.M)
    assert [p.name for p in Path().iterdir() if p.name.startswith(".")] == []


# ------------------------------------------------------------------------------- page


class Sources(HTMLParser):
    """What a page would load from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [v or "" for k, v in attrs if k in ("src", "href", "data")]


def test_the_page_has_all_in_itself() -> None:
    write(APP, "journal: {snapshot_records: 5}\n")
    name = "mine.py:workload"
    done = typed("fedsim", "codecs", "fed.yaml", *ONE, *SHORT, "-o", "out")
    assert done.status == 0
    page = Path("out/codecs.html").read_text()
    assert f"<h1>Codecs for {name}</h1>" in page
    sources = Sources()
    sources.feed(page)
    assert all(source.startswith("#") for source in sources.found)
    figure = re.search(
        r'<script type="application/json">(.*?)</script>', page, re.DOTALL
    )
    assert figure is not None
    drawn = json.loads(figure[1])
    assert drawn["layout"]["xaxis"]["type"] == "log"
    names = [trace["name"] for trace in drawn["data"]]
    assert {"Pareto front", "uncompressed", "the pair to take"} <= set(names)
    found = numbers("out")
    front = sorted(
        p["bytes_up"] + p["bytes_down"] for p in found["pairs"] if p["on_front"]
    )
    (line,) = [t for t in drawn["data"] if t["name"] == "Pareto front"]
    assert list(line["x"]) == pytest.approx(front)
    head = re.findall(r"<th[^>]*>([^<]*)</th>", page)
    assert head[:3] == ["uplink", "downlink", "verdict"]  # on each screen
    for pair in found["pairs"]:
        cells = page.replace("<wbr>", "")
        assert all(f">{name}</td>" in cells for name in pair["names"])


# --------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (
            ("--uplink", "topk"),
            os.EX_CONFIG,
            "--uplink topk: algorithm.uplink: unknown compressor 'topk'; did you mean "
            "'top_k'?; kinds: ",
        ),
        (
            ("--downlink", "random_k:unbiased=true"),
            os.EX_CONFIG,
            "--downlink random_k:unbiased=true: algorithm: downlink: random_k is "
            "unbiased with these settings",
        ),
        (
            ("--set", "algorithm.bufer=3"),
            os.EX_CONFIG,
            "algorithm.bufer=3: unknown key; did you mean 'buffer'?",
        ),
        (("-o", "mine.py"), os.EX_CONFIG, "--out mine.py: is a file, not a folder"),
        (("--app", "other.py:workload"), os.EX_DATAERR, "app "),
    ],
)
def test_mistakes_are_answered_before_anything_runs(
    words: tuple[str, ...], status: int, sentence: str
) -> None:
    write()
    done = typed("fedsim", "codecs", "fed.yaml", *words)
    assert done.sentence(status).startswith(sentence)
    assert not Path("runs").exists()


def test_there_must_be_an_app() -> None:
    Path("fed.yaml").write_text("seed: 1\n")
    sentence = (
        "app: is missing; the simulator needs the workload: name it in the config, or "
        "with --app module:attribute"
    )
    done = typed("fedsim", "codecs")
    assert done.sentence(os.EX_CONFIG) == sentence
    done = typed("fedsim", "codecs", "fed.yaml")
    assert done.sentence(os.EX_CONFIG) == f"fed.yaml: {sentence}"


@pytest.mark.parametrize(
    "words",
    [("--versions", "0"), ("--seeds", "0"), ("--tolerance", "-1"), ("--jobs", "0")],
)
def test_numbers_out_of_range_are_refused(words: tuple[str, ...]) -> None:
    write()
    done = typed("fedsim", "codecs", "fed.yaml", *words)
    assert done.status == 2
    assert f"Invalid value for '{words[0]}'" in done.err


def test_without_test_data_there_is_nothing_to_compare() -> None:
    write(APP + "workload = toy(test_data=None)\n")
    done = typed("fedsim", "codecs", "fed.yaml", *ONE, *SHORT)
    sentence = "app 'mine.py:workload': has no test_data to compare the pairs with"
    assert done.sentence(os.EX_DATAERR) == sentence


def test_evaluations_by_clients_do_as_well() -> None:
    write(
        APP + "workload = toy(test_data=None, valid_data=lambda c: points(c.index))\n",
        "evaluate: {clients: true}\n",
    )
    done = typed("fedsim", "codecs", "fed.yaml", *ONE, *SHORT, "-o", "out")
    assert (done.status, done.errors) == (0, [])
    assert numbers("out")["pairs"][1]["value"] > 0


@pytest.mark.processes
@pytest.mark.parametrize("jobs", [1, 2])
def test_user_code_that_raises_ends_with_its_traceback(jobs: int) -> None:
    write(
        "from tests.fedsim.toys import toy\n"
        "def evaluate(params, x, y):\n"
        "    raise ArithmeticError('too steep')\n"
        "workload = toy(evaluate=evaluate)\n"
    )
    words = ("codecs", "fed.yaml", *ONE, "--versions", "4", "--jobs", jobs)
    done = typed("fedsim", *words)
    assert done.status == os.EX_SOFTWARE
    assert done.errors == ["evaluation raised ArithmeticError: too steep"]
    assert 'mine.py", line 3, in evaluate' in done.err


def test_a_pair_that_learns_little_does_not_squeeze_the_others() -> None:
    worse_by = np.array([0.0, 0.002, 0.01, 0.4, 0.01, 0.5, np.nan])
    front = [True, False, False, False, False, True, False]
    assert far_off(worse_by, front, 0.005) == [3]  # 5 is on the front: it stays
    assert far_off(worse_by[:3], front[:3], 0.005) == []
    assert far_off(worse_by[-1:], [False], 0.005) == []


@pytest.mark.parametrize(
    ("scores", "says"),
    [
        ([(0.9,), (0.88,)], "0.0200 worse than uncompressed, which may be chance"),
        ([(0.9,), (0.9,)], "as good as uncompressed, which may be chance"),
        (
            [(0.9, 0.92), (0.91, 0.90)],
            "0.0050 ± 0.0300 worse than uncompressed, which may be chance",
        ),
        (
            [(0.9, 0.92), (0.80, 0.821)],
            "0.0995 ± 0.0010 worse than uncompressed",
        ),
    ],
)
def test_what_compression_costs_is_told_with_its_chance(
    scores: list[tuple[float, ...]], says: str
) -> None:
    def trial(value: float) -> Trial:
        place = Place(1.0, 1, 1, 1)
        return Trial(
            seed=0,
            versions=1,
            updates=1,
            bytes_up=1,
            bytes_down=1,
            seconds=1.0,
            places=[place],
            metrics={"accuracy": [value]},
        )

    plain, untimed = Pair(Identity(), Identity()), PairTimes(NOT_TIMED, NOT_TIMED)
    rows = tuple(Row(plain, tuple(map(trial, each)), untimed) for each in scores)
    told = Comparison("app", None, 1, 1, len(scores[0]), 0.2, rows, 2)
    assert told.against(1) == says
