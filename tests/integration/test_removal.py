"""A client's contribution is removed, and the federation goes on without it."""

import json
from pathlib import Path

import numpy as np
import pytest

from fedrun.files import load_model
from tests.fedview.what_if.federation import APP, HARMFUL, simulated
from tests.integration.typed import typed

pytestmark = pytest.mark.processes
CONFIG = """
app: mine.py:workload
algorithm: {kind: fed_buff, buffer: 2, client: {kind: local_sgd, lr: 0.3, steps: 4}}
stop: {versions: 6}
simulate: {clients: 3, engine: {kind: exact}}
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(APP)
    Path("fed.yaml").write_text(CONFIG)
    return simulated(tmp_path / "run")


@pytest.mark.quick
def test_a_federation_goes_on_from_the_model_without_a_client(run: Path) -> None:
    out = Path("without.safetensors")
    done = typed("fedserver", "journal", "replay", run, "--without", HARMFUL, "-o", out)
    assert done.status == 0, done.err
    assert f"{out}: the model of the replay" in done.out
    done = typed("fedsim", "run", "fed.yaml", "--set", f"model={out}")
    assert done.status == 0, done.err
    _, replayed_D = load_model(out)
    (begun,) = Path("runs").glob("**/models/initial.safetensors")
    _, begun_D = load_model(begun)
    np.testing.assert_array_equal(begun_D, replayed_D)


def test_the_comparison_is_measured_in_a_process_of_its_own(run: Path) -> None:
    words = ("--without", HARMFUL, "--app", "mine.py:workload", "--page", "page.html")
    done = typed("fedserver", "journal", "replay", run, *words, "--json")
    assert done.status == 0, done.err
    found = json.loads(done.out)
    assert found["evaluations"]["metric"][:1] == ["accuracy"]
    assert "recall_2" in found["evaluations"]["metric"]
    assert found["without"] == [HARMFUL]
    assert len(found["versions"]["distance"]) == 12
    assert "recall_2" in Path("page.html").read_text()


def test_what_an_app_prints_is_no_part_of_the_numbers(run: Path) -> None:
    Path("loud.py").write_text(APP + "print('hello')\n")
    words = ("--app", "loud.py:workload", "--json")
    done = typed("fedserver", "journal", "replay", run, *words)
    assert done.status == 0, done.err
    assert json.loads(done.out)["samples"] == 200


def test_a_metric_that_is_no_number_is_null(run: Path) -> None:
    text = "\nworkload = make(metrics={'loss': lambda output, target: float('nan')})\n"
    Path("nan.py").write_text(APP + text)
    words = ("--app", "nan.py:workload", "--json")
    for how in ((), ("--each",)):
        done = typed("fedserver", "journal", "replay", run, *how, *words)
        assert done.status == 0, done.err
        assert "NaN" not in done.out
    assert json.loads(done.out)["recorded"]["metrics"]["loss"] is None


def test_an_app_that_raises_is_quoted_in_full(run: Path) -> None:
    raising = "def data():\n    raise OSError('one\\ntwo')\n"
    Path("bad.py").write_text(APP + raising + "workload = make(test_data=data)\n")
    words = ("--app", "bad.py:workload")
    done = typed("fedserver", "journal", "replay", run, *words)
    assert done.errors == ["test_data raised OSError: one", "two"]


def test_each_client_is_left_out_in_turn(run: Path) -> None:
    short = simulated(run.with_name("short"), stop={"versions": 3})
    words = ("--each", "--app", "mine.py:workload")
    done = typed("fedserver", "journal", "replay", short, *words)
    assert done.status == 0, done.err
    head, *rows = done.out.splitlines()
    assert head.split()[:3] == ["client", "updates", "share"]
    assert [row.split()[0] for row in rows[:5]][-1] == HARMFUL
    assert "recall" not in head
    where, _, trust, everybody, best, worst, better, _ = rows[5:]
    assert where == "--page and --json also have the recall of each class"
    assert "a correlation of 0.99 with training again is expected" in trust
    assert everybody.startswith("loss of the model of all clients: ")
    assert best.startswith(f"{rows[0].split()[0]} helped most: the loss without it is ")
    assert worst.startswith(f"{HARMFUL} hurt most: the loss without it is ")
    assert better.endswith(HARMFUL)


def test_where_no_order_can_be_trusted_none_is_printed(run: Path) -> None:
    words = ("--each", "--app", "mine.py:workload")
    done = typed("fedserver", "journal", "replay", run, *words)
    assert done.status == 0, done.err
    head, *rows = done.out.splitlines()
    assert "loss" not in head
    assert "effect" not in head
    assert rows[-1].startswith("no ranking: the others' answers could be ")
    assert "fedsim influence --leave-one-out" in rows[-1]


@pytest.mark.quick
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--without", "eve"), "--without eve: no such client; there are client-0"),
        (("--app", "mine.py:untested"), "has no test_data= to evaluate on"),
        (("--app", "mine.py:nothing"), "'nothing' does not exist"),
        (("--each", "--without", HARMFUL), "--each excludes --without and --out"),
        (("--metric", "loss"), "--metric: is for --each"),
        (("--out", "."), "--out .: is a folder, not a file"),
        (("--page", "."), "--page .: is a folder, not a file"),
        (("--set", "algorithm.bufer=2"), "bufer"),
    ],
)
def test_a_mistake_is_told_in_a_sentence(
    run: Path, words: tuple[str, ...], sentence: str
) -> None:
    done = typed("fedserver", "journal", "replay", run, *words)
    assert sentence in " ".join(done.errors), done.err
    assert done.status not in (0, 1)
