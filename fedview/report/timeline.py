"""The section on time: when each client trained, waited and was away."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedrun import units
from fedview.report import theme
from fedview.report.client_timelines import (
    MOST_SHOWN,
    ClientTimeline,
    Doing,
    States,
    Stretch,
    most_interesting,
    selection_note,
    states,
)
from fedview.report.history import downtimes, history, mark_history, time_down
from fedview.report.page import Section, fold, note, plot, table, text
from fedview.results import Results

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

MOST_STRETCHES = 6000
STEPS = 400  # of time, where there are more stretches than that
COLOURS = {
    Doing.TRAINING: (theme.BLUE, ""),
    Doing.FRUITLESS: (theme.PINK, "/"),
    Doing.AWAY: (theme.ORANGE, ""),
    Doing.IDLE: (theme.PALE, ""),
    Doing.ABSENT: ("rgba(139,145,156,0.08)", ""),
}
MOST_MARKS = 30  # in the list of what happened
# What is rarer, or says more, hides the rest where both fall into one moment.
_URGENCY = (Doing.IDLE, Doing.TRAINING, Doing.FRUITLESS, Doing.AWAY)


def section(results: Results, timelines: dict[str, ClientTimeline]) -> Section:
    """Draws a line for each client; for many clients, their numbers by state."""
    shown = most_interesting(timelines.values())
    if not any(timeline.stretches for timeline in shown):
        return Section("clients", "Clients over time", "No client has joined.", [])
    losses = sum(timeline.losses for timeline in timelines.values())
    tasks = sum(timeline.tasks for timeline in timelines.values())
    fruitless = sum(timeline.fruitless for timeline in timelines.values())
    lead = (
        "A client trains from its task to the verdict on its update. It is away from "
        "the moment at which the server last heard of it. There were "
        f"{units.amount(tasks, 'task')}; "
        f"clients were away {units.amount(losses, 'time')}; "
        f"{units.amount(fruitless, 'task')} ended without an update."
        f"{_describe_downtimes(results)}"
    )
    drawn, step = coarse([timeline.stretches for timeline in shown], results.seconds)
    lines = plot(
        timeline_figure(results, shown, drawn), "What each client did over time"
    )
    notes = [selection_note(len(shown), len(timelines))]
    if step:
        notes.append(f"Drawn in steps of {units.in_seconds(step)}.")
    if any(notes):
        lines += note(text(" ".join(n for n in notes if n)))
    parts = [lines]
    if len(timelines) > MOST_SHOWN:
        counted = states(timelines.values(), results.seconds)
        title = f"The {len(shown)} clients with the most trouble"
        parts = [
            plot(states_figure(results, counted), "Clients by what they did over time"),
            fold(title, lines),
        ]
    return Section("clients", "Clients over time", lead, [*parts, *_marks(results)])


def _describe_downtimes(results: Results) -> str:
    gaps = [gap for gap in downtimes(results) if gap.how != "ended"]
    if not gaps:
        return ""
    whole = units.in_seconds(time_down(gaps))
    return (
        f" The server was down for {whole} in all. Bands across the plot are times "
        "without a server, or times that a restored state does not record."
    )


def _marks(results: Results) -> list[str]:
    """Lists what happened to the run as a whole."""
    marks = [mark for mark in history(results) if mark.what != "ended"]
    if not marks:
        return []
    rows = [
        (units.in_seconds(mark.seconds), text(mark.what), text(mark.more))
        for mark in marks[:MOST_MARKS]
    ]
    parts = ["<h3>What happened to the server</h3>", table(("after", "", ""), rows)]
    if len(marks) > MOST_MARKS:
        parts.append(note(f"{len(marks) - MOST_MARKS:,} later ones are left out."))
    return parts


def states_figure(results: Results, counted: States) -> "Figure":
    """Draws the number of clients in each state over time."""
    from plotly.graph_objects import Figure, Scatter

    clock = units.time_unit(results.seconds)
    figure = Figure()
    for doing, (colour, _) in COLOURS.items():
        clients = counted.counts[doing]
        if not clients.any():
            continue
        figure.add_trace(
            Scatter(
                x=counted.seconds / clock.size,
                y=clients,
                name=doing.value,
                mode="lines",
                line={"width": 0, "shape": "hv"},
                stackgroup="clients",
                fillcolor=colour,
                hovertemplate=f"%{{y:,.0f}} {doing.value}<extra></extra>",
            )
        )
    whole = sum(float(each[0]) for each in counted.counts.values())
    figure.update_yaxes(title_text="clients", range=[0, whole])
    figure.update_xaxes(title_text=f"time ({clock.name})")
    mark_history(figure, results, clock)
    return theme.dress(figure, 400, hovermode="x unified")


def coarse(
    timelines: Sequence[Sequence[Stretch]], seconds: float
) -> tuple[list[list[Stretch]], float]:
    """Merges stretches; returns the timelines, and the step of time in seconds.

    The step is 0 where they are drawn as they were.
    """
    if sum(map(len, timelines)) <= MOST_STRETCHES:
        return [list(timeline) for timeline in timelines], 0.0
    step = seconds / STEPS
    return [_coarse(timeline, STEPS, step) for timeline in timelines], step


def _coarse(timeline: Sequence[Stretch], bins: int, step: float) -> list[Stretch]:
    """Keeps in each step of time the longest state; being away hides the others."""
    shares = np.zeros((len(_URGENCY), bins))
    for start, end, doing in timeline:
        first, last = int(start // step), min(int(end // step), bins - 1)
        row = shares[_URGENCY.index(doing)]
        if first >= last:
            row[min(first, bins - 1)] += end - start
            continue
        row[first] += (first + 1) * step - start
        row[first + 1 : last] += step
        row[last] += end - last * step
    known = shares.any(axis=0)
    best = np.where(shares[-1] > 0.25 * step, len(_URGENCY) - 1, shares.argmax(axis=0))
    best[~known] = -1
    edges = np.flatnonzero(np.diff(best)) + 1
    found = []
    for a, b in zip([0, *edges], [*edges, bins], strict=True):
        if best[a] >= 0:
            found.append(Stretch(a * step, b * step, _URGENCY[best[a]]))
    return found


def timeline_figure(
    results: Results,
    timelines: Sequence[ClientTimeline],
    drawn: Sequence[Sequence[Stretch]],
) -> "Figure":
    """Draws a bar for each stretch."""
    from plotly.graph_objects import Bar, Figure

    clock = units.time_unit(results.seconds)
    figure = Figure()
    for doing, (colour, hatch) in COLOURS.items():
        bars = [
            (row, stretch)
            for row, timeline in enumerate(drawn)
            for stretch in timeline
            if stretch.doing is doing
        ]
        if not bars:
            continue
        figure.add_trace(
            Bar(
                orientation="h",
                y=np.array([row for row, _ in bars]),
                base=np.array([s.start for _, s in bars]) / clock.size,
                x=np.array([s.end - s.start for _, s in bars]) / clock.size,
                name=doing.value,
                marker=theme.fill(colour, hatch),
                width=0.72,
                customdata=[
                    (
                        theme.plain(timelines[row].name),
                        stretch.start / clock.size,
                        (stretch.end - stretch.start) / clock.size,
                    )
                    for row, stretch in bars
                ],
                hovertemplate=f"%{{customdata[0]}}: {doing.value}"
                f"<br>from %{{customdata[1]:.4g}} {clock.name}"
                f"<br>for %{{customdata[2]:.3g}} {clock.name}<extra></extra>",
            )
        )
    rows_axis(figure, timelines)
    figure.update_xaxes(title_text=f"time ({clock.name})")
    mark_history(figure, results, clock)
    return theme.dress(figure, theme.rows_height(len(timelines)), barmode="overlay")


def rows_axis(
    figure: "Figure", timelines: Sequence[ClientTimeline], **place: int
) -> None:
    """Labels rows with clients, the first one on top."""
    figure.update_yaxes(
        tickvals=list(range(len(timelines))),
        ticktext=[theme.label(timeline.name) for timeline in timelines],
        range=[len(timelines) - 0.4, -0.6],
        showgrid=False,
        zeroline=False,
        **place,
    )
