from pathlib import Path

import numpy as np
import pytest

from fedcore.protocol import Verdict
from fedview.report import staleness
from fedview.report.downsample import Bins, downsample, floats
from fedview.report.history import history
from fedview.results import Results
from tests.fedview.report.story import Story, short_story


def updates(folder: Path, *pairs: tuple[int, float, Verdict]) -> Results:
    story = Story()
    story.enrol("ann")
    for at, (late, weight, verdict) in enumerate(pairs):
        story.decide("ann", float(at), staleness=late, weight=weight, verdict=verdict)
    return Results(story.write(folder / "run"))


def test_the_histogram_counts_verdicts_and_averages_weights(tmp_path: Path) -> None:
    yes, no = Verdict.ACCEPTED, Verdict.REJECTED_STALE
    results = updates(
        tmp_path, (0, 1.0, yes), (2, 0.5, yes), (2, 0.25, yes), (2, 0.0, no)
    )
    found = staleness.count(results)
    assert found.starts.tolist() == [0, 1, 2]
    assert found.updates[yes].tolist() == [1, 0, 2]
    assert found.updates[no].tolist() == [0, 0, 1]
    np.testing.assert_array_equal(found.weight, [1.0, np.nan, 0.375])
    np.testing.assert_array_equal(found.lightest, [1.0, np.nan, 0.25])
    np.testing.assert_array_equal(found.heaviest, [1.0, np.nan, 0.5])


def test_a_straggler_does_not_press_all_others_into_one_bar(tmp_path: Path) -> None:
    yes = Verdict.ACCEPTED
    pairs = [(late % 10, 1.0, yes) for late in range(1000)]
    found = staleness.count(updates(tmp_path, *pairs, (100_000, 1.0, yes)))
    assert found.width == 1
    assert found.updates[yes][:10].tolist() == [100] * 10
    assert found.updates[yes][-1] == 1
    assert found.most == 100_000


def test_an_update_of_the_future_counts_as_not_late(tmp_path: Path) -> None:
    found = staleness.count(updates(tmp_path, (-3, 1.0, Verdict.REJECTED_POLICY)))
    assert found.updates[Verdict.REJECTED_POLICY].tolist() == [1]


def test_the_history_names_epochs_and_the_end(tmp_path: Path) -> None:
    story = short_story()
    story.records.pop()
    story.fork_history(9.7, 2, "restored from a backup")
    story.close(10.0, 2)
    assert history(Results(story.write(tmp_path / "run"))) == [
        (9.7, "new epoch", "at version 2: restored from a backup"),
        (10.0, "ended", "2 versions"),
    ]


@pytest.mark.parametrize("count", [0, 1, 5, 100])
def test_thinning_keeps_the_first_and_the_last(count: int) -> None:
    rows = downsample(count, 5)
    assert len(rows) == min(count, 5)
    if count:
        assert (rows[0], rows[-1]) == (0, count - 1)


def test_bins_average_what_is_known() -> None:
    bins = Bins.of(6, 3)
    values = floats([1.0, 3.0, None, 5.0, None, float("nan")])
    np.testing.assert_array_equal(bins.mean(values), [2.0, 5.0, np.nan])
    weighted = bins.mean(values, floats([1, 3, 1, 1, 1, 1]))
    np.testing.assert_array_equal(weighted, [2.5, 5.0, np.nan])
    assert bins.quantiles(np.arange(6.0), (0.0, 1.0)).tolist() == [[0, 2, 4], [1, 3, 5]]
    assert Bins.of(0, 3).mean(floats([])).tolist() == []
