"""Plans of volatile workers: prices, pilots, checks, and what is refused."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import latecomer
from fedcore.errors import ConfigError, JournalError, UserCodeError
from fedcore.planning.volatile_workers import FACTORS, Group, Offer, Plan, all_plans
from fedcore.workload import Workload
from fedsim.traces import read_trace
from fedstudies.plan import planner
from fedstudies.plan.check import require_few_returns, workers_of
from fedstudies.plan.goal import read_duration, read_target, target_of
from fedstudies.plan.outcome import frontier_figure
from fedstudies.plan.workers import Workers, write_stays
from fedstudies.prices.price_file import PricesConfig, read_prices
from tests.integration.typed import desk, typed

APP = """
from tests.fedstudies.test_plan import bowl
workload = bowl()
"""
FEDERATION = {
    "app": "app.py:workload",
    "server": {"journal": "runs/bowl"},
    "algorithm": {
        "kind": "fed_avg",
        "buffer": 4,
        "weigh_by": "updates",
        "client": {"kind": "local_sgd", "lr": 0.1, "steps": 1, "batch": 1},
    },
    "simulate": {"clients": 4, "step_seconds": 10.0, "link": {"latency": 0.01}},
    "stop": {"versions": 40},
}
PRICES: dict[str, Any] = {
    "on_demand": 3.0,
    "preemptible": {
        "price": 1.0,
        "preemptions_per_hour": 2.0,
        "recovery_seconds": 300,
    },
}
QUICK: dict[str, Any] = {"checks": 3, "pilot_versions": 40, "out": "out"}


def bowl() -> Workload:
    """A quadratic bowl: each sample pulls the weights towards itself."""

    def points(seed: int, count: int) -> tuple[Any, Any]:
        x = np.random.default_rng(seed).standard_normal((count, 8)) * 1.5 + 2
        return x.astype(np.float32), np.zeros(count, np.float32)

    def gradient(params: Any, x: Any, y: Any) -> Any:
        away = params["w"] - x
        return float((away**2).mean()), {"w": away.mean(axis=0)}

    return Workload(
        initial=lambda rng: {"w": np.zeros(8, np.float32)},
        gradient=gradient,
        evaluate=lambda params, x, y: {
            "loss": float(((params["w"] - x.mean(axis=0)) ** 2).mean())
        },
        train_data=lambda client: points(0, 256),
        test_data=lambda: points(0, 256),
    )


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    with desk(tmp_path, monkeypatch) as here:
        Path("app.py").write_text(APP)
        Path("fed.yaml").write_text(yaml.safe_dump(FEDERATION))
        prices_of()
        yield here


def prices_of(**preemptible: Any) -> str:
    raw = {**PRICES, "preemptible": {**PRICES["preemptible"], **preemptible}}
    Path("prices.yaml").write_text(yaml.safe_dump(raw))
    return "prices.yaml"


def plan_for(prices: str = "prices.yaml", **more: Any) -> Any:
    given: dict[str, Any] = {"target": {"loss": 0.2}, "deadline": "30m", **QUICK}
    return latecomer.plan("fed.yaml", prices, **{**given, **more})


def refused(*words: str) -> str:
    done = typed("fedsim", "plan", "fed.yaml", "--jobs", "1", *words)
    (sentence,) = done.errors
    assert done.status
    return sentence


# ------------------------------------------------------------------------ a whole plan


def test_a_plan_is_checked_and_says_what_it_costs() -> None:
    words = ("--prices", "prices.yaml", "--target", "loss=0.2", "--deadline", "30m")
    more = ("--checks", "3", "--pilot-versions", "40", "-o", "out", "--jobs", "1")
    done = typed("fedsim", "plan", "fed.yaml", *words, *more)
    assert done.status == 0, done.err
    assert "rent " in done.out
    assert "all on demand" in done.out
    numbers = json.loads(Path("out/plan.json").read_text())
    assert numbers["recommendation"]["preemptible"] > 0
    first = numbers["checks"][0]
    assert first["in_time"] == 1.0
    assert len(first["cost_by_seed"]) == 3
    page = Path("out/plan.html").read_text()
    assert "Predicted and simulated" in page
    assert "What is" not in done.err
    again = typed("fedsim", "plan", "fed.yaml", *words, *more, "--json")
    assert json.loads(again.out) == json.loads(Path("out/plan.json").read_text())
    assert json.loads(again.out)["recommendation"] == numbers["recommendation"]


def market_of(*points: tuple[float, float]) -> str:
    """A price file of a market with these shares and prices."""
    market = {
        "change_seconds": 120,
        "quantiles": [{"share": s, "price": p} for s, p in points],
    }
    Path("market.yaml").write_text(
        yaml.safe_dump({"on_demand": 3.0, "preemptible": market})
    )
    return "market.yaml"


@pytest.mark.slow
def test_bids_in_a_market_are_tried_and_checked() -> None:
    found = plan_for(market_of((0.5, 0.5), (0.9, 1.0), (1.0, 6.0)))
    choice = found.recommendation
    assert choice["preemptible"] > 0
    assert choice["bid"] in (0.5, 1.0)
    assert f"at a bid of {choice['bid']:g}" in found.verdict
    assert found.checks["in_time"][0] == 1.0
    alone = found.checks["plan"].index("all on demand")
    assert found.checks["cost"][0] < found.checks["cost"][alone]
    assert {bid for bid in found.frontier["bid"] if bid} <= {0.5, 1.0, 6.0}
    assert any("formula of the uniform bid" in doubt for doubt in found.doubts)


@pytest.mark.slow
def test_two_bids_are_checked_and_told_beside_what_the_formulas_give(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def two_bids(*given: Any) -> list[Plan]:
        found = all_plans(*given)
        return [plan for plan in found if len(plan.groups) == 2 and not plan.on_demand]

    monkeypatch.setattr(planner, "all_plans", two_bids)
    market = market_of((0.5, 0.5), (0.9, 1.0), (1.0, 6.0))
    buffered = plan_for(market)
    assert any("formula of the uniform bid" in doubt for doubt in buffered.doubts)
    found = plan_for(market, pilots=journals_of_rounds(1, 4), target={"loss": 0.15})
    choice = found.recommendation
    assert (choice["bid"], choice["lower_bid"]) == (1.0, 0.5)
    assert 0 < choice["at_lower_bid"] < choice["preemptible"]
    assert "at a bid of 1 and " in found.verdict
    assert " at a bid of 0.5 and train " in found.verdict
    words = "constant number, one bid: no plan is predicted to do it within 30 min 0 s"
    assert words in found.sentences()
    (formula,) = (each for each in found.doubts if "formulas of two bids" in each)
    assert formula.endswith("; the bids would be 0.5 and 0.5.")
    assert "1 + 0.5" in Path("out/plan.html").read_text()
    # The workers of both bids are paid what they bid for, while they are there.
    check = found.check
    workers, until = workers_of(check.plan), check.seconds[1000]
    paid = 0.0
    for own, price in zip(
        workers.stays(1000, 1.1 * 1.5 * 1800),
        [g.offer.price for g in check.plan.groups for _ in range(g.workers)],
        strict=True,
    ):
        paid += price * sum(max(0.0, min(e, until) - b) for b, e in own) / 3600
    assert check.costs[1000] == pytest.approx(paid)


def journals_of_rounds(*clients: int) -> list[str]:
    """Runs rounds of so many clients, which serve as pilots."""
    for count in clients:
        raw = {**FEDERATION, "evaluate": {"every_versions": 2}}
        raw["simulate"] = {**FEDERATION["simulate"], "clients": count}  # type: ignore[dict-item]
        raw["algorithm"] = {**FEDERATION["algorithm"], "buffer": count}  # type: ignore[dict-item]
        latecomer.run(raw, bowl(), folder=f"run-{count}")
    return [f"run-{count}" for count in clients]


@pytest.mark.slow
def test_a_number_that_grows_is_recommended_where_it_is_cheaper() -> None:
    pilots = journals_of_rounds(1, 8)
    found = plan_for(pilots=pilots, target={"loss": 0.05}, workers=8, checks=6)
    choice = found.recommendation
    first = choice["rented"][0][1]
    assert choice["growth"] in FACTORS
    assert choice["rented"][0][0] == 0.0
    assert choice["rented"][-1][1] == choice["on_demand"] + choice["preemptible"]
    assert f" ({first} at first) and train in synchronous rounds" in found.verdict
    (rented,) = (each for each in found.sentences() if each.startswith("workers: "))
    assert rented.startswith(f"workers: {first} at first, {first + 1} from ")
    assert rented.endswith(" on")
    (beside,) = (each for each in found.sentences() if each.startswith("constant num"))
    assert "the recommended plan costs " in beside
    place = found.checks["plan"].index("constant number, one bid")
    assert found.checks["growth"][place] is None
    assert found.checks["cost"][0] < found.checks["cost"][place]
    assert any("No pilot had a number of workers that" in each for each in found.doubts)
    assert "at first" in Path("out/plan.html").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("prices", ["the highest bid", "no preemptions"])
def test_preemptible_workers_that_never_leave_are_planned(prices: str) -> None:
    if prices == "no preemptions":
        found = plan_for(prices_of(preemptions_per_hour=0))
    else:
        found = plan_for(market_of((0.01, 0.5), (1.0, 0.6)))
        assert found.recommendation["bid"] == 0.6
    assert found.recommendation["preemptible"] > 0
    assert found.checks["in_time"][0] == 1.0
    assert "who is there" not in " ".join(found.doubts)
    assert "to leave" not in " ".join(found.doubts)


@pytest.mark.slow
def test_several_numbers_of_local_steps_are_compared() -> None:
    found = plan_for(local_steps=[1, 4], seeds=1)
    ways = {(way.protocol, way.local_steps) for way in found.ways}
    assert ways == {(p, n) for p in ("synchronous", "buffered") for n in (1, 4)}
    steps = found.recommendation["local_steps"]
    assert f"with {steps} local step" in found.verdict
    assert set(found.frontier["local_steps"]) <= {1, 4}
    # Each of the pilots trained for as long as its number of steps says.
    task = {
        way.local_steps: way.task for way in found.ways if way.protocol == "buffered"
    }
    assert task[4] == pytest.approx(4 * task[1], rel=0.05)
    numbers = json.loads(Path("out/plan.json").read_text())
    assert {fit["local_steps"] for fit in numbers["fits"]} == {1, 4}


@pytest.mark.slow
def test_dear_or_fleeting_preemptible_workers_change_the_choice() -> None:
    usual = plan_for()
    assert usual.recommendation["preemptible"] > 0
    alone, half = usual.sentences()[2:4]
    assert alone.startswith("all on demand (")
    assert half.startswith("half and half (")
    assert alone.endswith(
        "less, which may be chance (p = 0.25); more --checks may tell"
    )
    assert "% ± " in alone
    # No seed was late, but three seeds do not make sure of much.
    assert "3 of 3 seeds in time, which makes sure of 37% of all" in usual.verdict
    # Without a plan on demand, that is said.
    words = "all on demand: no plan is predicted to do it within 30 min 0 s"
    assert words in replace(usual, baselines=[]).sentences()
    # A baseline that seemed cheaper, by too few seeds to be recommended instead.
    lucky = replace(usual.baselines[0], costs=dict.fromkeys(usual.check.costs, 1e-6))
    (said,) = (
        each
        for each in replace(usual, baselines=[lucky]).sentences()
        if each.startswith("all on demand (")
    )
    assert "more, which may be chance (p = 0.25); more --checks may tell" in said
    # An hour costs a third less: 40 % cannot be expected.
    near = plan_for(prices_of(price=2.0))
    assert "the same tasks for at most 33% less" in near.sentences()[2]
    dear = plan_for(prices_of(price=9.0))
    assert dear.recommendation["preemptible"] == 0
    assert dear.sentences()[2].endswith("and is the recommended plan")
    assert "save nothing" in " ".join(dear.sentences())
    assert "the same tasks for no less" in " ".join(dear.sentences())
    # A preemption every 4 s, in the middle of a task of 10 s.
    fleeting = plan_for(prices_of(preemptions_per_hour=900.0))
    assert fleeting.recommendation["preemptible"] == 0


@pytest.mark.slow
def test_behind_a_plan_that_is_late_the_cheapest_one_in_time_is_found() -> None:
    # Away half of the time, for longer than the run: sometimes all of them are.
    prices = prices_of(preemptions_per_hour=0.6, recovery_seconds=6000)
    found = plan_for(prices, deadline="5m", checks=10, seeds=1)
    checks = found.checks
    names, costs, in_time = checks["plan"], checks["cost"], checks["in_time"]
    assert names[:3] == ["recommended", "all on demand", "half and half"]
    assert names[3:] == [f"tried {n}" for n in range(1, len(names) - 2)]
    # The one that is predicted to be the cheapest, which is not there when it should.
    assert checks["predicted_cost"][3] == min(checks["predicted_cost"])
    assert in_time[3] < 0.95 <= in_time[0]
    held = [cost for cost, share in zip(costs, in_time, strict=True) if share >= 0.95]
    assert costs[0] == min(held)
    assert 0 < found.recommendation["preemptible"] < 4
    assert found.recommendation["on_demand"] == checks["on_demand"][0]
    assert found.sentences()[-1].startswith("also simulated: 4 preemptible workers (")
    assert any("over the same seeds" in doubt for doubt in found.doubts)


@pytest.mark.slow
def test_a_target_that_short_pilots_hide_is_reached() -> None:
    Path("app.py").write_text(
        "from dataclasses import replace\n"
        "from tests.fedstudies.test_plan import bowl\n"
        "def slow(params, x, y):\n"
        "    loss, gradient = bowl().gradient(params, x, y)\n"
        "    return loss, {'w': gradient['w'] * ([1] * 6 + [0.05] * 2)}\n"
        "workload = replace(bowl(), gradient=slow)\n"
    )
    found = plan_for(target={"loss": 0.35}, deadline="4h", seeds=1)
    # The best fit takes the loss of the slow weights for one that stays.
    assert all(way.model.floor(1 / 4) > 0.35 for way in found.ways)
    assert any("By the best fit to the pilots no plan" in each for each in found.doubts)
    assert found.checks["in_time"][0] == 1.0
    assert found.recommendation["versions"] > 2 * QUICK["pilot_versions"]


def test_a_target_below_what_flat_pilots_show_is_refused() -> None:
    with pytest.raises(ConfigError, match="4 workers come to an error of"):
        plan_for(target={"loss": 0.015}, seeds=1)


@pytest.mark.slow
def test_tables_are_columns_and_the_frontier_falls() -> None:
    found = plan_for(deadline=None, budget=1.0)
    costs = found.frontier["cost"]
    assert costs == sorted(costs, reverse=True)
    assert found.frontier["seconds"] == sorted(found.frontier["seconds"])
    assert found.checks["plan"][0] == "recommended"
    assert any("pilots used seeds 0, 1;" in doubt for doubt in found.doubts)


@pytest.mark.slow
def test_the_recommended_plan_is_seen_where_it_equals_another_one() -> None:
    found = plan_for(deadline=None, budget=1.0)
    assert found.check is not None
    same = replace(found.check, name="all on demand")
    also = replace(found.check, name="half and half")
    drawn = frontier_figure(replace(found, baselines=[same, also], tried=[same])).data
    names = ["predicted", "tried", "all on demand", "half and half", "recommended"]
    assert [trace.name for trace in drawn] == names
    marks = [trace.marker for trace in drawn[1:]]
    assert [mark.size for mark in marks] == sorted({mark.size for mark in marks})
    assert all("open" in mark.symbol or "thin" in mark.symbol for mark in marks)


@pytest.mark.slow
def test_journals_serve_as_pilots() -> None:
    journals_of_rounds(1, 4)
    found = plan_for(pilots=["run-1", "run-4"])
    assert found.recommendation["protocol"] == "synchronous"
    assert not any("as long as predicted" in doubt for doubt in found.doubts)
    # The checks simulate other workers than those of the journals.
    step = {"simulate.step_seconds": 2.0}
    slow = plan_for(pilots=["run-1", "run-4"], changes=step)
    assert any("describe the same workers" in doubt for doubt in slow.doubts)
    with pytest.raises(ConfigError, match="at least 2"):
        plan_for(pilots=["run-4"])
    buffered = {**FEDERATION["algorithm"], "buffer": 2, "synchronous": False}  # type: ignore[dict-item]
    latecomer.run({**FEDERATION, "algorithm": buffered}, bowl(), folder="other")
    both = "pilots, synchronous with 1 local step and buffered with 1 local step: exp"
    with pytest.raises(ConfigError, match=both):
        plan_for(pilots=["run-4", "other"])
    with pytest.raises(ConfigError, match="no evaluations of accuracy; measured: loss"):
        plan_for(pilots=["run-1", "run-4"], target={"accuracy": 0.9})


@pytest.mark.slow
def test_a_deadline_that_nobody_keeps_is_said() -> None:
    found = plan_for(deadline="20s")
    assert found.recommendation == {}
    assert found.verdict.startswith("no plan reaches loss=0.2 within 20 s")


# ------------------------------------------------------------------------ what is wrong


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"--target": "0.9"}, "expected a metric and a number"),
        ({"--target": "accuracy=high"}, "expected a metric and a number"),
        ({"--target": "accuracy=1.5"}, "expected a value below 1"),
        ({"--deadline": "tomorrow"}, "expected a time above 0, such as 90s"),
        ({"--deadline": "0"}, "expected a time above 0"),
        ({"--budget": "-3"}, "expected an amount above 0"),
        ({"--prices": "none.yaml"}, "come with the program: aws_v100_2023"),
        ({"--prices": "."}, "come with the program: aws_v100_2023"),
        ({"--workers": "1"}, "expected at least 2"),
        ({"--local-steps": "few"}, "expected numbers from 1"),
        ({"--target": "speed=0.5"}, "app.py:workload has no evaluations of speed; "),
        ({"--target": "loss=0.0000001"}, "never came near the target"),
        ({"--pilot-versions": "2"}, "pilots: "),
        ({"--pilot": "nowhere"}, "nowhere"),
    ],
)
def test_bad_input_gets_one_sentence(changed: dict[str, str], words: str) -> None:
    usual = {"--prices": "prices.yaml", "--target": "loss=0.2", "--deadline": "30m"}
    usual |= {"--pilot-versions": "15"}
    pairs = [word for pair in {**usual, **changed}.items() for word in pair]
    assert words in refused(*pairs)


@pytest.mark.parametrize(
    ("preemptible", "deadline"),
    [
        ({"preemptions_per_hour": 1e9, "recovery_seconds": 1e-6}, "30m"),
        ({}, "1e300"),
    ],
)
def test_stays_that_would_never_end_to_be_drawn_are_refused(
    preemptible: dict[str, float], deadline: str
) -> None:
    prices = prices_of(**preemptible)
    words = ("--prices", prices, "--target", "loss=0.2", "--deadline", deadline)
    sentence = refused(*words)
    assert "a preemptible worker would come and go" in sentence
    assert "expected 10,000 times or fewer" in sentence


def test_without_a_deadline_the_stays_are_counted_in_the_check() -> None:
    offers = [Offer(1.0, up=1e-6, down=1e-6)]
    with pytest.raises(ConfigError, match=r"come and go some 4\.5e"):
        require_few_returns(offers, 60.0)
    require_few_returns([Offer(1.0, up=math.inf, down=1.0)], math.inf)


def test_neither_deadline_nor_budget_is_refused() -> None:
    words = ("--prices", "prices.yaml", "--target", "loss=0.2")
    assert "say when it should be done" in refused(*words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("on_demand: 3", "preemptible: is missing"),
        ("on_demand: -3\npreemptible: {price: 1}", "on_demand: "),
        ("on_demand: 3\nrestart_seconds: -1", "restart_seconds: "),
        ("on_demand: 3\nrestart_seconds: .inf", "restart_seconds: "),
        ("on_demand: 3\nrestart_seconds: soon", "restart_seconds: "),
        ("on_demnd: 3", "did you mean"),
        ("- 3", "expected on_demand and preemptible, found list"),
        ("a: [", "not YAML"),
        ("on_demand: 3\npreemptible: {price: 1}", "needs price, preemptions_per_hour"),
        (
            "on_demand: 3\npreemptible: {quantiles: [{share: 1, price: 2}]}",
            "quantiles need change_seconds",
        ),
        (
            "on_demand: 3\npreemptible: {change_seconds: 9, quantiles: "
            "[{share: 1, price: 2}, {share: 0.5, price: 3}]}",
            "should rise in share",
        ),
    ],
)
def test_a_wrong_price_file_gets_a_sentence(text: str, words: str) -> None:
    Path("wrong.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_prices("wrong.yaml", PricesConfig)
    assert words in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [1e30, 1e4])
def test_pilots_that_break_down_get_one_sentence(
    rate: float, capfd: pytest.CaptureFixture[str]
) -> None:
    set_rate = {"algorithm.client.lr": rate}
    with pytest.raises(ConfigError, match="one of them broke down; lower the lea"):
        plan_for(changes=set_rate, seeds=1, jobs=2)
    assert "Traceback" not in capfd.readouterr().err


def test_pilots_whose_clients_all_fail_say_why() -> None:
    away = "workload = replace(bowl(), gradient=lambda params, x, y: 1 / 0)"
    text = APP.replace("workload = bowl()", f"from dataclasses import replace\n{away}")
    Path("app.py").write_text(text)
    with pytest.raises(UserCodeError, match=r"cannot train: .*Zer"):
        plan_for(seeds=1)


def test_a_target_that_the_initial_model_reaches_is_told() -> None:
    with pytest.raises(ConfigError, match="have reached the target already"):
        plan_for(target={"loss": 1000.0}, seeds=1)


def test_arguments_of_the_function_are_checked() -> None:
    with pytest.raises(ConfigError, match="expected one metric"):
        plan_for(target={})
    with pytest.raises(ConfigError, match="checks: expected 1 or more"):
        plan_for(checks=0)


def test_a_metric_that_nothing_evaluates_is_told_at_the_first_evaluation() -> None:
    seen = Path("evaluated")
    Path("app.py").write_text(
        "from dataclasses import replace\n"
        "from pathlib import Path\n"
        "from tests.fedstudies.test_plan import bowl\n"
        "def counted(params, x, y):\n"
        "    with Path('evaluated').open('a') as file:\n"
        "        file.write('.')\n"
        "    return bowl().evaluate(params, x, y)\n"
        "workload = replace(bowl(), evaluate=counted)\n"
    )
    with pytest.raises(
        ConfigError,
        match=r"^target accuray=0.9: app.py:workload has no evaluations of accuray; "
        "measured: loss",
    ):
        plan_for(target={"accuray": 0.9})
    assert seen.read_text() == "."


# ------------------------------------------------------------------------------ parts


def test_the_example_has_the_published_share_of_absence() -> None:
    (offer,) = read_prices("aws_v100_2023", PricesConfig).preemptible.offers()
    assert offer.away == pytest.approx(0.356, abs=0.001)


def test_bids_pay_the_mean_of_the_prices_below_them() -> None:
    points = [(0.5, 1.0), (0.8, 2.0), (1.0, 6.0)]
    prices = PricesConfig.model_validate(
        {
            "on_demand": 3.0,
            "preemptible": {
                "change_seconds": 60,
                "quantiles": [{"share": s, "price": p} for s, p in points],
            },
        }
    ).preemptible
    low, middle, high = prices.offers()
    assert (low.price, low.away, low.together) == (1.0, 0.5, True)
    assert middle.price == pytest.approx((0.5 * 1 + 0.3 * 2) / 0.8)
    assert middle.away == pytest.approx(0.2)
    assert high.away == 0.0
    assert high.price == pytest.approx(2.3)
    assert (prices.bid_for(0.6), prices.bid_for(1.1)) == (2.0, None)


def test_times_are_read_as_people_write_them() -> None:
    assert read_duration("--deadline", "1h30m") == 5400
    assert read_duration("--deadline", "90") == 90
    accuracy, loss = (
        target_of(read_target("--target", text))
        for text in ("accuracy=0.9", "loss=0.3")
    )
    assert accuracy.error == pytest.approx(0.1)
    assert loss.error == 0.3


def test_stays_are_what_the_simulator_reads(tmp_path: Path) -> None:
    offer = Offer(1.0, 50.0, 20.0)
    workers = Workers("synchronous", 1, (Group(offer, 2),), 3, None, 10.0)
    stays = workers.stays(7, 1000.0)
    read = read_trace(write_stays(tmp_path / "stays.csv", stays))
    for own, client in zip(stays, read, strict=True):
        found = [end - begin for begin, end in client.stays]
        assert np.allclose(found, [end - begin for begin, end in own], atol=1e-6)
    assert workers.stays(7, 1000.0) == stays
    # One on demand is paid for all of the time, the others for their stays.
    there = sum(end - begin for own in stays[1:] for begin, end in own)
    cost = workers.cost(stays, 1000.0, 3.6)
    assert cost == pytest.approx(1.0 + there / 3600, rel=1e-6)


def test_bidders_come_and_go_together() -> None:
    offer = Offer(1.0, 50.0, 20.0, bid=1.5)
    groups = (Group(offer, 3),)
    stays = Workers("synchronous", 0, groups, 3, None, 10.0).stays(1, 500.0)
    assert stays[0] == stays[1] == stays[2]


def test_workers_of_a_lower_bid_are_there_while_those_of_the_higher_one_are() -> None:
    low, high = (Offer(1.0, 50.0, 50.0, 1.0), Offer(1.5, 100.0, 33.3, 2.0))
    groups = (Group(high, 2), Group(low, 1))
    first, second, third = Workers("buffered", 0, groups, 3, None, None).stays(1, 5e3)
    alone = Workers("buffered", 0, groups[:1], 3, None, None).stays(1, 5e3)
    assert first == second == alone[0]
    assert len(third) > 9
    assert all(any(b <= begin and end <= e for b, e in first) for begin, end in third)


def test_workers_that_come_later_are_neither_there_nor_paid_before() -> None:
    rented = ((0.0, 1), (100.0, 2), (300.0, 4))
    groups = (Group(Offer(1.8, 50.0, 20.0), 2),)
    workers = Workers("synchronous", 2, groups, 4, None, None, rented)
    usual = workers._replace(rented=()).stays(3, 900.0)
    found = workers.stays(3, 900.0)
    assert found[:2] == [[(0.0, 900.0)], [(100.0, 900.0)]]
    for own, before in zip(found[2:], usual[2:], strict=True):
        assert own[0][0] >= 300.0
        assert own[1:] == [stay for stay in before if stay[1] > 300.0][1:]
    there = sum(end - begin for own in found[2:] for begin, end in own)
    cost = workers.cost(found, 900.0, 3.6)
    assert cost == pytest.approx((3.6 * (900 + 800) + 1.8 * there) / 3600)


@pytest.mark.slow
def test_restarts_are_paid_and_take_time() -> None:
    pilots = journals_of_rounds(1, 4)
    raw = {**PRICES, "preemptible": {**PRICES["preemptible"], "price": 0.1}}
    found = []
    for restart in (0, 240):
        Path("slow.yaml").write_text(
            yaml.safe_dump({**raw, "restart_seconds": restart})
        )
        found.append(plan_for("slow.yaml", pilots=pilots, checks=10).check)
    usual, slow = found
    assert usual.plan.preemptible
    assert slow.plan.preemptible
    assert slow.plan.restart == 240
    assert slow.plan.worker_seconds > usual.plan.worker_seconds
    assert slow.cost > usual.cost


def test_a_plan_that_is_refused_leaves_no_folder() -> None:
    with pytest.raises(JournalError, match="no journal here"):
        plan_for(pilots=["none"], out="refused")
    assert not Path("refused").exists()
