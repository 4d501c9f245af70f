"""Says what was lost in a run, from the verdicts in its journal."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fedcore.compressors import MemoryConfig
from fedcore.config import kind_of, methods
from fedcore.coordinator.events import Decided, HistoryForked
from fedcore.protocol import Verdict
from fedrun.units import amount
from fedview.report.client_timelines import ClientTimeline
from fedview.results import Results

MOST_NAMED = 5  # clients that failed
_REFUSED = (Verdict.REJECTED_POLICY, Verdict.REJECTED_MALFORMED)
# The headline names useless work from this share of the tasks on,
MUCH = 0.05
# if there were at least this many tasks.
ENOUGH = 20


class LossSummary(NamedTuple):
    """The headline on losses, and sentences that explain it."""

    headline: str
    sentences: list[str]
    nothing: bool


def loss_summary(results: Results, timelines: dict[str, ClientTimeline]) -> LossSummary:
    """Says what was lost, from the verdicts and counts of the journal."""
    updates = results.summary["updates"]
    refused = sum(updates.values()) - results.summary["accepted"]
    decided = results.of(Decided)
    discarded = updates.get(Verdict.DISCARDED.value, 0)
    refused -= discarded
    epochs = results.of(HistoryForked)
    gone = refused if not has_memory(results) else 0
    sentences = [_describe_accepted(results)]
    if refused:
        sentences.append(_describe_refused(results, refused, gone))
    late = updates.get(Verdict.REJECTED_STALE.value, 0)
    if late:
        sentences.append(
            f"{amount(late, 'update')} came too late: {_reason(decided)} "
            "(algorithm.staleness_limit)."
        )
    if discarded:
        sentences.append(
            f"{amount(discarded, 'update')} held NaN or infinite values and had to be "
            "discarded."
        )
    capped = sum(r.verdict is Verdict.ACCEPTED and r.reason != "" for r in decided)
    if capped:
        sentences.append(
            f"{amount(capped, 'update')} counted for fewer samples than they had "
            "(algorithm.samples_cap)."
        )
    fruitless = sum(timeline.fruitless for timeline in timelines.values())
    if fruitless:
        sentences.append(_fruitless(results, fruitless))
    sentences += _describe_failures(results)
    sentences += [
        f"{name} left out {amount(samples, 'sample')} in {amount(tasks, 'task')}: "
        f"{why}."
        for name, (samples, tasks, why) in list(results.skipped.items())[:MOST_NAMED]
    ]
    sentences += [
        f"At version {e.version:,} a new history began ({e.reason}): clients send what "
        "the server lost again, as far as they remember it."
        for e in epochs
    ]
    if epochs:
        headline = (
            "An older state was restored: what clients no longer remember is lost."
        )
        return LossSummary(headline, sentences, nothing=False)
    if not _is_balanced(results):
        headline = "The counts do not add up: please report this."
        return LossSummary(headline, sentences, nothing=False)
    headline = "Nothing was lost."
    if discarded:
        headline = "Nothing was lost except what had to be discarded."
    if gone:
        headline = f"{amount(gone, 'refused update')} left no trace in the model."
    # A simulated device drops out since the config says so: nothing to warn of.
    wasted = _describe_waste(updates, 0 if results.has_virtual_time else fruitless)
    headline = _with_waste(headline, wasted)
    missing = [n for n, failure in results.failures.items() if not failure.went_on]
    if missing:
        more = " and more" if len(missing) > MOST_NAMED else ""
        some = ", ".join(missing[:MOST_NAMED]) + more
        headline += f" {amount(len(missing), 'client')} failed: {some}."
    return LossSummary(headline, sentences, nothing=not (gone or missing or wasted))


def _fruitless(results: Results, tasks: int) -> str:
    share = f"{tasks / (tasks + sum(results.summary['updates'].values())):.0%}"
    why = "as when a device drops out while it trains"
    if results.has_virtual_time:
        why = "since devices drop out as simulate says"
    return (
        f"{amount(tasks, 'task')} ({share}) ended without an update, {why}; that work "
        "was never sent."
    )


def _describe_waste(updates: Mapping[str, int], fruitless: int) -> list[str]:
    """Says which shares of the work had no use, if they are large.

    Updates after the end of the run are left out: nobody needed them.
    """
    parts = {
        "came too late": updates.get(Verdict.REJECTED_STALE.value, 0),
        "was refused": sum(updates.get(each.value, 0) for each in _REFUSED),
        "was never sent": fruitless,
    }
    whole = sum(updates.values()) + fruitless
    if whole < ENOUGH or sum(parts.values()) < MUCH * whole:
        return []
    shares = {what: f"{count / whole:.0%}" for what, count in parts.items()}
    found = [f"{share} {what}" for what, share in shares.items() if share != "0%"]
    return [found[0].replace("% ", "% of the work ", 1), *found[1:]]


def _with_waste(headline: str, wasted: Sequence[str]) -> str:
    if not wasted:
        return headline
    *first, last = wasted
    some = f"{', '.join(first)} and {last}" if first else last
    return f"{headline} {some}."


def _reason(decided: Sequence[Decided]) -> str:
    """Says how stale the stalest update was; stacked runs keep no reasons."""
    stale = (r for r in decided if r.verdict is Verdict.REJECTED_STALE)
    latest = max(stale, key=lambda r: r.staleness)
    return latest.reason or f"up to {amount(latest.staleness, 'version')}"


def _describe_failures(results: Results) -> list[str]:
    """Makes a sentence for each of the first clients that failed."""
    failures = results.failures
    sentences = [
        f"{name} failed {amount(times, 'time')}, "
        f"{'and went on' if went_on else 'and sent nothing since'}: {error}."
        for name, (times, error, went_on) in list(failures.items())[:MOST_NAMED]
    ]
    if len(failures) > MOST_NAMED:
        sentences.append(f"{len(failures) - MOST_NAMED:,} more clients failed.")
    return sentences


def _describe_accepted(results: Results) -> str:
    accepted, waiting = results.summary["accepted"], _waiting(results)
    if not accepted:
        return "No update was accepted yet."
    if waiting < 0:
        return f"Versions hold {-waiting:,} more updates than were accepted."
    if not waiting:
        if accepted == 1:
            return "The one accepted update is in the model, exactly once."
        return f"All {accepted:,} accepted updates are in the model, each exactly once."
    rest = "wait on disk for the next version"
    if not _is_balanced(results):
        rest = "are in no version, though the run has ended"
    return (
        f"Of {amount(accepted, 'accepted update')}, {accepted - waiting:,} are in the "
        f"model, each exactly once; {waiting:,} {rest}."
    )


def _waiting(results: Results) -> int:
    """Returns how many accepted updates are in no version yet."""
    applied = sum(results.versions.get("updates", []))
    return int(results.summary["accepted"]) - applied


def _is_balanced(results: Results) -> bool:
    """Returns whether no update counts twice, and none waits after the end."""
    messages = [
        (r.cid, r.seq) for r in results.of(Decided) if r.verdict is Verdict.ACCEPTED
    ]
    if len(set(messages)) < len(messages):
        return False
    waiting = _waiting(results)
    return waiting == 0 or (waiting > 0 and results.summary["ended"] is None)


def _describe_refused(results: Results, refused: int, gone: int) -> str:
    if gone:
        return (
            f"{amount(refused, 'update')} had no use, and this uplink has no error "
            "memory that could send them later (uplink: error_feedback has one)."
        )
    table = results.updates
    carried = sum(
        verdict == Verdict.ACCEPTED.value and oldest is not None
        for verdict, oldest in zip(table["verdict"], table["oldest"], strict=True)
    )
    return (
        f"The content of {amount(refused, 'refused update')} went back into the "
        f"clients' error memories; {amount(carried, 'accepted update')} carried parts "
        "of it."
    )


def has_memory(results: Results) -> bool:
    """Returns whether clients can keep what a refused update held."""
    remember = {kind_of(method) for method in methods(MemoryConfig)}
    return results.setting("algorithm", "uplink", "kind", default="") in remember
