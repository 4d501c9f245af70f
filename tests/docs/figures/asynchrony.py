"""The tables of docs/benchmarks.md on asynchrony, as they follow from the results."""

from collections.abc import Iterator, Sequence
from itertools import permutations
from statistics import fmean

from benchmarks.asynchrony.campaign import Campaign, Store
from benchmarks.asynchrony.contenders import (
    ADA_10,
    ADAPTIVE,
    AVERAGED,
    BOOSTED,
    BUFFERED,
    CODED,
    EARLIER,
    OURS,
    SYNCHRONOUS,
    UNBOOSTED,
)
from benchmarks.asynchrony.course import Outcome, Setting
from benchmarks.asynchrony.problem import PROBLEMS
from benchmarks.asynchrony.report import Outcomes, Ratio, sooner, times, told
from tests.docs.figures.series import Series
from tests.docs.pages import ROOT

RESULTS = ROOT / "benchmarks" / "results" / "asynchrony.json"
SEEDS = (1, 2, 3)
FIVE = (1, 2, 3, 4, 5)  # of those that are compared with FedBuff more closely
TITLES = {  # a setting as the page calls it, in its order
    ("log_normal", 1000): "log-normal, 1,000 in flight",
    ("log_normal", 200): "log-normal, 200 in flight",
    ("pareto", 1000): "Pareto, 1,000 in flight",
    ("pareto", 200): "Pareto, 200 in flight",
}
LEFT_OUT = (UNBOOSTED, ADA_10, EARLIER)  # of the tables
LARGER = {  # other problems: the clients in flight, the seeds, and how they are called
    "cnn": (30, SEEDS, "a CNN, 30 of 200 in flight"),
    "watch": (10, FIVE, "ten people"),
}


def campaign(speed: str, flight: int, problem: str = "mlp") -> Campaign:
    """A setting with what was saved of it."""
    setting = Setting(PROBLEMS[problem], "", speed, flight)
    return Campaign(setting, Store(RESULTS), print, 0.0, 0)


def table(speed: str, flight: int) -> list[str]:
    """Every row of a setting's table, its head included."""
    return _table(campaign(speed, flight), SEEDS, TITLES[speed, flight])


def larger(problem: str) -> list[str]:
    """Every row of another problem's table, its head included."""
    flight, seeds, title = LARGER[problem]
    return _table(campaign("log_normal", flight, problem), seeds, title)


def _table(kept: Campaign, seeds: Sequence[int], title: str) -> list[str]:
    done = kept.done(seeds)
    target = kept.target
    columns = [f"time to {target:.2f}".replace(" 0.", " .")]
    columns += [f"times as fast as {SYNCHRONOUS}", "95 % interval"]
    head = f"| {title} | {' | '.join(columns)} |"
    lines = [head, "| --- " * (1 + len(columns)) + "|"]
    for name, outcomes in done.items():
        if name in LEFT_OUT:
            continue
        cells = [name, told(times(outcomes, target)), *_ratio(done, name, target)]
        lines.append(f"| {' | '.join(cells)} |".replace("|  |", "| |"))
    return [line.replace("|  |", "| |") for line in lines]


def against_both() -> list[str]:
    """Returns the table of five seeds, its head included."""
    head = ["time to .80", SYNCHRONOUS, BUFFERED, OURS]
    for name in (BUFFERED, SYNCHRONOUS):
        head += [f"times as fast as {name}", "95 % interval"]
    lines = [f"| {' | '.join(head)} |", "| --- " * len(head) + "|"]
    for setting, title in TITLES.items():
        kept = campaign(*setting)
        target, done = kept.target, kept.done(FIVE)
        cells = [told(times(done[name], target)) for name in head[1:4]]
        for to in (BUFFERED, SYNCHRONOUS):
            cells += _ratio(done, OURS, target, to)
        lines.append(f"| {' | '.join([title, *cells])} |")
    return lines


def ratios() -> Iterator[Series]:
    """How much sooner each is than each, in all settings."""
    for speed, flight in TITLES:
        kept = campaign(speed, flight)
        five = kept.done(FIVE)
        for name in (AVERAGED, OURS, ADAPTIVE):
            for other in (BUFFERED, SYNCHRONOUS):
                for target in kept.setting.problem.targets:
                    closer = sooner(five[other], five[name], target)
                    assert closer is not None
                    yield from _series(closer)
        done = kept.done(SEEDS)
        for name in (SYNCHRONOUS, OURS, CODED, BOOSTED):
            for other, outcomes in done.items():
                for target in kept.setting.problem.targets:
                    found = sooner(outcomes, done[name], target)
                    back = sooner(done[name], outcomes, target)
                    for ratio in (found, back):
                        if ratio is not None and other != name:
                            yield from _series(ratio)


def others() -> Iterator[Series]:
    """How much sooner each is than each, in the other problems."""
    for problem, (flight, seeds, _) in LARGER.items():
        kept = campaign("log_normal", flight, problem)
        done = kept.done(seeds)
        for (_, ours), (_, theirs) in permutations(done.items(), 2):
            for target in kept.setting.problem.targets:
                found = sooner(theirs, ours, target)
                if found is not None:
                    yield from _series(found)


def sizes() -> Iterator[Series]:
    """The megabytes of the CNN's runs, and how many times those of other recipes."""
    done = campaign("log_normal", LARGER["cnn"][0], "cnn").done(SEEDS)
    megabytes = {
        name: fmean(outcome.payload or 0 for outcome in outcomes) / 1e6
        for name, outcomes in done.items()
    }
    for one, other in permutations(megabytes, 2):
        yield Series.of([megabytes[one]])
        yield Series.of([megabytes[one] / megabytes[other]])


def latest() -> Iterator[Series]:
    """How late the latest update of the default recipe was in each setting."""
    for speed, flight in TITLES:
        outcomes = campaign(speed, flight).done(SEEDS)[OURS]
        yield Series.of(outcome.largest for outcome in outcomes)


def controls() -> Iterator[Series]:
    """Where the negative control ended."""
    for speed, flight in TITLES:
        for _, _, outcome in campaign(speed, flight).controls():
            yield Series.of([outcome.held[-1]])


def _series(ratio: Ratio) -> Iterator[Series]:
    yield Series.of([ratio.mean])
    yield Series.of([ratio.low, ratio.high])


def _ratio(
    done: dict[str, list[Outcome]], name: str, target: float, to: str = SYNCHRONOUS
) -> tuple[str, str]:
    if name == to:
        return "", ""
    theirs: Outcomes = done[to]
    ratio = sooner(theirs, done[name], target)
    if ratio is None:
        return "", ""
    return f"{ratio.mean:.2f}", f"{ratio.low:.2f} to {ratio.high:.2f}"


def bare(number: float) -> str:
    return f"{number:g}".removeprefix("0")
