"""The numbers of a report against those that a hand computes from the same story."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedcore.coordinator.events import (
    Decided,
    Enrolled,
    Evaluated,
    Failed,
    RunResumed,
)
from fedcore.protocol import Verdict
from fedview.report import write_report
from fedview.report.byte_counts import downloads, uploads
from fedview.report.client_timelines import timelines_of
from fedview.report.loss_summary import loss_summary
from fedview.results import Results
from tests.fedview.report.story import DIM, Story, short_story

DENSE = 4 * DIM


def results_of(story: Story, folder: Path) -> Results:
    return Results(story.write(folder / "run"))


def test_the_summary_counts_what_happened(tmp_path: Path) -> None:
    summary = results_of(short_story(), tmp_path).summary
    assert summary["updates"] == {"accepted": 2, "rejected_stale": 1}
    assert summary["accepted"] == 2
    assert (summary["versions"], summary["clients"]) == (2, 2)
    assert summary["seconds"] == 10.0
    assert summary["ended"] == "2 versions"
    assert summary["restored"] == 0
    assert summary["metrics"] == {"accuracy": 0.5, "loss": 0.9}


def test_bytes_are_those_of_decided_updates_and_of_tasks(tmp_path: Path) -> None:
    summary = results_of(short_story(), tmp_path).summary
    assert summary["bytes_up"] == 40 + 44 + 48
    assert summary["bytes_down"] == 406 + 0 + 20 + 30


def test_uncompressed_leaves_out_a_client_that_was_up_to_date(tmp_path: Path) -> None:
    results = results_of(short_story(), tmp_path)
    up, down = uploads(results), downloads(results)
    assert (up.exchanges, down.exchanges) == (3, 3)  # one of four tasks moved nothing
    assert (up.uncompressed, down.uncompressed) == (3 * DENSE, 3 * DENSE)
    assert results.summary["bytes_uncompressed"] == 6 * DENSE


def test_the_page_says_how_many_times_less_has_travelled(tmp_path: Path) -> None:
    page = write_report(short_story().write(tmp_path / "run")).read_text()
    assert f"{6 * DENSE / (132 + 456):.3g} times less" in page
    assert "132\u00a0bytes\u00a0↑, 456\u00a0bytes\u00a0↓" in page


def test_bytes_add_up_over_time(tmp_path: Path) -> None:
    results = results_of(short_story(), tmp_path)
    moments = np.array([0.0, 3.0, 6.9, 7.0, 100.0])
    assert uploads(results).up_to(moments).tolist() == [0, 40, 40, 84, 132]
    assert downloads(results).up_to(moments).tolist() == [0, 406, 426, 426, 456]
    dense = downloads(results).dense_up_to(moments)
    assert dense.tolist() == [0, DENSE, 2 * DENSE, 2 * DENSE, 3 * DENSE]


def test_clients_evaluations_are_weighted_by_their_samples(tmp_path: Path) -> None:
    story = short_story()
    story.measure("ann", 3.2, 1, samples=30, accuracy=0.5)
    story.measure("bob", 3.3, 1, samples=10, accuracy=0.9, loss=2.0)
    federated = results_of(story, tmp_path).federated
    assert federated["version"] == [1]
    assert federated["accuracy"] == [pytest.approx((30 * 0.5 + 10 * 0.9) / 40)]
    assert federated["loss"] == [2.0]  # of those who measured it
    assert (federated["clients"], federated["samples"]) == ([2], [40])


def test_the_best_is_the_highest_accuracy_and_the_lowest_loss(tmp_path: Path) -> None:
    results = results_of(short_story(), tmp_path)
    assert results.best == {"accuracy": (0.6, 1), "loss": (0.9, 2)}


def test_what_is_not_a_number_is_never_the_best(tmp_path: Path) -> None:
    story = Story()
    story.enrol("judge", role="evaluator")
    story.measure("judge", 1.0, 0, loss=float("nan"))
    story.measure("judge", 2.0, 1, loss=3.0)
    assert results_of(story, tmp_path).best == {"loss": (3.0, 1)}


def test_a_metric_cannot_take_the_place_of_a_column(tmp_path: Path) -> None:
    story = Story()
    story.enrol("judge", role="evaluator")
    values = {"version": 99.0, "seconds": 99.0, "accuracy": 0.5}
    story.records.append(
        Evaluated(at=1.0, cid="id-judge", version=7, values=values, samples=1)
    )
    results = results_of(story, tmp_path)
    assert (results.metrics["version"], results.metrics["seconds"]) == ([7], [1.0])
    names = ["version (metric)", "seconds (metric)", "accuracy"]
    assert results.metric_names == names


def test_clients_of_one_name_are_told_apart(tmp_path: Path) -> None:
    story = Story()
    story.enrol("phone")
    story.enrol("phone", cid="0123456789")
    names = results_of(story, tmp_path).names
    assert names == {
        "id-phone": "phone (id-phone)",
        "0123456789": "phone (01234567)",
    }


def test_an_end_that_was_moved_is_no_end(tmp_path: Path) -> None:
    story = short_story()
    story.records.append(RunResumed(at=11.0))
    assert results_of(story, tmp_path).summary["ended"] is None


# ------------------------------------------------------------------- what was lost


def lost(story: Story, folder: Path) -> tuple[str, str, bool]:
    results = results_of(story, folder)
    loss = loss_summary(results, timelines_of(results))
    return loss.headline, " ".join(loss.sentences), loss.nothing


def test_nothing_is_lost_where_clients_keep_what_was_refused(tmp_path: Path) -> None:
    headline, sentences, nothing = lost(short_story(), tmp_path)
    assert nothing
    assert headline == "Nothing was lost."
    assert "All 2 accepted updates are in the model, each exactly once." in sentences
    assert "The content of 1 refused update went back" in sentences
    assert "1 accepted update carried parts of it" in sentences


def test_clients_that_failed_are_named_with_their_last_error(tmp_path: Path) -> None:
    story = short_story()
    known = next(r.name for r in story.records if isinstance(r, Enrolled))
    story.enrol("broken")
    for error in ("Traceback\nOSError: a", "Traceback\nValueError: no file\n"):
        story.records.append(Failed(at=3.0, cid="id-broken", error=error))
    story.records.insert(3, Failed(at=0.5, cid=f"id-{known}", error="once"))
    headline, sentences, nothing = lost(story, tmp_path)
    assert headline == "Nothing was lost. 1 client failed: broken."
    assert not nothing
    assert (
        "broken failed 2 times, and sent nothing since: ValueError: no file."
        in sentences
    )
    assert f"{known} failed 1 time, and went on: once." in sentences
    failed = Results(tmp_path / "run").summary["failed"]
    assert failed == {known: "once", "broken": "ValueError: no file"}


def test_of_many_clients_that_failed_some_are_named(tmp_path: Path) -> None:
    story = short_story()
    for number in range(9):
        story.enrol(f"c{number}")
        story.records.append(Failed(at=3.0, cid=f"id-c{number}", error="e"))
    headline, sentences, _ = lost(story, tmp_path)
    assert headline.endswith("lost. 9 clients failed: c0, c1, c2, c3, c4 and more.")
    assert "4 more clients failed." in sentences


def test_a_cap_on_samples_is_told(tmp_path: Path) -> None:
    story = short_story()
    capped = "counts for 10 of its 11 samples (algorithm.samples_cap)"
    story.records = [
        replace(record, reason=capped)
        if isinstance(record, Decided) and record.seq == 1
        else record
        for record in story.records
    ]
    _, sentences, _ = lost(story, tmp_path)
    assert "1 update counted for fewer samples than they had" in sentences


def test_a_refused_update_leaves_no_trace_without_a_memory(tmp_path: Path) -> None:
    story = short_story()
    story.config = {"algorithm": {"kind": "fed_avg", "buffer": 1}}
    headline, _, nothing = lost(story, tmp_path)
    assert not nothing
    assert headline == "1 refused update left no trace in the model."


def test_what_waits_in_the_buffer_is_on_disk(tmp_path: Path) -> None:
    story = Story()
    story.enrol("ann")
    story.lease("ann", 1.0)
    story.decide("ann", 2.0)
    headline, sentences, nothing = lost(story, tmp_path)
    assert nothing
    assert headline == "Nothing was lost."
    assert "0 are in the model, each exactly once; 1 wait on disk" in sentences


def test_counts_that_do_not_add_up_are_reported(tmp_path: Path) -> None:
    story = short_story()
    story.records.insert(-1, story.records[-1])  # an end, and then an update
    story.decide("ann", 11.0, base=2)
    headline, sentences, nothing = lost(story, tmp_path)
    assert not nothing
    assert "do not add up" in headline
    assert "in no version" in sentences


def test_a_message_that_counted_twice_is_reported(tmp_path: Path) -> None:
    story = short_story()
    story.sequence["ann"] = 0
    story.decide("ann", 9.5)
    story.step(3, 9.5)
    headline, _, nothing = lost(story, tmp_path)
    assert not nothing
    assert "do not add up" in headline


def test_a_restored_history_is_named(tmp_path: Path) -> None:
    story = short_story()
    story.fork_history(9.7, 2, "restored from a backup")
    headline, sentences, nothing = lost(story, tmp_path)
    assert not nothing
    assert headline.startswith("An older state was restored")
    assert "At version 2 a new history began (restored from a backup)" in sentences


def test_discarded_updates_are_named(tmp_path: Path) -> None:
    story = short_story()
    story.decide("ann", 9.6, verdict=Verdict.DISCARDED, weight=0.0)
    headline, sentences, nothing = lost(story, tmp_path)
    assert not nothing
    assert headline == (
        "Nothing was lost except what had to be discarded. 1 client failed: ann."
    )
    assert "1 update held NaN or infinite values" in sentences


def many(late: int, refused: int = 0, unsent: int = 0, accepted: int = 90) -> Story:
    """A served run of that many updates of each kind."""
    story = Story(config={"algorithm": {"kind": "latecomer"}})
    story.start(0.0)
    story.enrol("ann")
    for number in range(accepted):
        story.lease("ann", number)
        story.decide("ann", number + 0.5)
    for _ in range(unsent + (unsent > 0)):
        story.lease("ann", 100.0)
    for verdict, count in (
        (Verdict.REJECTED_STALE, late),
        (Verdict.REJECTED_POLICY, refused),
    ):
        for _ in range(count):
            story.decide(
                "ann", 101.0, verdict=verdict, weight=0.0, staleness=200, reason="why"
            )
    story.step(1, 102.0, count=accepted)
    return story


@pytest.mark.parametrize("served", [True, False])
def test_tasks_of_clients_that_never_came_back_had_no_use(
    tmp_path: Path, served: bool
) -> None:
    story = Story(config={"algorithm": {"kind": "latecomer"}})
    if served:
        story.start(0.0)
    names = [f"c{number}" for number in range(30)]
    for name in names:
        story.enrol(name)
    for name in names:
        story.lease(name, 1.0)
    for name in names[:20]:
        story.decide(name, 2.0)
    story.step(1, 2.0, count=20)
    for name in names[20:29]:
        story.lose(name, 60.0)
    story.close(100.0, 1)  # the last one trains to the end
    headline, sentences, nothing = lost(story, tmp_path)
    assert "9 tasks (31%) ended without an update" in sentences
    assert ("since devices drop out as simulate says" in sentences) == (not served)
    # A simulation was asked for it: there is nothing to warn of.
    wasted = " 31% of the work was never sent." if served else ""
    assert headline == f"Nothing was lost.{wasted}"
    assert nothing == (not served)
    page = write_report(tmp_path / "run").read_text()
    assert ('<div class="verdict warn">' in page) == served
    assert ("out of reach 9 times" in page) == served
    assert "lost 9 times" not in page


@pytest.mark.parametrize(
    ("story", "headline"),
    [
        (many(4), "Nothing was lost."),
        (many(10), "Nothing was lost. 10% of the work came too late."),
        (
            many(90, 10, 10),
            "Nothing was lost. 45% of the work came too late, 5% was refused and "
            "5% was never sent.",
        ),
        (many(30, 1, accepted=300), "Nothing was lost. 9% of the work came too late."),
        (many(10, accepted=9), "Nothing was lost."),  # of too few to judge
    ],
)
def test_work_that_had_no_use_is_judged(
    tmp_path: Path, story: Story, headline: str
) -> None:
    told, sentences, nothing = lost(story, tmp_path)
    assert told == headline
    assert nothing == (headline == "Nothing was lost.")
    assert "came too late: why (algorithm.staleness_limit)." in sentences
