"""The experiments run, and point the right way even when they are tiny."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from benchmarks.claims import __main__ as command
from benchmarks.claims import (
    ada_sgd,
    both_memories,
    focus,
    rare_and_late,
    seen_once,
)
from benchmarks.claims.every_codec import every_codec
from benchmarks.claims.lost_uploads import (
    CommitsAtSend,
    Discards,
    Setting,
    rare_uploads_lost,
)
from benchmarks.claims.report import (
    Cell,
    Check,
    Estimate,
    Report,
    Scale,
    Table,
    Verdict,
    at_least,
    at_most,
    average,
    difference,
    ratio,
)
from benchmarks.claims.setup import DigitsMLP, Federation, Trainee, in_rounds
from benchmarks.series import runs
from fedcore.compressors import (
    CompressorConfig,
    ErrorFeedback,
    Identity,
    MemoryConfig,
    SignL1,
    TopK,
)
from fedcore.config import kind_of, methods
from fedcore.coordinator import Coordinator
from fedcore.partitions import shards
from fedcore.training import initial_model
from fedcore.typing import Vector
from fedrun.data import digits

QUICK = Scale(seeds=(0,), quick=True)
DEAR = {2, 3, 4, 8, 12, 13, 14, 17, 19, 21, 24, 29, 31, 32, 33, 34}  # they take seconds


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(number, marks=pytest.mark.slow if number in DEAR else ())
        for number in command.CLAIMS
    ],
)
def test_a_quick_run_fills_every_table(number: int) -> None:
    report = command.CLAIMS[number](QUICK)
    assert report.number == number
    assert report.checks
    for table in report.tables:
        assert table.rows
        for cells in table.rows.values():
            assert len(cells) == len(table.columns)
            assert all(len(cell.values) == 1 for cell in cells)
            assert all(math.isfinite(cell.mean) for cell in cells)
    json.dumps(report.to_json(), allow_nan=False)


@pytest.mark.parametrize("pair", both_memories.PAIRS)
def test_two_memories_learn_faster_than_none(pair: str) -> None:
    uplink, downlink = both_memories.PAIRS[pair]
    remembers = ErrorFeedback(inner=uplink)
    both = both_memories.train(remembers, downlink, Coordinator, 12, 0)
    none = both_memories.train(uplink, downlink, both_memories.Forgetful, 12, 0)
    assert both.accuracy > none.accuracy


@pytest.mark.slow
def test_folding_back_saves_the_rare_classes() -> None:
    remembers = Setting(ErrorFeedback(inner=Identity()))
    ours = rare_uploads_lost(remembers, 150, 0)
    fed_avg = rare_uploads_lost(Setting(Identity()), 150, 0)
    assert ours.accuracy > fed_avg.accuracy
    assert ours.early > fed_avg.early


@pytest.mark.slow
def test_a_residual_committed_at_send_loses_the_rare_classes() -> None:
    uplink = ErrorFeedback(inner=TopK(ratio=0.01))
    ours, wrong = (
        rare_uploads_lost(Setting(uplink, trainee), 100, 0).late
        for trainee in (Trainee, CommitsAtSend)
    )
    assert ours > wrong + 0.1


def test_every_registered_contraction_is_tried_with_a_memory() -> None:
    tried = every_codec()
    contractions = {
        kind_of(method)
        for method in methods(CompressorConfig)
        if method.__module__.startswith("fedcore.")
        and not issubclass(method, Identity | MemoryConfig)
        and cast(CompressorConfig, method.example()).bias == "contraction"
    }
    assert {codec.uplink.kind for codec in tried.values()} == contractions
    for codec in tried.values():
        assert isinstance(codec.remembered, ErrorFeedback)
        assert codec.remembered.inner == codec.uplink


def test_a_boost_keeps_the_class_that_only_a_late_client_has() -> None:
    early = 72  # versions, after which a class without a boost is not yet learnt
    boosted, plain = (
        rare_and_late.measured(variant, rare_and_late.LATE, early, 0)
        for variant in ({}, {"staleness": {"kind": "polynomial"}})
    )
    assert boosted[1] > plain[1] + 0.2  # recall
    assert boosted[2] > plain[2]  # accuracy


def test_a_memory_is_worth_nothing_to_clients_that_never_return() -> None:
    for biased in (TopK(ratio=0.05), SignL1()):
        remembers = ErrorFeedback(inner=biased)
        assert seen_once.train(remembers, 5, 0) == seen_once.train(biased, 5, 0)


@pytest.mark.slow
def test_catching_up_gives_the_servers_bytes_and_a_sum_does_not() -> None:
    caught, summed, _ = command.CLAIMS[4](QUICK).tables
    places = {name: place for place, name in enumerate(caught.columns)}
    for cells in caught.rows.values():
        assert cells[places["patches"]].mean > 0
        assert cells[places["mismatches"]].mean == 0
    assert summed.rows["sign"][0].mean > 0.3


def test_boost_needs_fewer_updates_than_dyn_sgd_at_the_same_rate() -> None:
    parts = ada_sgd._lone(0)
    boosted, dyn_sgd = (
        ada_sgd.train(method, parts, ada_sgd.D2, 0.6, 600, 0, to_goal=True).reached
        for method in (ada_sgd.BOOSTED, ada_sgd.DYN_SGD)
    )
    assert boosted < dyn_sgd < 600


def test_the_window_is_told_the_threshold() -> None:
    policy = ada_sgd.EXPONENTIAL.build(ada_sgd.D2)
    state = policy.observe(policy.init(), 3, None, 1.0)
    assert policy.weigh(state, 12, None) == pytest.approx(1 / 13)
    assert policy.weigh(state, 96, None) == pytest.approx(1 / 169)


@pytest.mark.parametrize(
    ("trainee", "keeps", "remembers"),
    [(Trainee, True, False), (CommitsAtSend, False, True), (Discards, False, False)],
)
def test_what_each_policy_keeps_of_a_lost_upload(
    trainee: type[Trainee], keeps: bool, remembers: bool
) -> None:
    parts = shards(digits("train")[1], clients=4, seed=0)
    config = in_rounds(4, ErrorFeedback(inner=SignL1()), Identity())
    federation = Federation(config, parts, 0, trainee=trainee)
    federation.round(np.array([True, False, False, False]))
    state = federation.trainees[0].state
    assert (state.pending is not None) == keeps
    assert state.memory_D is not None
    assert bool(state.memory_D.any()) == remembers


def test_a_message_that_was_lost_is_folded_back_when_it_comes_too_late() -> None:
    parts = shards(digits("train")[1], clients=4, seed=0)
    config = in_rounds(4, ErrorFeedback(inner=SignL1()), Identity())
    federation = Federation(config, parts, 0)
    federation.round(np.array([True, False, False, False]))
    federation.round()
    ledgers = [one.state.ledger for one in federation.trainees]
    assert [ledger.accepted for ledger in ledgers] == [1, 2, 2, 2]
    assert [ledger.rejected for ledger in ledgers] == [1, 0, 0, 0]


def test_the_forgetful_server_has_no_memory() -> None:
    parts = shards(digits("train")[1], clients=4, seed=0)
    config = in_rounds(4, Identity(), TopK(ratio=0.05))
    gaps = []
    for server in (Coordinator, both_memories.Forgetful):
        federation = Federation(config, parts, 0, coordinator=server)
        federation.round()
        state = federation.coordinator.state
        gaps.append(bool((state.exact_D != state.published.public_D).any()))
    assert gaps == [True, False]


def test_the_gradient_is_that_of_the_loss() -> None:
    model, (x, y) = DigitsMLP(), digits("train")
    w_D = initial_model(model, 0)
    loss, g_D = model.gradient(w_D, x[:40], y[:40])
    g_D = g_D.copy()
    step_D = g_D * np.float32(1e-2 / np.linalg.norm(g_D))
    up, _ = model.gradient(w_D + step_D, x[:40], y[:40])
    down, _ = model.gradient(w_D - step_D, x[:40], y[:40])
    assert (up - down) / 2e-2 == pytest.approx(np.linalg.norm(g_D), rel=1e-2)
    assert model.quality(w_D, x[:40], y[:40]).loss == pytest.approx(loss, rel=1e-5)


def _camera(*parts: Vector, allows: bool) -> focus.Camera:
    """A client that saw images, part by part, with models that learnt nothing."""
    cheap, large = (
        focus.Model(network, initial_model(network, 0))
        for network in map(DigitsMLP, (focus.CHEAP, focus.LARGE))
    )
    camera = focus.Camera(cheap, large, focus.Setting(), allows=allows)
    for part in parts:
        camera.ingest(part)
    return camera


def test_a_client_gives_a_count_and_the_identifiers_that_it_allows() -> None:
    x, _ = digits("test")
    open_one, shut = (_camera(x, allows=allows) for allows in (True, False))
    counts = 0
    for wanted in range(10):
        said, kept = open_one.answer(wanted), shut.answer(wanted)
        assert said.identifiers is not None
        assert said.identifiers <= set(range(len(x)))
        assert said.count == len(said.identifiers) == kept.count
        assert kept.identifiers is None
        counts += said.count
    assert 0 < counts <= len(x)


def test_an_index_grows_with_what_a_client_sees() -> None:
    x, _ = digits("test")
    whole, grown = (_camera(*parts, allows=True) for parts in ([x], [x[:100], x[100:]]))
    answers = [[one.answer(wanted) for wanted in range(10)] for one in (whole, grown)]
    assert answers[0] == answers[1]
    assert whole.looks == grown.looks > 0


def _report(*checks: Check) -> Report:
    return Report(number=2, title="made up", source="nobody", checks=checks)


def _given(report: Report, scale: Scale) -> Report:
    return report


def test_the_exit_code_says_whether_a_claim_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    passes = _report(at_least("a", 2.0, 1.0), at_most("b", 2.0, 1.0, gates=False))
    monkeypatch.setitem(command.CLAIMS, 2, lambda scale: passes)
    assert command.main(["2"]) == 0
    assert "claim 2: holds (checks: 1 holds)" in capsys.readouterr().out
    monkeypatch.setitem(command.CLAIMS, 2, lambda scale: _report(at_least("a", 0, 1)))
    assert command.main(["2"]) == 1
    assert "does not hold (checks: 1 does not hold); NOT AS" in capsys.readouterr().out
    assert command.main(["2", "--quick"]) == 0


more, less = Cell([32.0, 44.0, 33.0, 35.0]), Cell([26.0, 28.0, 25.0, 27.0])


def test_estimates_carry_their_error() -> None:
    assert ratio(more, less).value == pytest.approx(36 / 26.5)
    apart = difference(more, less)
    assert apart.error == pytest.approx(np.std([6, 16, 8, 8], ddof=1) / 2)
    assert apart.half == pytest.approx(3.182446 * apart.error)  # t of 3 and 95 %


@pytest.mark.parametrize(
    ("check", "verdict"),
    [
        (at_most("a", ratio(more, less), 1.7), Verdict.HOLDS),
        (at_most("a", ratio(more, less), 1.4), Verdict.OPEN),
        (at_most("a", ratio(more, less), 1.3), Verdict.OPEN),
        (at_most("a", ratio(more, less), 1.1), Verdict.NOT),
        (at_least("a", ratio(more, less), 1.1), Verdict.HOLDS),
        (at_least("a", ratio(more, less), 1.4), Verdict.OPEN),
        (at_least("a", ratio(more, less), 1.7), Verdict.NOT),
        (at_most("a", 1.35, 1.3), Verdict.NOT),
        (at_most("a", 0, 0), Verdict.HOLDS),
        (at_least("a", average(Cell([2.0])), 1.0), Verdict.OPEN),
        (at_least("a", average(Cell([math.nan, 2.0])), 1.0), Verdict.NOT),
        (at_most("a", average(Cell([math.inf] * 3)), 1.0), Verdict.NOT),
    ],
)
def test_a_check_holds_or_fails_with_its_whole_interval(
    check: Check, verdict: Verdict
) -> None:
    assert check.verdict is verdict


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ((2.0, 2.0), Verdict.HOLDS),
        ((2.0, 0.0), Verdict.IN_PART),
        ((0.0, 0.0), Verdict.NOT),
        ((2.0, None), Verdict.OPEN),
        ((0.0, None), Verdict.NOT),
    ],
)
def test_a_claim_has_the_verdict_of_its_checks(
    values: Sequence[float | None], verdict: Verdict
) -> None:
    unsure = Estimate(1.0, 0.1, 4)
    checks = (at_least("a", unsure if v is None else v, 1.0) for v in values)
    assert _report(*checks).verdict is verdict


def test_saving_keeps_other_claims_and_earlier_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    results = tmp_path / "results" / "claims.json"
    monkeypatch.setattr(command, "RESULTS", results)
    for number, found in ((3, 1.0), (2, 1.0), (2, 2.0)):
        report = replace(_report(at_least("a", found, 1.0)), number=number)
        given = partial(_given, report)
        monkeypatch.setitem(command.CLAIMS, number, given)
        command.main([str(number), "--save", "--seeds", "1"])
    saved = json.loads(results.read_text())["claims"]
    assert [claim["checks"][0]["value"] for claim in saved] == [2.0, 1.0]
    assert saved[0]["seeds"] == [200]
    assert [run["checks"][0]["value"] for run in runs(saved[0])] == [1.0, 2.0]


@pytest.mark.parametrize(
    ("today", "code", "told"),
    [
        (7.0, 0, "1 of 1 values as saved, 0 further"),
        (7.5, 0, "0 of 1 values as saved, 0 further"),
        (30.0, 1, "0 of 1 values as saved, 1 further"),
    ],
)
def test_a_seed_is_run_again_and_compared_with_what_was_saved(
    today: float,
    code: int,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def give(scale: Scale) -> Report:
        values = [7.0, 8.0, 9.0, 7.0, 8.0][: len(scale.seeds)]
        if len(values) == 1:
            values = [today]
        table = Table("T", ["steps"], {"ours": [Cell(values)]})
        clock = [99.0] if len(values) == 1 else [1.0, 1.1, 1.0, 1.1, 1.0]
        timed = Table("Clock", ["ms"], {"ours": [Cell(clock)]}, is_timed=True)
        return replace(_report(), tables=[table, timed])

    monkeypatch.setattr(command, "RESULTS", tmp_path / "claims.json")
    monkeypatch.setitem(command.CLAIMS, 2, give)
    command.main(["2", "--save", "--seeds", "5"])
    assert command.main(["--again"]) == code
    shown = capsys.readouterr().out
    assert f"claim 2, seed 200: {told}" in shown
    assert ("T, ours, steps: 7, now 30" in shown) is (code == 1)


@pytest.mark.slow
def test_claim_1_is_proved_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["1", "--quick"]) == 0
    said = capsys.readouterr().out
    assert "0 violations" in said
    assert "claim 1: PASS (make soak" in said


def test_an_unknown_claim_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["99"])
    assert "no claim 99" in capsys.readouterr().err


def test_a_cell_says_when_the_budget_was_not_enough() -> None:
    assert str(Cell([0.5, 0.75])) == ".625 ±.177"
    assert str(Cell([100, 1500], budget=1500)) == "≥ 800 ±990"


def test_what_was_saved_is_shown_before_and_after(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command.main(["--saved"]) == 0
    numbers = {line[:9].strip() for line in capsys.readouterr().out.splitlines()}
    assert numbers >= {str(number) for number in command.CLAIMS}
