"""The result of a drill: versions, shares, accuracy, and the late site's classes."""

from collections import Counter
from collections.abc import Sequence

from benchmarks.hospitals.app import evaluate
from benchmarks.hospitals.schedule import Event
from fedcore.coordinator.events import Decided, Leased, Stepped
from fedcore.protocol import Verdict
from fedcore.typing import JSON, Seconds
from fedview.results import Results
from latecomer.data import digits


def outcome(results: Results, events: Sequence[Event], minute: Seconds) -> JSON:
    """The figures of one run.

    Args:
        results: of the run, which has ended.
        events: what happened to it.
        minute: how many of the run's seconds are a minute of the schedule.
    """
    began = min(r.at for r in results.of(Leased) if r.cid not in results.evaluators)
    decided = results.of(Decided)
    accepted = [(r.cid, r.seq) for r in decided if r.verdict is Verdict.ACCEPTED]
    first = min(event.at for event in events if event.minutes)
    steps = [(step.at - began) / minute for step in results.of(Stepped)]
    shares = zip(results.shares["client"], results.shares["share"], strict=True)
    verdicts = Counter(record.verdict.value for record in decided)
    return {
        "versions": len(steps),
        "versions_before": sum(at <= first for at in steps),
        "verdicts": dict(verdicts),
        "shares": {name: round(share, 4) for name, share in sorted(shares)},
        **{name: round(v, 4) for name, v in evaluate(_last(results), *_test()).items()},
        "doubled": len(accepted) - len(set(accepted)),
    }


def _last(results: Results) -> JSON:
    model: JSON = results.model("last")
    return model


def _test() -> tuple[object, object]:
    x, y = digits("test")
    return x, y
