"""Whatever a run holds, its page can be drawn, read, and fits the screen."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plotly.graph_objects import Bar, Figure, Heatmap, Scatter

from fedcore.coordinator.events import Paused
from fedcore.protocol import Verdict
from fedview.report import partition_page, theme, write_report
from fedview.report.page import Section, page, plot, table
from fedview.report.partition import Shares
from tests.fedview.report.story import Story, short_story
from tests.page_faults import faults_of

ODD = [math.nan, math.inf, -math.inf, 0.0, -1.0, 1.0, 1e308, -1e308, 5e-324]


def odd_run(values: list[float]) -> Story:
    """A run whose losses, metrics and norms are these; its updates weigh nothing."""
    story = Story()
    story.enrol("ann")
    story.enrol("judge", role="evaluator")
    for at, value in enumerate(values):
        story.lease("ann", float(at), version=at)
        odd = {"loss": value, "memory_norm": value, "update_norm": value}
        story.decide("ann", at + 0.5, base=at, weight=0.0, **odd)
        story.step(at + 1, at + 0.5, gap=value)
        story.measure("judge", at + 0.6, at + 1, accuracy=value, loss=value)
    return story


def nobody() -> Story:
    return Story()


def nothing() -> Story:
    story = Story()
    story.enrol("ann")
    return story


def all_at_once() -> Story:
    story = Story()
    story.enrol("ann")
    story.lease("ann", 0.0, nbytes=0, patch="none")
    story.decide("ann", 0.0, nbytes=0)
    story.step(1, 0.0)
    story.close(0.0, 1)
    return story


def every_verdict() -> Story:
    story = Story()
    story.enrol("ann")
    for at, verdict in enumerate(Verdict):
        story.decide("ann", float(at), verdict=verdict, weight=0.0, staleness=-5)
    return story


def late() -> Story:
    """Updates of which each was trained from an older version than the last one."""
    story = Story()
    story.enrol("ann")
    for at in range(40):
        story.decide("ann", at + 0.5, base=max(0, at - at % 7), staleness=at % 7)
        story.step(at + 1, at + 0.5)
    return story


def marked() -> Story:
    """Stops, starts and pauses that are close to each other."""
    story = short_story()
    story.records.pop()
    story.start(0.0)
    story.stop(2.0)
    story.start(2.2)
    story.fork_history(2.2, 0, "restored an older state")
    story.records += [Paused(at=at) for at in (0.0, 6.0, 6.01, 6.02, 9.99)]
    story.records.sort(key=lambda record: record.at)
    story.close(10.0, 2)
    return story


@pytest.mark.parametrize(
    "story", [nobody, nothing, all_at_once, every_verdict, late, marked, short_story]
)
def test_the_page_of_any_run_is_sound(
    tmp_path: Path, story: Callable[[], Story]
) -> None:
    text = write_report(story().write(tmp_path / "run")).read_text()
    assert faults_of(text) == []


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize("value", ODD)
def test_the_page_of_a_run_with_odd_numbers_is_sound(
    tmp_path: Path, value: float
) -> None:
    for values in ([value], [1.0, value, 2.0]):
        folder = odd_run(values).write(tmp_path / f"run{len(values)}")
        assert faults_of(write_report(folder).read_text()) == []


@pytest.mark.parametrize("counts", [[[3]], [[0, 0]], [[0, 0], [0, 5]], None])
def test_the_page_of_any_partition_is_sound(
    tmp_path: Path, counts: list[list[int]] | None
) -> None:
    counts_NC = None if counts is None else np.array(counts)
    samples_N = np.array([0]) if counts_NC is None else counts_NC.sum(axis=1)
    names = [f"client-{place}" for place in range(len(samples_N))]
    out = partition_page(Shares(names, samples_N, counts_NC), tmp_path / "data.html")
    assert faults_of(out.read_text()) == []


# --------------------------------------------------------------------- any figure

odd_numbers = st.lists(st.sampled_from(ODD) | st.none(), max_size=4)


def paged(*figures: Figure) -> str:
    drawn = [plot(theme.dress(figure, 300), "a figure") for figure in figures]
    return page("title", "", [Section("a", "b", "", drawn)])


@given(odd_numbers, odd_numbers, st.booleans(), st.booleans())
def test_no_figure_has_a_coordinate_that_is_not_finite(
    x: Any, y: Any, is_log: bool, as_array: bool
) -> None:
    x = [None if v is None else v for v in x][: len(y)]
    y = y[: len(x)]
    x, y = (np.array(v, float) for v in (x, y)) if as_array else (x, y)
    traces = [
        Scatter(x=x, y=y, mode="markers"),
        Bar(x=x, y=y, base=y),
        Bar(x=x, y=y, base=y, orientation="h"),
        Heatmap(x=x, y=y, z=[x]),
    ]
    figures = [Figure(trace) for trace in traces]
    for figure in figures:
        if is_log:
            figure.update_xaxes(type="log")
            figure.update_yaxes(type="log")
    assert faults_of(paged(*figures)) == []


@pytest.mark.parametrize(
    "ends", [[0, 0], [math.nan, 1], [0, math.inf], [-math.inf, math.inf]]
)
def test_an_axis_without_a_length_takes_that_of_its_data(ends: list[float]) -> None:
    figure = Figure(Scatter(y=[1, 2]))
    figure.update_yaxes(range=ends)
    assert faults_of(paged(figure)) == []


def test_a_line_at_a_place_that_is_no_number_says_nothing() -> None:
    figure = Figure(Scatter(y=[1, 2]))
    figure.add_hline(y=math.nan, annotation_text="a goal")
    assert "a goal" not in paged(figure)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=12))
def test_no_word_is_over_another_and_the_first_one_is_there(
    places: list[float],
) -> None:
    figure = Figure(Scatter(x=[0, 100], y=[0, 1]))
    for number, place in enumerate(places):
        figure.add_vline(x=place, annotation={"text": f"mark {number}", "y": 1})
    text = paged(figure)
    assert faults_of(text) == []
    assert '"mark 0"' in text


def test_words_that_have_room_are_all_there() -> None:
    figure = Figure(Scatter(x=[0, 100], y=[0, 1]))
    for number, place in enumerate((10, 40, 70)):
        figure.add_vline(x=place, annotation={"text": f"mark {number}", "y": 1})
    content = json.loads(paged(figure).split('application/json">')[1].split("</")[0])
    texts = [note["text"] for note in content["layout"]["annotations"]]
    assert texts == ["mark 0", "mark 1", "mark 2"]


# ----------------------------------------------------------------------- any table


@given(st.lists(st.integers(1, 60), min_size=1, max_size=12), st.integers(0, 3))
def test_a_table_of_any_width_fits_a_phone(widths: list[int], rows: int) -> None:
    head = [f"column {place}" for place in range(len(widths))]
    cells = [["9" * width for width in widths] for _ in range(rows)]
    marks = "".join(" r"[width < 16] for width in widths)
    shown = page("", "", [Section("a", "b", "", [table(head, cells, marks)])])
    assert [each for each in faults_of(shown) if "does not stack" in each] == []


def test_a_table_that_fits_keeps_its_columns() -> None:
    assert "stacks" not in table(["client", "n"], [["ann", "1"]], " r")
