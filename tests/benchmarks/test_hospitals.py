"""The drill of eight hospitals: its schedule, its figures, and its books."""

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.hospitals import processes, simulated
from benchmarks.hospitals.__main__ import main
from benchmarks.hospitals.outcome import outcome
from benchmarks.hospitals.report import cells
from benchmarks.hospitals.schedule import (
    CRASHES,
    HORIZON,
    SITES,
    absences,
    schedule,
    task_minutes,
)
from benchmarks.hospitals.ways import FIVE, OURS, STRICT, WAYS, algorithm
from fedclient.state.store import ClientStore
from fedcore.coordinator.events import Decided
from fedrun.config import parse_config
from fedview.results import Results
from tools.books import audit

SEEDS = range(20)
SHORT = 90.0  # minutes


def test_a_schedule_holds_all_that_the_drill_is_about() -> None:
    for seed in SEEDS:
        events = schedule(seed)
        kinds = [event.kind for event in events]
        counts = {kind: kinds.count(kind) for kind in kinds}
        assert counts.pop("drop") >= 10
        assert counts == {"disconnect": 3, "outage": 1, "crash": 1, "kill": 2}
        assert [event.at for event in events] == sorted(event.at for event in events)
        assert all(event.end < HORIZON for event in events)


def test_a_schedule_depends_on_its_seed_alone() -> None:
    assert schedule(1) == schedule(1)
    assert schedule(1) != schedule(2)


def test_a_site_is_away_in_its_drops_in_the_outage_and_while_it_is_down() -> None:
    for seed in SEEDS:
        events = schedule(seed)
        for site in range(SITES):
            stretches = absences(events, site)
            assert all(start < end for start, end in stretches)
            ends = [end for _, end in stretches[:-1]]
            assert all(e < s for e, (s, _) in zip(ends, stretches[1:], strict=True))
            for event in events:
                inside = any(s <= event.at < e for s, e in stretches)
                assert (
                    inside
                    or event.kind in ("disconnect", "kill")
                    or (event.kind in ("drop", "crash") and event.site != site)
                )
        (crash,) = (event for event in events if event.kind == "crash")
        assert crash.site == CRASHES


def test_the_late_site_takes_several_times_as_long() -> None:
    late, *others = task_minutes()
    assert late > 2.5 * max(others)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_is_a_federation(way: str) -> None:
    config = parse_config({"algorithm": algorithm(way)}).algorithm
    assert config.synchronous == (way != OURS)
    assert config.cohort == SITES or not config.synchronous


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    folder = tmp_path_factory.mktemp("drill")
    return {way: simulated.play(way, 0, folder / way[:4], SHORT) for way in WAYS}


def test_a_barrier_makes_fewer_versions_of_the_same_schedule(
    ways: dict[str, dict[str, object]],
) -> None:
    ours, five, strict = (ways[way] for way in (OURS, FIVE, STRICT))
    assert ours["versions"] > five["versions"] > strict["versions"]  # type: ignore[operator]


def test_only_the_quorum_refuses_updates(ways: dict[str, dict[str, object]]) -> None:
    refused = {
        way: "rejected_stale" in found["verdicts"]  # type: ignore[operator]
        for way, found in ways.items()
    }
    assert refused == {OURS: False, FIVE: True, STRICT: False}


def test_the_table_has_a_row_for_each_way(ways: dict[str, dict[str, object]]) -> None:
    for way, found in ways.items():
        row = cells(way, [found])
        assert row[0] == way
        assert row[1] == str(found["versions"])
        assert row[-2:] == ["-", "0"]


def test_an_update_that_was_counted_twice_is_found(tmp_path: Path) -> None:
    simulated.play(OURS, 0, tmp_path, 60.0)
    results = Results(tmp_path / "run")
    decided = results.of(Decided)
    decided.append(decided[0])
    assert outcome(results, schedule(0, 60.0), simulated.MINUTE)["doubled"] == 1


@pytest.mark.processes
@pytest.mark.timeout(400)
def test_real_sites_lose_nothing_and_a_planted_loss_is_found(tmp_path: Path) -> None:
    found = processes.play(OURS, 0, tmp_path / "drill", minute=0.2, horizon=60.0)
    assert found["versions"] > 0
    assert found["books"]["balance"]
    assert found["books"]["lost"] == found["books"]["doubled"] == found["doubled"] == 0
    assert found["events"] >= 5
    states = [tmp_path / "drill" / f"state-hospital-{site}" for site in range(SITES)]
    claims_one_more(states[1])
    books = audit(tmp_path / "drill" / "run", states)
    assert books.lost == 1
    assert not books.balance


def claims_one_more(folder: Path) -> None:
    """A site believes that one more of its updates was accepted."""
    store = ClientStore(folder)
    state = store.load()
    assert state is not None
    ledger = replace(state.ledger, accepted=state.ledger.accepted + 1)
    store.save(replace(state, ledger=ledger))
    store.close()


def test_the_command_plays_the_simulated_form(tmp_path: Path) -> None:
    words = ["--form", "simulated", "--seeds", "1", "--horizon", "60"]
    done = CliRunner().invoke(main, [*words, "--folder", str(tmp_path)])
    assert done.exit_code == 0, done.output
    for way in WAYS:
        assert way in done.output
