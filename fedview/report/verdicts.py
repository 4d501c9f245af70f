"""The section on updates: their verdicts, by client."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedcore.protocol import Verdict
from fedrun import units
from fedview.report import theme
from fedview.report.client_timelines import (
    ClientTimeline,
    most_interesting,
    selection_note,
)
from fedview.report.loss_summary import has_memory
from fedview.report.page import Section, fold, note, plot, table, text
from fedview.report.timeline import rows_axis
from fedview.results import Results

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

MOST_REASONS = 8
_MEANING = {
    Verdict.ACCEPTED: "counts in the model, with its weight λ",
    Verdict.REJECTED_STALE: "came too late",
    Verdict.REJECTED_CLOSED: "came after the end",
    Verdict.REJECTED_POLICY: "refused by the update filter",
    Verdict.REJECTED_MALFORMED: "not an update of this model",
    Verdict.DISCARDED: "held NaN or infinite values; it must not come back",
}


def section(results: Results, timelines: dict[str, ClientTimeline]) -> Section:
    """Makes the section on updates by verdict and by client."""
    updates = results.summary["updates"]
    if not updates:
        return Section("updates", "Updates", "No update has arrived.", [])
    shown = most_interesting(timeline for timeline in timelines.values())
    figure = verdicts_figure(shown)
    drawn = plot(figure, "Updates by verdict, mean staleness and mean weight by client")
    left_out = selection_note(len(shown), len(timelines))
    if left_out:
        title = f"The {len(shown)} clients with the most trouble"
        drawn = fold(title, drawn + note(text(left_out)))
    parts = [_verdict_table(results), drawn, *_reasons(results)]
    lead = (
        f"{units.amount(sum(updates.values()), 'update')} got a verdict, each exactly "
        "once. Mean staleness and mean weight are of a client's accepted updates."
    )
    if declined := results.summary["declined"]:
        tasks = units.amount(declined, "task")
        lead += f" Refused before they were computed: {tasks}."
    return Section("updates", "Updates", lead, parts)


def verdicts_figure(timelines: Sequence[ClientTimeline]) -> "Figure":
    """Draws updates as bars, and their mean staleness and weight beside."""
    from plotly.graph_objects import Bar, Scatter
    from plotly.subplots import make_subplots

    figure = make_subplots(
        rows=1,
        cols=3,
        shared_yaxes=True,
        horizontal_spacing=0.03,
        column_widths=[0.5, 0.25, 0.25],
    )
    rows = np.arange(len(timelines))
    names = [theme.plain(timeline.name) for timeline in timelines]
    for verdict, (colour, hatch) in theme.VERDICTS.items():
        counts = np.array([timeline.verdicts.get(verdict, 0) for timeline in timelines])
        if counts.any():
            bars = Bar(
                orientation="h",
                y=rows,
                x=counts,
                name=theme.verdict_name(verdict),
                marker=theme.fill(colour, hatch),
                customdata=names,
                hovertemplate="%{customdata}: %{x:,} "
                f"{theme.verdict_name(verdict)}<extra></extra>",
            )
            figure.add_trace(bars, row=1, col=1)
    accepted = [timeline.accepted for timeline in timelines]
    staleness = _means([timeline.staleness for timeline in timelines], accepted)
    weight = _means([timeline.weight for timeline in timelines], accepted)
    panels = ((staleness, "mean staleness"), (weight, "mean weight λ"))
    for column, (means, name) in enumerate(panels, 2):
        dots = Scatter(
            y=rows,
            x=means,
            mode="markers",
            cliponaxis=False,
            name=name,
            showlegend=False,
            marker={"size": 8, "color": theme.GREEN},
            customdata=names,
            hovertemplate=f"%{{customdata}}: {name} %{{x:.3g}}<extra></extra>",
        )
        figure.add_trace(dots, row=1, col=column)
    for column, title in enumerate(
        ("updates", "mean staleness (versions)", "mean λ"), 1
    ):
        figure.update_xaxes(title_text=title, rangemode="tozero", row=1, col=column)
        rows_axis(figure, timelines, row=1, col=column)
    return theme.dress(figure, theme.rows_height(len(timelines)), barmode="stack")


def _means(sums: Iterable[float], counts: Iterable[int]) -> list[float | None]:
    return [s / n if n else None for s, n in zip(sums, counts, strict=True)]


def _verdict_table(results: Results) -> str:
    updates, sizes = results.updates, Counter[str]()
    for verdict, size in zip(updates["verdict"], updates["bytes"], strict=True):
        sizes[verdict] += size
    counts = results.summary["updates"]
    total = sum(counts.values())
    kept = "; its client keeps what it held" if has_memory(results) else ""
    rows = []
    for verdict, (colour, _) in theme.VERDICTS.items():
        number = counts.get(verdict.value, 0)
        if number:
            chip = f'<span class="chip" style="background:{colour}"></span>'
            rows.append(
                (
                    chip + theme.verdict_name(verdict),
                    f"{number:,}",
                    f"{100 * number / total:.3g}&nbsp;%",
                    units.unbroken_bytes(sizes[verdict.value]),
                    _MEANING[verdict] + (kept if verdict.returns_mass else ""),
                )
            )
    head = ("verdict", "updates", "share", "payload", "what it means")
    return table(head, rows, " rrr")


def _reasons(results: Results) -> list[str]:
    table_of = results.updates
    found = Counter(
        (verdict, reason)
        for verdict, reason in zip(table_of["verdict"], table_of["reason"], strict=True)
        if reason
    )
    if not found:
        return []
    rows = [
        (f"{number:,}", theme.verdict_name(Verdict(verdict)), text(reason))
        for (verdict, reason), number in found.most_common(MOST_REASONS)
    ]
    parts = ["<h3>Reasons</h3>", table(("updates", "verdict", "reason"), rows, "r")]
    if len(found) > MOST_REASONS:
        parts.append(note(f"{len(found) - MOST_REASONS:,} rarer reasons are left out."))
    return parts
