"""A real federation against its simulation."""

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import latecomer
from benchmarks.fidelity.__main__ import main
from benchmarks.fidelity.comparison import Fidelity, Prediction, compare
from benchmarks.fidelity.distance import distance
from benchmarks.fidelity.page import cells, fidelity_page
from benchmarks.fidelity.predict import Predictor, go_on, stretches
from benchmarks.fidelity.side import Side, began_and_ended, read_side
from fedcore.coordinator.events import Closed, Decided, Enrolled, Leased, Stepped
from fedcore.errors import ConfigError
from fedcore.params import ParamSpec
from fedcore.protocol import Verdict
from fedcore.rng import Key
from fedrun.config import parse_config
from fedrun.journal import Configured
from fedsim.traces import ClientTrace, Segment, read_trace, write_trace
from fedsim.traces.format import State
from fedsim.traces.journal import read_clients
from fedview.report.downsample import Floats
from fedview.results import Results
from tests.fedsim.toys import settings, toy
from tests.fedstudies.test_compare import trial
from tests.integration.conftest import APP
from tests.integration.typed import Ended, desk, typed

VARIED: dict[str, Any] = {
    "clients": 8,
    "speed": {"kind": "log_normal", "sigma": 0.8},
    "jitter": {"kind": "log_normal", "sigma": 0.2},
    "link": {"up_mbit": 0.01, "down_mbit": 0.01, "latency": 0.03},
    "step_seconds": 0.5,
}
COMING = {
    **VARIED,
    "availability": {"kind": "on_off", "there_seconds": 60, "gone_seconds": 20},
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with desk(tmp_path, monkeypatch) as here:
        yield here


def simulated(folder: Path, **changes: Any) -> Results:
    """A run that plays the part of a real one."""
    return latecomer.run(settings(**changes), toy(), folder=folder)


def predictor(measured: Results, folder: Path) -> Predictor:
    config = parse_config(measured.configured.config)
    return Predictor(measured, config, toy(), folder)


# ------------------------------------------------------------------- two samples


@pytest.mark.parametrize(
    ("x", "y", "statistic"),
    [
        ([1, 2, 3], [1, 2, 3], 0.0),
        ([1, 2], [3, 4, 5], 1.0),
        ([1, 2, 3, 4], [3, 4, 5, 6], 0.5),
        ([0, 0, 0, 1], [0, 1, 1, 1], 0.5),  # ties, as staleness has them
    ],
)
def test_the_distance_is_the_largest_between_the_two_shares(
    x: list[float], y: list[float], statistic: float
) -> None:
    assert distance(np.array(x), np.array(y)).statistic == pytest.approx(statistic)


SAMPLES = st.lists(st.integers(0, 9), min_size=1, max_size=40).map(np.array)


@given(x=SAMPLES, y=SAMPLES)
def test_a_distance_is_one_both_ways_and_does_not_ask_for_order(x: Any, y: Any) -> None:
    found = distance(x, y)
    assert found == distance(y[::-1], x)
    assert 0 <= found.statistic <= 1
    assert 0 <= found.p <= 1


def test_the_bound_is_where_p_is_one_in_twenty() -> None:
    many = np.arange(10_000.0)
    found = distance(many, many + 10_000 * 1.358 / math.sqrt(5_000))
    assert found.statistic == pytest.approx(found.bound, abs=2e-4)
    assert found.p == pytest.approx(0.05, abs=2e-3)


def test_a_true_sample_is_seldom_too_far_and_a_false_one_always() -> None:
    rng = np.random.default_rng(0)

    def late(mean: float) -> Floats:
        return rng.poisson(mean, 300).astype(np.float64)

    far = [not distance(late(6), late(6)).may_be_chance for _ in range(200)]
    assert sum(far) <= 0.05 * len(far)
    assert not distance(late(6), late(8)).may_be_chance


def test_an_empty_sample_is_at_no_distance() -> None:
    with pytest.raises(ValueError, match="empty"):
        distance(np.array([]), np.array([1.0]))


# ------------------------------------------------------------------- what is read


def decided(at: float, seq: int, verdict: Verdict = Verdict.ACCEPTED) -> Decided:
    return Decided(
        at=at,
        cid="c",
        seq=seq,
        digest="",
        base=0,
        staleness=seq,
        verdict=verdict,
        weight=1.0,
        reason="",
        samples=1,
        steps=2,
        update_norm=1.0,
        memory_norm=0.0,
        oldest=None,
        counts=None,
        loss=None,
        nbytes=10,
        payload=b"",
    )


def leased(at: float) -> Leased:
    return Leased(at=at, cid="c", version=0, task="train", patch="full", nbytes=7)


def recorded(*records: Any) -> Results:
    """A run that consists of these records."""
    results = Results(Path("fabricated"))
    config = parse_config(settings()).model_dump(mode="json")
    first = Configured(
        at=100.0,
        run_id="r",
        seed=0,
        config=config,
        spec=ParamSpec.of({"w": np.zeros(1)}).to_json(),
        epoch="e",
        origin="o",
        versions={},
    )
    came = Enrolled(at=101.0, cid="c", name="ann", role="trainer")
    results.__dict__["records"] = [first, came, *records]
    results.__dict__["dim"] = 1
    return results


def test_time_counts_from_the_first_task_to_the_end() -> None:
    run = recorded(
        leased(110.0),
        decided(112.0, 1),
        leased(112.0),  # of which nothing comes
        leased(116.0),
        decided(118.0, 2),
        Closed(at=120.0, version=0, reason="2 updates"),
        decided(121.0, 3, Verdict.REJECTED_CLOSED),
    )
    assert began_and_ended(run) == (110.0, 120.0)
    side = read_side("measured", run)
    assert side.trial.seconds == 10.0
    assert (side.trial.updates, side.rate) == (2, 0.2)
    assert (side.trial.bytes_up, side.trial.bytes_down) == (20, 21)
    assert (side.lost, side.staleness.tolist()) == (1, [1.0, 2.0])


def test_a_run_without_a_task_cannot_be_compared() -> None:
    with pytest.raises(ConfigError, match="no client ever got a task"):
        read_side("measured", recorded())


def test_clients_whose_data_are_unknown_cannot_be_simulated(tmp_path: Path) -> None:
    run = simulated(tmp_path / "run", simulate={"clients": 3})
    run.__dict__["records"] = [
        replace(r, index=0, count=1)
        if isinstance(r, Enrolled) and r.name == "client-1"
        else r
        for r in run.records
    ]
    config = parse_config(run.configured.config)
    with pytest.raises(ConfigError, match="client-1 joined without --index"):
        Predictor(run, config, toy(), tmp_path)


# ------------------------------------------------------------------- predictions


@pytest.mark.parametrize("goes", [False, True], ids=["always", "on and off"])
@pytest.mark.parametrize(
    "algorithm", [{}, {"kind": "fed_avg", "buffer": 3}], ids=["buffered", "rounds"]
)
def test_a_run_is_predicted_from_its_own_journal(
    tmp_path: Path, algorithm: dict[str, Any], *, goes: bool
) -> None:
    simulate = dict(VARIED)
    if goes:  # each for eight seconds, one after the other
        lives = "".join(
            f"{who},0,{3 * who + 2},there\n{who},{3 * who + 2},{3 * who + 10},away\n"
            f"{who},{3 * who + 10},,there\n"
            for who in range(8)
        )
        (tmp_path / "lives.csv").write_text(f"client,start,end,state\n{lives}")
        simulate["availability"] = {
            "kind": "trace",
            "file": str(tmp_path / "lives.csv"),
        }
    run = simulated(
        tmp_path / "run",
        simulate=simulate,
        algorithm=algorithm,
        stop={"versions": 60},
    )
    measured = read_side("measured", run)
    replayed = read_side("replayed", predictor(run, tmp_path).replayed(0))
    # Where a loss is known to a second or so, later rounds have other clients.
    off = 0.2 if goes and algorithm else 0.1
    assert replayed.trial.seconds == pytest.approx(measured.trial.seconds, rel=off)
    assert replayed.update_bytes == measured.update_bytes
    assert distance(measured.staleness, replayed.staleness).may_be_chance


def test_without_chance_replayed_is_what_was(tmp_path: Path) -> None:
    run = simulated(tmp_path / "run", simulate=VARIED, stop={"versions": 40})
    measured = read_side("measured", run)
    replayed = read_side("replayed", predictor(run, tmp_path).replayed(0))
    assert replayed.digests[:30] == measured.digests[:30]
    assert replayed.trial.bytes_up == measured.trial.bytes_up


def test_clients_that_are_all_alike_are_a_wrong_prediction(tmp_path: Path) -> None:
    run = simulated(tmp_path / "run", simulate=VARIED, stop={"versions": 60})
    alike = {name: VARIED[name] for name in ("clients", "step_seconds", "link")}
    other = simulated(tmp_path / "other", simulate=alike, stop={"versions": 60})
    measured, wrong = read_side("measured", run), read_side("wrong", other)
    assert not distance(measured.staleness, wrong.staleness).may_be_chance


def test_in_the_recorded_order_all_bits_are_the_same(tmp_path: Path) -> None:
    run = simulated(tmp_path / "run", simulate=COMING)
    again = predictor(run, tmp_path).in_order()
    theirs, ours = ([r.digest for r in results.of(Stepped)] for results in (again, run))
    assert theirs == ours


def test_a_calibrated_prediction_knows_nothing_of_what_came_later(
    tmp_path: Path,
) -> None:
    run = simulated(tmp_path / "run", simulate=COMING, stop={"versions": 200})
    predictor(run, tmp_path).calibrated(0, 40.0)
    traced = read_trace(tmp_path / "calibrated-0.csv")
    known = read_clients(run, until=40.0).clients
    for client, pilot in zip(traced, known, strict=True):
        tasks = [s for s in client.segments if s.state == "task"]
        assert tasks == [s for s in pilot.segments if s.state == "task"]
        assert all(task.end <= 40.0 for task in tasks)


def test_who_has_not_come_in_the_pilot_is_taken_to_be_as_the_others(
    tmp_path: Path,
) -> None:
    late = tmp_path / "late.csv"
    late.write_text(
        "client,start,end,state,step_seconds\n"
        "a,0,,there,2\nb,0,30,away,2\nb,30,,there,\n"
    )
    run = simulated(
        tmp_path / "run", simulate={"trace": str(late)}, stop={"versions": 20}
    )
    # In a simulation all are admitted at once; in a real run when they come.
    second = run.of(Enrolled)[1]
    assert second.name == "b"
    again = Results(run.folder)
    again.__dict__["records"] = [
        replace(r, at=30.0) if r is second else r for r in run.records
    ]
    predictor(again, tmp_path).calibrated(0, 15.0)
    _, client = read_trace(tmp_path / "calibrated-0.csv")
    assert list(client.stays) == [(15.0, math.inf)]
    assert client.step_seconds == pytest.approx(2, rel=0.01)


def test_a_pilot_without_a_finished_task_is_too_short(tmp_path: Path) -> None:
    run = simulated(tmp_path / "run", simulate=COMING)
    with pytest.raises(ConfigError, match="give a longer --pilot"):
        predictor(run, tmp_path).calibrated(0, 1e-9)


def there(*ends: float) -> ClientTrace:
    """A client that comes and goes at these times, beginning with its coming."""
    edges = zip((0.0, *ends[:-1]), ends, strict=True)
    states: tuple[State, State] = ("there", "away")
    return ClientTrace(
        "ann", [Segment(a, b, states[n % 2]) for n, (a, b) in enumerate(edges)]
    )


def test_stretches_are_means_with_what_is_unfinished() -> None:
    # There for 10, away for 4, there for 6 and longer; and there for 20 and longer.
    found = stretches([there(10, 14, 20), there(20)], until=20)
    assert (found.there, found.away) == (36.0, 4.0)
    assert math.isinf(stretches([there(20)], until=20).there)


def test_who_has_just_gone_is_not_missed_yet() -> None:
    # Gone at 18; with the server's patience of 5 seconds that is not known at 20.
    found = stretches([there(10, 14, 18, 20), there(20)], until=20, blind=5)
    assert (found.there, found.away) == (10 + 1 + 15, 4.0)


def test_clients_go_on_coming_and_going_as_they_did(tmp_path: Path) -> None:
    client = there(10, 14, 20)
    usual = stretches([client], until=20.0)
    (made,) = go_on([client], usual, 20.0, 4000.0, Key.root(0))
    write_trace(tmp_path / "t.csv", [made])
    (read,) = read_trace(tmp_path / "t.csv")
    assert next(iter(read.stays)) == (0, 10)
    stays = [end - start for start, end in list(read.stays)[2:-1]]
    assert np.mean(stays) == pytest.approx(16, rel=0.25)
    always = [there(20)]
    assert go_on(always, stretches(always, 20.0), 20.0, 99.0, Key.root(0)) == always


# ------------------------------------------------------------------- side by side


def side(name: str, values: list[float], pace: float, late: int = 1) -> Side:
    return Side(
        name=name,
        trial=trial(0, values, pace),
        lost=0,
        staleness=np.array([0.0, late] * 50),
        update_bytes=(10,),
        digests=(),
    )


def fidelity(**changes: Any) -> Fidelity:
    given: dict[str, Any] = {"metric": None, "target": None, "pilot": 0.5, **changes}
    measured = side("measured", [0.1, 0.5, 0.8, 0.9], 1.0)
    slower = side("replayed", [0.1, 0.5, 0.8, 0.9], 1.1)
    slowest = side("replayed", [0.1, 0.5, 0.8, 0.9], 1.2)
    wrong = side("calibrated", [0.1, 0.2], 1.0, 9)
    predicted = [
        Prediction("replayed", [slower, slowest]),
        Prediction("calibrated", [wrong]),
    ]
    return compare(measured, predicted, **given)


def test_errors_are_shares_of_what_was_measured() -> None:
    found = fidelity(target=0.8)
    first = found.rows[0]
    assert (first.what, first.measured) == ("seconds to accuracy 0.8", 2.0)
    assert first.predicted[0] == pytest.approx((2.2, 2.2, 2.4))
    assert first.errors()[0] == pytest.approx(0.1)
    assert math.isnan(first.errors()[1])  # it never got there
    assert tuple(found.apart(found.predicted[1])) == pytest.approx((0.15, 0.3))
    told = json.loads(json.dumps(found.as_json()))
    assert told["rows"]["seconds to accuracy 0.8"]["calibrated"]["value"] is None
    said = " ".join(found.sentences())
    assert "the time to accuracy 0.8 is 10.0% too long" in said
    assert "they differ" in said


def test_the_target_is_one_that_all_sides_reach() -> None:
    assert fidelity().target == pytest.approx(0.1 + 0.9 * 0.1)


def test_a_target_within_the_pilot_is_named() -> None:
    assert "within the pilot of 3 s" in " ".join(
        fidelity(target=0.5, pilot=3.0).sentences()
    )


def test_a_pilot_that_saw_few_absences_is_named() -> None:
    few = replace(fidelity(), absences=1)
    assert "The pilot saw the end of 1 absence:" in " ".join(few.sentences())
    many = " ".join(replace(few, absences=10).sentences())
    assert "absence" not in many


def test_the_page_has_all_rows_and_plots() -> None:
    found = fidelity(target=0.8)
    head, rows, _ = cells(found)
    page = fidelity_page(found, "a run")
    assert all(len(row) == len(head) for row in rows)
    assert all(name in page for name in ("replayed", "calibrated", "never"))
    assert page.count('<figure class="plot"') == 2


# ------------------------------------------------------------------- the command


def checked(*words: str) -> Ended:
    """Runs ``python -m benchmarks.fidelity`` in this process."""
    done = CliRunner().invoke(main, words, catch_exceptions=False)
    return Ended(done.exit_code, done.stdout, done.stderr)


def config(simulate: str, more: str = "") -> None:
    Path("fed.yaml").write_text(
        f"app: {APP}:workload\n"
        "algorithm: {kind: fed_buff, buffer: 2, min_clients: 3, "
        "client: {kind: local_sgd, lr: 0.5, steps: 4}}\n"
        "evaluate: {every_versions: 2}\n"
        f"stop: {{versions: 16}}\nsimulate: {simulate}\n{more}"
    )


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("simulate", "sentence"),
    [
        ("{clients: 3, upload_loss: 0.1}", "simulate.upload_loss: real processes do"),
        ("{clients: 3, ack_loss: 0.1}", "simulate.ack_loss: real processes do not"),
    ],
)
def test_what_processes_cannot_play_is_said(simulate: str, sentence: str) -> None:
    config(simulate)
    assert sentence in checked("fed.yaml").sentence(64 + 14)


@pytest.mark.usefixtures("folder")
def test_a_folder_that_is_there_is_left_alone() -> None:
    config("{clients: 3}")
    Path("out").mkdir()
    ended = checked("fed.yaml", "-o", "out")
    assert "is there already; name another folder" in ended.sentence(64 + 14)


@pytest.mark.usefixtures("folder")
@pytest.mark.processes
def test_a_real_federation_is_predicted() -> None:
    config("{step_seconds: 0.05, speed: {kind: uniform, low: 0.5, high: 2}}")
    ended = checked("fed.yaml", "--clients", "3", "-o", "out")
    assert ended.status == 0, ended.err
    assert "16 of 16 versions have the same bits, and the bytes up are exact" in (
        ended.out
    )
    told = json.loads(Path("out/fidelity.json").read_text())
    rows = told["rows"]
    for row in (rows["updates"], rows["payload up (bytes)"]):
        exact = {"value": row["measured"], "low": row["measured"]}
        assert row["replayed"].items() >= exact.items()
        assert row["calibrated"].items() >= exact.items()
    end = rows["seconds to the end"]
    assert end["replayed"]["value"] == pytest.approx(end["measured"], rel=0.3)
    assert "Fidelity" in Path("out/fidelity.html").read_text()
    again = ("--run", "out/run", "--target", "0.5", "-o", "out2")
    assert checked("fed.yaml", *again).status == 0


@pytest.mark.usefixtures("folder")
@pytest.mark.processes
def test_a_client_that_fails_is_told_with_its_last_words() -> None:
    config("{clients: 3, step_seconds: 0.05}")
    app = APP.read_text().replace(
        "def initial", "import sys\nif 'join' in sys.argv:\n    1 / 0\n\n\ndef initial"
    )
    Path("bad.py").write_text(app)
    text = Path("fed.yaml").read_text().replace(str(APP), "bad.py")
    Path("fed.yaml").write_text(text)
    ended = checked("fed.yaml", "-o", "out")
    assert ended.status != 0
    assert any("fedclient join ended with status" in line for line in ended.errors)


@pytest.mark.usefixtures("folder")
@pytest.mark.processes
@pytest.mark.parametrize("kind", ["torch", "numpy"])
def test_a_template_is_predicted_as_it_is_made(kind: str) -> None:
    assert typed("fedsim", "new", "project", "--template", kind).status == 0
    words = ["--clients", "3", "--set", "stop.versions=6", "--seeds", "1", "-o", "out"]
    for quick in ("step_seconds=0.02", "away_seconds=0.1"):
        words += ["--set", f"simulate.{quick}"]
    ended = checked("project/federation.yaml", *words)
    assert ended.status == 0, ended.err
    assert "6 of 6 versions have the same bits" in ended.out
