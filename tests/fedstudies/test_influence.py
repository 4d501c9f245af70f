"""``fedsim influence``: what is audited, told, written and refused."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import latecomer
from fedcore.errors import ConfigError, LatecomerError, ModelError, WorkloadError
from fedrun.correlation import pearson, spearman
from fedstudies.frame import page_of
from fedstudies.influence.audit import Auditor, last_of
from fedstudies.influence.estimate import Settings, estimate
from fedstudies.influence.outcome import (
    Audit,
    Influence,
    Row,
    bars_figure,
    rank,
    scatter_figure,
)
from fedstudies.influence.repetition import Repetition
from fedstudies.influence.schedule import read_schedule
from tests.fedsim.toys import linear, toy
from tests.fedview.what_if import federation
from tests.integration.typed import Ended, desk, typed

APP = """
import numpy as np
from fedcore.workload import Workload
from tests.fedsim.toys import points, toy

def train_data(client):
    x, y = points(client.index + 1)
    return x, -y if client.index == 2 else y

workload = toy(train_data=train_data)
untested = toy(test_data=None)

def train(params, data, task):
    raise AssertionError

looping = Workload(
    initial=lambda rng: {"w": np.zeros(6)},
    train=train,
    evaluate=lambda params, x, y: {"loss": 0.0},
    train_data=train_data,
    test_data=lambda: points(0),
)
"""
CONFIG = """
app: mine.py:workload
algorithm: {kind: fed_avg, buffer: 2, client: {kind: local_sgd, steps: 2, batch: 4}}
stop: {versions: 6}
simulate: {clients: 4, dropout: 0.2}
"""
ASYNC = {"kind": "fed_buff", "buffer": 2, "staleness": {"kind": "polynomial"}}
STEPS = {"kind": "local_sgd", "steps": 2, "batch": 4, "lr": 0.05}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with desk(tmp_path, monkeypatch) as here:
        Path("mine.py").write_text(APP)
        Path("fed.yaml").write_text(CONFIG)
        yield here


def audit(*words: str) -> Ended:
    return typed("fedsim", "influence", "fed.yaml", *words)


def test_the_client_with_wrong_labels_hurts_by_both_measures() -> None:
    done = audit("--versions", "12", "--leave-one-out", "-o", "out", "--jobs", "1")
    assert (done.status, done.errors) == (0, [])
    saved = json.loads(Path("out", "influence.json").read_text())
    assert saved["versions"] == 12
    assert saved["clients"][-1]["client"] == "client-2"
    by_estimate = min(saved["clients"], key=lambda c: c["estimated"]["changes"]["loss"])
    assert by_estimate["client"] == "client-2"
    assert saved["pearson"] > 0.99
    assert all(client["error"] < 0.05 for client in saved["clients"])
    last = done.out.splitlines()[-1]
    assert "without client-2 the loss would be " in last
    assert " lower: it hurts most; " in last
    assert last.endswith("; client-2 could be left out")
    page = Path("out", "influence.html").read_text()
    assert page.count('<figure class="plot"') == 2


def audited(**rows: Any) -> Audit:
    """An audit of clients by estimated and true changes of loss and accuracy.

    Each has half a change of .01 by chance.
    """

    def influence(changes: tuple[float, float] | None) -> Influence | None:
        if changes is None:
            return None
        loss, accuracy = changes
        chance = {"loss": 0.01, "accuracy": 0.01}
        return Influence({"loss": loss, "accuracy": accuracy}, 1.0, chance)

    found = [
        Row(name, 8, 9, influence(estimated) or Influence({}, 0.0), influence(true))
        for name, (estimated, true) in rows.items()
    ]
    return Audit(
        run="run",
        versions=9,
        settings=Settings("hessian", 50, truncate=False),
        values={"loss": 0.5, "accuracy": 0.9},
        rows=rank("loss", found),
    )


def test_no_client_is_both_missed_and_could_be_left_out() -> None:
    told = audited(
        ann=((0.2, -0.1), (0.2, -0.1)),
        bob=((-0.1, -0.3), None),
        eve=((-0.2, 0.1), None),
    )
    parts = told.verdict.split("; ")
    assert "eve could be left out" in parts
    assert "bob hurts the loss and helps the accuracy" in parts
    assert sum("left out" in part for part in parts) == 1


def test_what_chance_could_do_is_no_verdict() -> None:
    told = audited(ann=((0.009, 0.0), (0.009, 0.0)), bob=((-0.008, 0.0), (-0.008, 0.0)))
    assert told.verdict == "what each client does to the loss may be chance"
    assert audited(
        ann=((0.2, 0.0), (0.2, 0.0)), bob=((-0.008, 0.0), (-0.008, 0.0))
    ).verdict.endswith("no client hurts the loss beyond chance")


def test_an_estimate_that_its_check_refutes_is_said_first_and_judges_nobody() -> None:
    told = audited(
        ann=((0.3, 0.0), (0.02, 0.0)),
        bob=((0.2, 0.0), (-0.1, 0.0)),
        eve=((-0.2, 0.0), None),
    )
    assert not told.holds
    first, *others = told.verdict.split("; ")
    assert first.startswith(
        "the estimate does not hold here: without bob the loss is estimated to change "
        "by +0.2, and changes by -0.1 when the others are retrained"
    )
    assert not any("eve" in each or "most" in each for each in others)
    assert [row.client for row in told.rows] == ["ann", "bob", "eve"]
    assert {each["rank"] for each in told.as_json()["clients"]} == {None}
    assert 'class="verdict warn"' in page_of(told.findings())


def test_huge_estimates_stay_short_and_each_part_of_the_table_has_the_names() -> None:
    told = audited(
        ann=((1978748610019325.5, 0.0), (0.02, 0.0)), bob=((-0.2, 0.0), None)
    )
    screen = io.StringIO()
    Console(file=screen, width=70).print(told.cells().on_screen())
    shown = screen.getvalue()
    assert "+1.98e+15" in shown
    assert max(map(len, told.cells().rows[0])) <= 9
    assert shown.count("ann") == shown.count("± loss") + 1 == 2


def test_an_estimate_beyond_its_regime_is_refuted_by_retraining(folder: Path) -> None:
    """Convex, but curvature times rate is far above 2, and one client is hurtful."""

    def data(samples: tuple[Any, Any], flips: bool) -> tuple[Any, Any]:
        x, y = samples
        return 60 * x, 2 - y if flips else y

    mine = federation.workload(
        train_data=lambda client: data(
            federation.samples(client.index + 1), client.index == 3
        ),
        test_data=lambda: data(federation.samples(0, 200), flips=False),
    )
    Path("fed.yaml").write_text(
        "algorithm: {kind: fed_avg, buffer: 5, client: {kind: local_sgd, lr: 0.1, "
        "steps: 5, batch: 16}}\nstop: {versions: 30}\nsimulate: {clients: 5}\n"
    )
    with np.errstate(divide="ignore"):
        found = latecomer.influence("fed.yaml", mine, out="out")
    harmful = next(row for row in found.rows if row.client == federation.HARMFUL)
    assert harmful.true is not None
    assert harmful.true.changes["loss"] < 0 < harmful.estimated.changes["loss"]
    assert found.verdict.startswith("the estimate does not hold here")
    assert "beyond 2, a step makes differences larger" in found.verdict
    assert f"without {federation.HARMFUL} the loss would be" in found.verdict
    assert "it hurts" in found.verdict


@pytest.mark.slow
def test_a_recorded_run_is_audited_as_it_was_simulated() -> None:
    audit("-o", "first")
    done = audit("--run", "first/run", "--json", "-o", "again")
    assert done.status == 0
    first, again = (
        json.loads(Path(name, "influence.json").read_text())
        for name in ("first", "again")
    )
    assert first == again == json.loads(done.out)
    assert not Path("again", "run").exists()
    few = audit(
        "--run", "first/run", "--versions", "1", "--clients", "client-0,client-1"
    )
    assert few.status == 0
    assert "1 version, 2 clients" in few.out


@pytest.mark.parametrize("workload", [toy, linear])
def test_late_updates_are_followed_to_the_version_they_are_based_on(
    workload: Any, folder: Path
) -> None:
    mine = workload()
    config = {
        "algorithm": {**ASYNC, "client": STEPS},
        "stop": {"versions": 12},
        "simulate": {
            "clients": 5,
            "speed": {"kind": "log_normal", "sigma": 1.0},
            "engine": {"kind": "exact"},
        },
    }
    latecomer.run(config, mine, folder=folder / "run")
    schedule = read_schedule(folder / "run")
    late = [
        version - task.base
        for version, tasks in enumerate(schedule.rounds)
        for task in tasks
    ]
    weights = {task.weight for tasks in schedule.rounds for task in tasks}
    assert max(late) > 0
    assert len(weights) > 1
    again = Repetition(mine, schedule)
    names = list(schedule.clients)
    *_, (last_D, state) = estimate(again, names, Settings())
    np.testing.assert_allclose(last_D, schedule.last_D, atol=1e-6)
    for name, eps_D in zip(names, state.eps_CD, strict=True):
        gap_D = last_of(again, name) - last_D
        assert np.linalg.norm(eps_D - gap_D) <= 1e-3 * np.linalg.norm(gap_D) + 1e-6


def test_a_client_that_never_took_part_is_named() -> None:
    found = latecomer.influence("fed.yaml", versions=1)
    absent = [row for row in found.rows if not row.updates]
    assert len(absent) == 2
    assert all(row.estimated.distance == 0 for row in absent)
    assert "never took part in these 1 versions" in found.doubts[0]
    assert found.correlation is None


def test_a_run_that_was_simulated_in_stacks_is_audited_too(folder: Path) -> None:
    config = {
        "algorithm": {"kind": "fed_avg", "buffer": 2, "client": STEPS},
        "stop": {"versions": 6},
        "simulate": {"clients": 4},
    }
    latecomer.run(config, linear(), folder=folder / "run")
    found = latecomer.influence(
        "fed.yaml", linear(), run="run", leave_one_out=True, out="out"
    )
    assert found.versions == 6
    assert sum(row.updates for row in found.rows) == 12
    assert all(row.error is not None and row.error < 0.02 for row in found.rows)


def test_an_unknown_client_is_told_before_anything_is_simulated() -> None:
    done = audit("--clients", "client-9")
    assert done.errors[0].startswith("--clients client-9: no such client; there are")
    assert "simulates" not in done.err
    assert not Path("runs").exists()


def test_clients_that_took_no_part_decide_nothing() -> None:
    whole = latecomer.influence("fed.yaml", versions=1, out="out")
    absent = next(row.client for row in whole.rows if not row.updates)
    found = latecomer.influence("fed.yaml", run="out/run", versions=1, clients=[absent])
    assert found.verdict.startswith("none of these clients took part")


def bent() -> Any:
    """A model with a factor that autograd takes for a constant."""
    torch = pytest.importorskip("torch")

    class Bent(torch.nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: Any) -> Any:
            return x * torch.tanh(x).detach()

    def build() -> Any:
        first, last = torch.nn.Linear(6, 3), torch.nn.Linear(3, 1)
        return torch.nn.Sequential(first, Bent(), last, torch.nn.Flatten(0))

    return linear(model=build)


def test_a_model_with_wrong_second_derivatives_is_refused_but_for_fisher(
    folder: Path,
) -> None:
    says = r"Hessian products of this model do not match.*[(]estimator fisher"
    with pytest.raises(ModelError, match=says):
        latecomer.influence("fed.yaml", bent(), versions=2, out="out")
    assert not Path("out").exists()
    found = latecomer.influence("fed.yaml", bent(), out="out", estimator="fisher")
    assert found.versions == 6
    with pytest.raises(ModelError, match=says):
        latecomer.influence("fed.yaml", bent(), run="out/run")


@pytest.mark.slow
def test_an_estimate_that_has_grown_too_large_is_told(folder: Path) -> None:
    audit("-o", "out")
    again = Repetition(toy(), read_schedule(folder / "out" / "run"))
    auditor = Auditor(again, ["client-0"], Settings(), "run")
    auditor.w_D = again.schedule.last_D
    auditor.eps_CD = np.full((1, 6), 1e39)
    with pytest.raises(LatecomerError, match="--truncate bounds it"):
        auditor.outcome()


def test_every_estimator_runs_from_python() -> None:
    exact = latecomer.influence("fed.yaml", out="exact")
    for given in ({"estimator": "fisher", "samples": 3}, {"truncate": True}):
        other = latecomer.influence("fed.yaml", run="exact/run", **given)
        assert {row.client for row in other.rows} == {row.client for row in exact.rows}


@pytest.mark.slow
def test_other_data_than_the_runs_are_noticed() -> None:
    audit("-o", "first")
    with pytest.raises(LatecomerError, match="away from the recorded model"):
        latecomer.influence("fed.yaml", toy(), run="first/run")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"algorithm.client.momentum": 0.9}, "follows the steps w - lr·g alone"),
        ({"algorithm.client.clip_norm": 1.0}, "follows the steps w - lr·g alone"),
        (
            {"algorithm.client": {"kind": "local_adam"}},
            "algorithm.client is local_adam",
        ),
        ({"algorithm.uplink": {"kind": "qsgd"}}, "messages that lose nothing"),
        ({"algorithm.server": {"kind": "momentum"}}, "algorithm.server: {kind: sgd}"),
        ({"algorithm.aggregator": {"kind": "mifa"}}, "{kind: weighted_mean}"),
        ({"algorithm.controllers": [{"kind": "ada_comm"}]}, "controllers: \\[\\]"),
        ({"simulate.clients": 1, "algorithm.buffer": 1}, "two or more"),
    ],
)
def test_a_federation_that_the_estimator_does_not_know_is_refused(
    changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        latecomer.influence("fed.yaml", changes=changes)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--app", "mine.py:untested"), "no test_data="),
        (("--app", "mine.py:looping"), "a training loop of its own"),
        (("--clients", "client-9"), "--clients client-9: no such client; there are"),
        (("--clients", ""), "--clients '': expected names, such as client-3"),
        (("--run", "nowhere"), "nowhere"),
        (("-o", "fed.yaml"), "is a file, not a folder"),
    ],
)
def test_wrong_input_gets_a_sentence(words: tuple[str, ...], says: str) -> None:
    done = audit("--versions", "2", *words)
    assert done.status
    assert len(done.errors) == 1
    assert says in done.errors[0]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"estimator": "guess"}, "expected hessian or fisher"),
        ({"clients": "client-1"}, "expected a list of names"),
        ({"samples": 0}, "samples: expected 1 or more"),
        ({"workload": "mine.py:workload"}, "expected a Workload"),
    ],
)
def test_a_wrong_argument_gets_a_sentence(given: dict[str, Any], says: str) -> None:
    with pytest.raises((ConfigError, WorkloadError), match=says):
        latecomer.influence("fed.yaml", **given)


def test_correlations_are_those_of_values_and_of_ranks() -> None:
    one, other = [1.0, 2.0, 3.0, 10.0], [2.0, 4.0, 6.0, 7.0]
    assert pearson(one, [2 * value for value in one]) == pytest.approx(1)
    assert pearson(one, other) == pytest.approx(float(np.corrcoef(one, other)[0, 1]))
    assert spearman(one, other) == pytest.approx(1)
    assert spearman([1, 1, 2], [3, 3, 9]) == pytest.approx(1)
    assert np.isnan(pearson([1, 1, 1], [1, 2, 3]))


def test_the_page_draws_each_client_in_the_order_of_the_table() -> None:
    found: Audit = latecomer.influence("fed.yaml", leave_one_out=True)
    bars = bars_figure(found)
    assert [trace.name for trace in bars.data] == ["estimated", "true"]
    assert list(bars.data[0].y) == [row.client for row in found.rows]
    assert list(scatter_figure(found).data[1].text) == [r.client for r in found.rows]
