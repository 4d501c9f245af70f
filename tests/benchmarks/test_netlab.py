"""Federations over bad links: their schedule, settings, and the tool's absence."""

from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.netlab import tool
from benchmarks.netlab.__main__ import main
from benchmarks.netlab.inside import Plan
from benchmarks.netlab.links import (
    CLIENTS,
    CUT,
    HOSTS,
    LINKS,
    MOVER,
    host_of,
    lab,
    schedule,
)
from benchmarks.netlab.report import cells, times_sooner
from benchmarks.netlab.ways import OURS, TARGET, UNCOMPRESSED, WAYS, config
from fedcore.compressors import Identity
from fedcore.typing import JSON
from fedrun.app import load_app
from fedrun.config import parse_config

SEEDS = range(10)


def test_a_link_is_cut_for_a_minute_and_never_while_it_is_down() -> None:
    for seed in SEEDS:
        events = schedule(seed, 1800.0)
        for client in range(CLIENTS):
            own = [e for e in events if e.client == client and e.kind != "move"]
            assert [e.kind for e in own] == ["cut", "back"] * (len(own) // 2)
            gaps = [b.at - a.at for a, b in zip(own[::2], own[1::2], strict=True)]
            assert gaps == [pytest.approx(CUT)] * len(gaps)
            assert len(gaps) >= 5


def test_all_ways_go_through_the_same_schedule() -> None:
    assert schedule(3, 600.0) == schedule(3, 600.0)
    assert schedule(3, 600.0) != schedule(4, 600.0)
    longer = [e for e in schedule(3, 900.0) if e.at < 600.0]
    assert [e for e in schedule(3, 600.0) if e.at < 600.0] == longer


def test_the_address_of_one_client_changes_again_and_again() -> None:
    moves = [e for e in schedule(0, 600.0) if e.kind == "move"]
    assert len(moves) >= 3
    assert {e.client for e in moves} == {MOVER}
    assert host_of(MOVER, 0) == host_of(MOVER, 2) != host_of(MOVER, 1)
    assert host_of(0, 0) == host_of(0, 1) == "h1"


def test_each_client_has_its_link_and_the_spare_host_that_of_the_mover() -> None:
    words = lab(7)
    hosts = dict(
        word.split(":", 1) for before, word in pairwise(words) if before == "--host"
    )
    assert len(hosts) == CLIENTS + 1
    assert hosts[f"h{HOSTS - 1}"] == hosts[host_of(MOVER)] == LINKS[MOVER].text
    assert words[:4] == ["--hosts", str(HOSTS), "--seed", "7"]


@pytest.mark.parametrize("way", WAYS)
def test_every_way_is_a_federation(way: str) -> None:
    settings = config(
        way, 0, "10.0.0.1:8443", Plan(way=way, seed=0, seconds=9.0).stop()
    )
    read = parse_config(settings)
    assert read.stop.target == {"accuracy": TARGET}
    dense = isinstance(read.algorithm.uplink, Identity)
    assert dense == way.startswith("uncompressed")
    assert dense == isinstance(read.algorithm.downlink, Identity)


def test_a_long_run_has_no_target() -> None:
    plan = Plan(way=OURS, seed=0, seconds=9.0, to_target=False)
    assert plan.stop() == {"seconds": 9.0}


def test_the_model_takes_ten_seconds_over_the_slowest_link() -> None:
    settings = config(OURS, 0, "10.0.0.1:8443", {})
    nbytes = 4 * load_app(settings["app"]).flat().spec.dim
    assert LINKS[-1].rate == "256kbit"
    assert nbytes * 8 / 256_000 > 10


def test_without_the_tool_the_command_says_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(tool.VARIABLE, raising=False)
    absent = str(tmp_path / "absent")
    for words, what in (([], "no tool is named"), (["--netlab", absent], absent)):
        done = CliRunner().invoke(main, words)
        assert done.exit_code != 0
        assert "a network namespace with a shaped link" in done.output
        assert what in done.output
        assert "Traceback" not in done.output


def test_a_tool_that_does_not_work_here_is_told(tmp_path: Path) -> None:
    broken = tmp_path / "tool"
    broken.write_text("import sys\nsys.exit('no namespaces here')\n")
    done = CliRunner().invoke(main, ["--netlab", str(broken)])
    assert done.exit_code != 0
    assert "does not work on this machine: no namespaces here" in done.output


def run(seed: int, seconds: float | None, *, lost: int = 0) -> JSON:
    """What came of a run."""
    return {
        "seed": seed,
        "seconds": seconds,
        "limit": 600.0,
        "versions": 4,
        "bytes": {"up": 2_000_000, "down": 1_000_000},
        "cuts": 3,
        "books": {"journalled": 24, "lost": lost, "doubled": 0, "balance": not lost},
    }


def test_ratios_are_taken_seed_by_seed() -> None:
    ours, theirs = [run(0, 10.0), run(1, 20.0)], [run(1, 100.0), run(0, None)]
    assert times_sooner(ours, theirs) == [60.0, 5.0]


def test_a_row_shows_what_was_lost_and_what_was_not_reached() -> None:
    row = cells(UNCOMPRESSED, [run(0, 100.0), run(1, None, lost=2)])
    assert row[1] == "more than 350 (100 to 600)"
    assert row[-2:] == ["2", "0"]
