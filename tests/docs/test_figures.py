"""Figures that pages quote stand in the results that were saved."""

import json

from tests.docs.pages import ROOT
from tests.mutants.table import table

README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
KILLS = json.loads(
    (ROOT / "benchmarks" / "results" / "kill.json").read_text(encoding="utf-8")
)


def test_the_cuts_of_the_power_are_what_was_saved() -> None:
    saved = json.loads(
        (ROOT / "benchmarks" / "results" / "power.json").read_text(encoding="utf-8")
    )
    told = " ".join(PAGE.split())
    after = saved["after"]
    assert f"{saved['cuts']:,} cuts ({after['WRITE']:,} after a write" in told
    assert f"in {saved['seconds'] / 60:.0f} minutes with one process" in told
    for kind in ("SYNC", "TRUNCATE", "CREATE", "RENAME", "UNLINK"):
        assert f"{after[kind]:,} after" in told
    assert f"{saved['broken']} broken promises" in told
    assert f"in {saved['cuts']:,} of {saved['cuts']:,} cuts" in README


def test_the_table_of_mutants_is_what_was_saved() -> None:
    assert table() in PAGE
    saved = json.loads(
        (ROOT / "benchmarks" / "results" / "mutants.json").read_text(encoding="utf-8")
    )["modules"].values()
    tried, caught, alike, survived = (
        sum(module[what] for module in saved)
        for what in ("tried", "caught", "equivalent", "survived")
    )
    assert f"of {tried:,} mistakes planted" in README
    assert f"the tests see {caught:,}; {alike} behave like the program" in README
    assert tried == caught + alike + survived


def test_the_books_of_the_kill_test_are_what_was_saved() -> None:
    for name, books in KILLS["books"].items():
        counts = [books[word] for word in ("acknowledged", "journalled", "applied")]
        same = "yes" if books["model"] == books["replayed"] else "no"
        cells = [name, books["seconds"], *counts, books["lost"], books["doubled"], same]
        assert f"| {' | '.join(map(str, cells))} |\n" in PAGE


def test_the_moments_of_the_kill_test_are_what_was_saved() -> None:
    told = " ".join(PAGE.split())
    kills = dict(KILLS["kills"])
    clients = kills.pop("of a client")
    assert f"{sum(kills.values())} SIGKILLs of the server" in told
    assert f"{clients} of clients" in told
    for moment, count in kills.items():
        assert f"{count} {moment}" in told


def test_the_table_of_lateness_is_what_was_saved() -> None:
    page = ROOT / "docs/decisions/0031-the-staleness-limit-follows-the-clients.md"
    told = page.read_text(encoding="utf-8")
    saved = (ROOT / "benchmarks/results/lateness.json").read_text(encoding="utf-8")
    for row in json.loads(saved):
        shares = [f"{row['above'][times]:.3%}" for times in ("5", "10", "20", "40")]
        cells = [row["speed"], row["jitter"], f"{row['mean']:.2f}"]
        cells += [f"{row['most']:.1f}", f"{row['above_fixed']:.1%}", *shares]
        assert f"| {' | '.join(cells)} |\n" in told


def test_the_cost_of_one_tiny_client_is_what_was_saved() -> None:
    saved = json.loads(
        (ROOT / "benchmarks" / "results" / "simulation.json").read_text("utf-8")
    )["tasks"]["tiny"]
    large, tiny = (row["updates/s"] for row in saved["rows"].values())
    told = " ".join(PAGE.split())
    assert f"take {large['median']:.0f} updates a second with 20 steps" in told
    assert f"{tiny['median']:.0f} when one of 25 rows is among them" in told
    ratios = sorted(
        a / b for a, b in zip(*(e["values"] for e in (large, tiny)), strict=True)
    )
    low, middle, high = (
        f"{r:.2f}".lstrip("0") for r in (ratios[0], ratios[2], ratios[-1])
    )
    assert f"costs {middle} times ({low} to {high}, " in told
