"""Figures that pages quote stand in the results that were saved."""

import json
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.asynchrony.contenders import CONTENDERS
from benchmarks.claims.both_memories import KNOWN
from benchmarks.fresh import Age, results
from tests.docs.figures import (
    asynchrony,
    benchmarks_page,
    codecs_page,
    decision_page,
    deploy_page,
    hugging_face_page,
    networks_page,
    papers_page,
    planning_page,
    readme_page,
    replay_page,
    scaling_page,
    series,
    simulation_page,
)
from tests.docs.figures import units as figures
from tests.docs.figures.series import Series, pool, saved
from tests.docs.pages import ROOT
from tests.mutants.table import table

README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
KILLS = json.loads(
    (ROOT / "benchmarks" / "results" / "kill.json").read_text(encoding="utf-8")
)


PAGES = (
    benchmarks_page,
    codecs_page,
    decision_page,
    deploy_page,
    hugging_face_page,
    networks_page,
    papers_page,
    planning_page,
    readme_page,
    replay_page,
    scaling_page,
    simulation_page,
)


def unsaved(page: ModuleType) -> list[str]:
    """The figures of a page that stand in no result."""
    made = page.rows() if hasattr(page, "rows") else ()
    found: list[str] = figures.unsaved(page.PAGE, [*page.quotes()], page.SAID, made)
    chapters = getattr(page, "CHAPTERS", ("",))
    return [each for each in found if each.startswith(chapters)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.PAGE)
def test_every_figure_of_a_page_is_saved(page: ModuleType) -> None:
    assert not unsaved(page)


@pytest.mark.parametrize(
    "line",
    [
        "| a new claim | 12 times as fast | 0 | 0 |",
        "A sentence that says 99.7 of something.",
        "| power cut at any write | 100,162 | 0 | 0 |",
    ],
)
def test_a_new_figure_that_is_not_saved_is_found(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = "| SIGKILL of a loaded server"
    changed = README.replace(mark, f"{line}\n{mark}") if line[0] == "|" else ""
    (tmp_path / "README.md").write_text(changed or f"{README}\n{line}\n", "utf-8")
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    (found,) = unsaved(readme_page)
    assert line[:40] in found


def test_a_range_is_that_of_the_whole_series() -> None:
    found = pool(more=[Series.of([26_220, 29_320, 41_060]), Series.of([0.62])])
    assert not found.foreign("29,300 (26,200 to 41,100), of which .62")
    assert found.foreign("29,300 (29,300 to 41,100)") == ["29,300 to 41,100"]
    assert found.foreign("38,000 and .63") == ["38,000", ".63"]
    assert found.foreign("29,320.5 and 4.3e-08") == ["29,320.5", "4.3e-08"]


def test_verdicts_are_those_of_seeds_that_nobody_looked_at() -> None:
    assert papers_page.misquoted() == []
    page = " ".join((ROOT / papers_page.PAGE).read_text("utf-8").split())
    for number in papers_page.untried():
        assert f"Claim {number} has not been tried with others" in page


def test_what_a_claim_misses_is_known() -> None:
    for each in saved("claims")["claims"]:
        missed = papers_page.missed(each["claim"])
        assert all(missed.values()), f"claim {each['claim']}: {missed}"
    names = {text.partition(":")[0] for text in papers_page.missed(2)}
    assert names == set(KNOWN)


# Saved before results named what they rest on; only to be made fewer.
OLD = {"bytes", "mutants"}


def overlap(result: str, read: str) -> bool:
    """Whether a result is a part of what was read, or the other way round."""
    shorter, longer = sorted((f"{result}: ", f"{read}: "), key=len)
    return longer.startswith(shorter)


def test_the_readme_quotes_today_s_program() -> None:
    series.READ.clear()
    made = [*readme_page.quotes(), *readme_page.rows(), *readme_page.said()]
    assert made
    quoted = [r for r in results() if any(overlap(r.name, it) for it in series.READ)]
    assert all(any(overlap(r.name, it) for r in quoted) for it in series.READ)
    assert not [r.name for r in quoted if r.age is Age.OTHER]
    unknown = {r.name.partition(": ")[0] for r in quoted if r.age is Age.UNKNOWN}
    assert unknown == OLD


def test_the_readme_says_who_is_faster_beside_its_best_figures() -> None:
    told = " ".join(README.split())
    for sentence in readme_page.said():
        assert sentence in told
    for row in readme_page.rows():
        assert f"{row}\n" in README


def test_the_cuts_of_the_power_are_what_was_saved() -> None:
    saved = json.loads(
        (ROOT / "benchmarks" / "results" / "power.json").read_text(encoding="utf-8")
    )
    told = " ".join(PAGE.split())
    after = saved["after"]
    assert f"{saved['cuts']:,} cuts ({after['WRITE']:,} after a write" in told
    jobs = {1: "one process", 2: "two processes"}[saved["jobs"]]
    assert f"in {saved['seconds'] / 60:.0f} minutes with {jobs}" in told
    for kind in ("SYNC", "TRUNCATE", "CREATE", "RENAME", "UNLINK"):
        assert f"{after[kind]:,} after" in told
    assert f"{saved['broken']} broken promises" in told
    assert f"power cut at any write | {saved['cuts']:,} | 0 | 0 |" in README


def test_the_table_of_mutants_is_what_was_saved() -> None:
    assert table() in PAGE
    saved = json.loads(
        (ROOT / "benchmarks" / "results" / "mutants.json").read_text(encoding="utf-8")
    )["modules"].values()
    tried, caught, alike, survived = (
        sum(module[what] for module in saved)
        for what in ("tried", "caught", "equivalent", "survived")
    )
    assert f"Of {tried:,} mistakes planted" in README
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
    for row in json.loads(saved)["learnt"]:
        limit = "follows" if row["limit"] is None else f"{row['limit']}"
        counts = [f"{row['accepted']:,}", f"{row['stale']:,}"]
        cells = [f"{row['rate']:g}", limit, f"{row['seed']}", *counts]
        assert f"| {' | '.join(cells)} | {row['accuracy']:.3f} |\n" in told
    for row in json.loads(saved)["late"]:
        shares = [f"{row['above'][times]:.3%}" for times in ("5", "10", "20", "40")]
        cells = [row["speed"], row["jitter"], f"{row['mean']:.2f}"]
        cells += [f"{row['most']:.1f}", f"{row['above_fixed']:.1%}", *shares]
        assert f"| {' | '.join(cells)} |\n" in told


def test_the_share_that_was_refused_is_what_was_saved() -> None:
    saved = json.loads((ROOT / "benchmarks/results/lateness.json").read_text("utf-8"))
    above = [100 * row["above_fixed"] for row in saved["late"]]
    page = ROOT / "docs/decisions/0031-the-staleness-limit-follows-the-clients.md"
    told = " ".join(page.read_text(encoding="utf-8").split())
    assert f"{min(above):.0f} to {max(above):.1f} % of the default recipe's" in told


@pytest.mark.parametrize("setting", asynchrony.TITLES)
def test_asynchronous_runs_were_made_at_the_rates_of_their_row(
    setting: tuple[str, int],
) -> None:
    kept = asynchrony.campaign(*setting)
    for name, runs in saved("asynchrony")["settings"][kept.name]["runs"].items():
        rates = {(run["client"], run["server"]) for run in runs.values()}
        assert rates == {kept.rates(CONTENDERS[name])}


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
