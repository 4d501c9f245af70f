"""What came of a run, as tables."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from fedcore.errors import ConfigError, JournalError, ModelError
from fedcore.protocol import Verdict
from fedrun.journal import Journal
from fedrun.journal.tally import Tally, TallyRow
from fedview.report.header import _metrics
from fedview.results import Results
from tests.fedview.report.story import Story, short_story


def results(story: Story, folder: Path) -> Results:
    return Results(story.write(folder / "run"))


def test_the_columns_of_a_table_are_equally_long(tmp_path: Path) -> None:
    done = results(short_story(), tmp_path)
    for name in ("metrics", "central", "versions", "updates", "tasks", "losses"):
        table = getattr(done, name)
        assert table, name
        assert len({len(column) for column in table.values()}) == 1, name


def test_the_tables_tell_the_story(tmp_path: Path) -> None:
    done = results(short_story(), tmp_path)
    assert done.versions["version"] == [1, 2]
    assert done.versions["seconds"] == [3.0, 9.0]
    assert done.updates["client"] == ["ann", "bob", "bob"]
    assert done.updates["verdict"] == ["accepted", "rejected_stale", "accepted"]
    assert done.updates["loss"] == [0.7, 0.7, None]
    assert done.tasks["patch"] == ["full", "none", "replay", "overwrite"]
    assert done.losses == {"seconds": [5.0], "client": ["bob"]}
    assert done.central["accuracy"] == [0.1, 0.6, 0.5]


def test_best_is_the_largest_accuracy_and_the_smallest_loss(tmp_path: Path) -> None:
    done = results(short_story(), tmp_path)
    assert done.best == {"accuracy": (0.6, 1), "loss": (0.9, 2)}


def test_a_metric_that_is_no_number_is_not_the_best(tmp_path: Path) -> None:
    story = Story()
    story.enrol("judge", role="evaluator")
    story.measure("judge", 0.0, 0, loss=1.0)
    story.measure("judge", 1.0, 1, loss=float("nan"))
    done = results(story, tmp_path)
    assert done.best == {"loss": (1.0, 0)}
    assert str(done.summary["metrics"]) == "{'loss': nan}"  # it does not vanish
    [(_, value, remark), *_] = _metrics(done)
    assert (value, remark) == ("nan", "best 1 at version 0; n\u00a0=\u00a010")


def test_what_no_client_has_a_number_for_does_not_vanish(tmp_path: Path) -> None:
    story = Story()
    for number, name in enumerate(("ann", "ben")):
        story.enrol(name)
        error = 0.5 if number == 0 else math.nan
        story.measure(name, 1.0, 1, loss=math.nan, error=error)
    table = results(story, tmp_path).federated
    assert str(table["loss"]) == "[nan]"
    assert table["error"] == [0.5]


def test_n_stands_beside_what_clients_have_measured(tmp_path: Path) -> None:
    story = Story()
    story.enrol("ann")
    story.enrol("bob")
    story.measure("ann", 1.0, 1, samples=10, accuracy=0.1)  # and again, after a loss
    story.measure("ann", 2.0, 1, samples=10, accuracy=0.5, loss=2.0)
    story.measure("bob", 2.0, 1, samples=30, accuracy=0.9, loss=math.nan)
    story.measure("bob", 3.0, 2, samples=30, accuracy=0.7)
    done = results(story, tmp_path)
    table = done.federated
    assert table["clients"] == [2, 1]
    assert table["samples"] == [40, 30]
    assert table["accuracy"] == [pytest.approx(0.8), 0.7]
    assert table["accuracy_n"] == [40, 30]
    assert table["loss"] == [2.0, None]
    assert table["loss_n"] == [10, None]
    assert done.by_client["client"] == ["ann", "bob"]
    assert done.by_client["version"] == [1, 2]
    assert done.by_client["samples"] == [10, 30]
    assert done.by_client["accuracy"] == [0.5, 0.7]
    assert done.summary["federated"]["accuracy_n"] == 30
    [(name, value, remark)] = _metrics(done)
    assert (name, value) == ("Clients' accuracy", "0.7")
    assert remark == "version 2 by 1 client, weighted by samples; n\u00a0=\u00a030"


def test_clients_of_one_name_are_told_apart(tmp_path: Path) -> None:
    story = Story()
    story.enrol("ann")
    story.enrol("ann", cid="0123456789abcdef")
    story.enrol("bob")
    names = results(story, tmp_path).names
    assert list(names.values()) == ["ann (id-ann)", "ann (01234567)", "bob"]


def test_what_clients_measure_is_weighted_by_their_samples(tmp_path: Path) -> None:
    story = Story()
    for name, samples, accuracy in (("ann", 10, 0.5), ("bob", 30, 0.9)):
        story.enrol(name)
        story.measure(name, 1.0, 1, samples=samples, accuracy=accuracy)
    table = results(story, tmp_path).federated
    assert table["accuracy"] == [pytest.approx(0.8)]
    assert (table["clients"], table["samples"]) == ([2], [40])


def test_a_run_that_goes_on_has_no_end(tmp_path: Path) -> None:
    story = short_story()
    story.records.pop()
    assert results(story, tmp_path).summary["ended"] is None


def test_a_run_in_which_nothing_happened_has_empty_tables(tmp_path: Path) -> None:
    done = results(Story(), tmp_path)
    assert (done.updates, done.metrics, done.best) == ({}, {}, {})
    assert done.summary["updates"] == {}
    assert done.seconds == 0.0


def test_refusals_are_counted_by_their_verdict(tmp_path: Path) -> None:
    story = Story()
    story.enrol("ann")
    for verdict in (Verdict.ACCEPTED, Verdict.REJECTED_STALE, Verdict.REJECTED_STALE):
        story.decide("ann", 1.0, verdict=verdict)
    summary = results(story, tmp_path).summary
    assert summary["updates"] == {"accepted": 1, "rejected_stale": 2}


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="no journal here"):
        _ = Results(tmp_path).records
    with pytest.raises(ModelError, match=r"last\.safetensors: no such file"):
        results(Story(), tmp_path).model()


def test_all_updates_count_by_the_newest_settings(tmp_path: Path) -> None:
    """Sums of samples, and of updates, would not add up; the status does the same."""
    story = Story(config={"algorithm": {"kind": "fed_buff", "weigh_by": "samples"}})
    for name in ("ann", "bob"):
        story.enrol(name)
    story.decide("ann", 1.0, samples=1000)
    told = results(story, tmp_path)
    assert told.shares["share"] == [1.0, 0.0]
    config = told.configured.config
    algorithm = {**config["algorithm"], "weigh_by": "updates", "kind": "of_an_app"}
    amended = replace(told.configured, config={**config, "algorithm": algorithm})
    journal = Journal.open(told.folder)
    journal.append([amended])
    story.records.clear()
    story.decide("bob", 3.0, samples=10)
    journal.append(story.records)
    journal.close()
    assert Results(told.folder).shares["share"] == [0.5, 0.5]


def test_clients_that_are_quick_have_their_share(tmp_path: Path) -> None:
    """Stacks keep what happened at the moment at which all joined."""
    told, tally = Story(), Tally()
    told.enrol("ann")
    nothing = TallyRow._make([0] * len(TallyRow._fields))
    tally.add(nothing._replace(seq=1, weight=1.0, samples=5))
    told.records.append(tally.take(0.0))
    assert results(told, tmp_path).shares["share"] == [1.0]


@pytest.mark.needs("pandas")
def test_tables_are_data_frames_where_pandas_is(tmp_path: Path) -> None:
    done = results(short_story(), tmp_path)
    frame = done.frame()
    assert list(frame.columns) == list(done.metrics)
    assert list(done.frame("updates")["client"]) == ["ann", "bob", "bob"]


def test_where_it_is_not_a_sentence_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = results(short_story(), tmp_path)
    monkeypatch.setattr("fedrun.optional.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"pandas: pip install 'latecomer\[frames\]'"):
        done.frame()
    with pytest.raises(ConfigError, match="frame 'rounds': expected one of metrics, "):
        done.frame("rounds")


def test_a_notebook_shows_the_run_in_a_few_lines(tmp_path: Path) -> None:
    shown = results(short_story(), tmp_path / "<b>")._repr_html_()
    assert "<th>best accuracy</th><td>0.6 at 1</td>" in shown
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown
