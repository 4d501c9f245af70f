"""The commands ``fedsim run``, ``new`` and ``data``."""

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from fedrun.config import load_config
from fedrun.run import open_run
from fedview.results import Results
from tests.fedsim import toys
from tests.fedsim.toys import APP, write
from tests.integration.typed import WORKLOAD, desk, typed

NEEDS = {"numpy": "numpy", "sklearn": "sklearn", "torch": "torch"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with desk(tmp_path, monkeypatch) as here:
        yield here


@pytest.mark.parametrize("kind", ["numpy", "sklearn", "torch"])
def test_a_new_project_runs_as_it_is(
    kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not find_spec(NEEDS[kind]):
        pytest.skip(f"{kind} is not installed")
    if kind == "torch":
        import torch

        torch.set_num_threads(1)  # where others work too, two wait for each other
    made = typed("fedsim", "new", "project", "--template", kind)
    assert made.out.splitlines() == [
        "project/README.md",
        "project/federation.yaml",
        "project/my_app.py",
        "now: cd project && fedsim run federation.yaml",
    ]
    monkeypatch.chdir(folder / "project")
    assert typed("fedserver", "check", "federation.yaml").status == 0
    # All as it is, except that it ends sooner.
    done = typed("fedsim", "run", "federation.yaml", "--set", "stop.versions=20")
    assert (done.status, done.errors) == (0, [])
    results = Results(Path("runs/digits-sim-1"))
    assert results.summary["clients"] == 20
    accuracy = results.central["accuracy"]
    assert accuracy[-1] > accuracy[0] + 0.2
    assert (results.folder / "report.html").is_file()


def test_off_a_terminal_progress_is_lines_without_escape_codes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fedsim.progress.INTERVAL", 0.0)
    write()
    done = typed("fedsim", "run", "fed.yaml")
    assert done.status == 0
    run = Path.cwd() / "runs/latecomer-sim-1"
    *lines, tables, report = done.err.splitlines()
    assert [line.split()[:2] for line in lines] == [
        [f"{version}/6", "versions"] for version in range(1, 7)
    ]
    assert "loss 0." in lines[-1]
    assert lines[2].endswith(" left")
    assert tables.startswith(f"tables: {run / 'tables'} (CSV")
    assert report == f"report: {run / 'report.html'}"
    assert "ended: 6" in done.out
    assert "\x1b" not in done.out + done.err


def test_the_last_lines_say_what_came_of_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    write()
    done = typed("fedsim", "run", "fed.yaml")
    assert "client-1" not in done.out  # bytes by client are in the report
    metric = Results(Path("runs/latecomer-sim-1")).central["loss"][-1]
    last = done.out.splitlines()[-1]
    assert last.startswith(f"mine.py:workload: loss {metric:.4g}; ")


def test_on_a_terminal_there_is_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    write()
    done = typed("fedsim", "run", "fed.yaml", "--no-report")
    assert done.status == 0
    assert "versions" in done.err
    assert "6/6" in done.err
    assert "report:" not in done.err


def test_a_change_on_the_command_line_counts() -> None:
    write()
    words = ("--set", "stop.versions=2", "--set", "seed=3", "-o", "here")
    assert typed("fedsim", "run", "fed.yaml", "--no-report", *words).status == 0
    results = Results(Path("here"))
    assert results.summary["versions"] == 2
    assert results.configured.seed == 3


def test_another_process_with_another_hash_seed_makes_the_same_model(
    folder: Path,
) -> None:
    write()
    words = ("run", "fed.yaml", "--no-report", "-o")
    assert typed("fedsim", *words, "here").status == 0
    subprocess.run(
        [sys.executable, "-m", "fedsim", *words, "there"],
        env={
            **os.environ,
            "PYTHONHASHSEED": "7",
            "PYTHONPATH": str(Path(__file__).parents[3]),
        },
        check=True,
        capture_output=True,
    )
    here, there = (toys.digests(toys.records(folder / n)) for n in ("here", "there"))
    assert here == there


def test_data_are_told_to_every_client_as_in_a_deployment() -> None:
    write(
        APP + "def train_data(client):\n"
        "    return points(len(client.args['site']) + int(client.args['size']))\n"
        "workload = toy(train_data=train_data)\n"
    )
    words = ("--data", "site=a=b", "--set", "simulate.args.size=5")
    done = typed("fedsim", "run", "fed.yaml", "--no-report", *words)
    assert (done.status, done.errors) == (0, [])
    told = Results(Path("runs/latecomer-sim-1")).configured.config["simulate"]["args"]
    assert told == {"size": "5", "site": "a=b"}
    shared = typed("fedsim", "data", "--app", "mine.py:workload", "--data", "site=x")
    assert shared.status == os.EX_SOFTWARE  # KeyError: 'size' is not given here
    assert "KeyError: 'size'" in shared.errors[0]
    for wrong in ("site", "=x", "a.b=c"):
        done = typed("fedsim", "run", "fed.yaml", "--data", wrong)
        assert done.sentence(os.EX_CONFIG).startswith(f"--data {wrong}: ")


def test_the_app_is_named_in_the_same_way_everywhere() -> None:
    write("from tests.fedsim.toys import toy\nother = toy()\n")
    named = ("--app", "mine.py:other", "--no-report")
    assert typed("fedsim", "run", "fed.yaml").status == os.EX_DATAERR
    assert typed("fedsim", "run", "fed.yaml", *named).status == 0
    assert typed("fedsim", "data", *named[:2]).status == 0
    assert typed("fedclient", "model", *named[:2]).status == 0
    assert (
        typed("fedclient", "evaluate-file", *named[:2], "model.safetensors").status == 0
    )
    done = typed("fedsim", "data")
    assert done.status == 2
    assert "say --app MODULE:ATTRIBUTE" in done.err


def test_a_run_that_failed_before_its_first_version_does_not_block_its_folder() -> None:
    write(
        "from tests.fedsim.toys import toy\n"
        "def gradient(params, x, y):\n"
        "    raise ArithmeticError('too steep')\n"
        "workload = toy(gradient=gradient)\n"
    )
    words = ("run", "fed.yaml", "--no-report", "-o", "here")
    assert typed("fedsim", *words).status == os.EX_SOFTWARE
    Path("here/notes.txt").write_text("mine")
    named = ("--app", "better.py:workload")
    Path("better.py").write_text(APP)
    assert typed("fedsim", *words, *named).status == 0
    assert Results(Path("here")).summary["versions"] == 6
    assert Path("here/notes.txt").read_text() == "mine"
    again = typed("fedsim", *words, *named)
    assert again.sentence(os.EX_CONFIG) == (
        "here: holds a run already; name another folder, or go on with it (--resume)"
    )


def test_the_run_of_a_server_is_never_taken_for_one_that_failed() -> None:
    write()
    config = load_config(Path("fed.yaml"), ["server.journal=here"])
    assert typed("fedclient", "model", "--app", "mine.py:workload").status == 0
    open_run(config, 0.0).journal.close()
    done = typed("fedsim", "run", "fed.yaml", "-o", "here")
    assert "holds a run already" in done.sentence(os.EX_CONFIG)


def test_user_code_that_raises_everywhere_ends_with_its_traceback() -> None:
    write(
        "from tests.fedsim.toys import toy\n"
        "def gradient(params, x, y):\n"
        "    raise ArithmeticError('too steep')\n"
        "workload = toy(gradient=gradient)\n"
    )
    done = typed("fedsim", "run", "fed.yaml")
    assert done.status == os.EX_SOFTWARE
    assert len(done.errors) == 1
    assert done.errors[0].endswith("training raised ArithmeticError: too steep")
    assert 'mine.py", line 3, in gradient' in done.err


# ------------------------------------------------------------------ fedsim data


def test_who_holds_what_is_a_table_and_a_page() -> None:
    done = typed(
        "fedsim", "data", "--app", WORKLOAD, "--clients", "5", "-o", "out/data.html"
    )
    assert done.status == 0
    assert [f"client-{i}" in done.out for i in range(6)] == [True] * 5 + [False]
    assert done.err.split() == ["page:", "out/data.html"]
    page = Path("out/data.html").read_text()
    assert "5 clients hold 1,347 samples" in page
    assert page.lstrip().lower().startswith("<!doctype html>")


def test_data_without_labels_are_counted_alone() -> None:
    write()
    done = typed("fedsim", "data", "--app", "mine.py:workload", "--clients", "3")
    assert done.status == 0
    page = Path("data.html").read_text()
    assert "3 clients hold 24 samples: 8 to 8 each" in page
    assert "There are no integer labels to count." in page


def test_the_data_of_an_own_training_loop_are_counted_too() -> None:
    write(
        "from tests.fedsim.toys import toy\n"
        "workload = toy(gradient=None, train=print,\n"
        "               train_data=lambda client: ['a text'] * (client.index + 1))\n"
    )
    done = typed("fedsim", "data", "--app", "mine.py:workload", "--clients", "3")
    assert done.status == 0
    assert "3 clients hold 6 samples: 1 to 3 each" in Path("data.html").read_text()


@pytest.mark.parametrize(
    ("data", "status", "sentence"),
    [
        (
            "points(1, 0)",
            os.EX_DATAERR,
            "train_data of client-0 returned no samples",
        ),
        (
            "None",
            os.EX_DATAERR,
            "train_data of client-0 returned NoneType; expected (x, y), "
            "Subset(x, y, rows) or a data set with len() and [i]",
        ),
        (
            "1 / 0",
            os.EX_SOFTWARE,
            "train_data of client-0 raised ZeroDivisionError: division by zero",
        ),
    ],
)
def test_data_that_cannot_be_counted_are_refused(
    data: str, status: int, sentence: str
) -> None:
    write(APP + f"workload = toy(train_data=lambda client: {data})\n")
    done = typed("fedsim", "data", "--app", "mine.py:workload")
    assert (done.status, done.errors) == (status, [sentence])


def test_more_clients_than_samples_are_refused() -> None:
    done = typed("fedsim", "data", "--app", WORKLOAD, "--clients", "5000")
    sentence = "1347 rows cannot be shared out among 5000 clients"
    assert done.sentence(os.EX_CONFIG) == sentence


@pytest.mark.processes
def test_kernels_that_do_not_exist_are_a_setting_like_any_other() -> None:
    command = "from fedsim.cli import main; main(['run', 'federation.yaml'])"
    done = subprocess.run(
        [sys.executable, "-c", command],
        env={"LATECOMER_KERNELS": "cython", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == os.EX_CONFIG
    choices = "'numpy', 'compiled' or nothing"
    assert done.stderr == f"error: LATECOMER_KERNELS is 'cython', expected {choices}\n"
