"""A sweep as one self-contained page: the curves, and the table."""

from fedrun.report.page import Section, note, page, plot, table, text
from fedsim.campaign.curves import MOST_CURVES, Group, curves_figure
from fedsim.sweep.rows import Outcome
from fedsim.sweep.table import CAPTION, cells, heading

_INTRO = """<h1>Sweep of {app}</h1>
<p class="under">{heading}</p>
<div class="verdict"><p><strong>{verdict}</strong> {doubts}</p></div>"""


def sweep_page(outcome: Outcome) -> str:
    """The whole page."""
    verdict = outcome.verdict
    intro = _INTRO.format(
        app=text(outcome.app),
        heading=text(heading(outcome)),
        verdict=text(f"{verdict[0].upper()}{verdict[1:]}."),
        doubts=text(" ".join(outcome.doubts)),
    )
    head, rows = cells(outcome)
    marks = "r" + " " * len(outcome.fields) + "r" * 6 + " "
    all_points = table(
        [text(name) for name in head],
        [[text(cell) for cell in row] for row in rows],
        marks,
    )
    return page(
        f"Sweep of {outcome.app}",
        intro,
        [
            _curves(outcome),
            Section("points", "All points", text(CAPTION), [all_points]),
        ],
    )


def _curves(outcome: Outcome) -> Section:
    low = " (lower is better)" if outcome.lower_is_better else ""
    lead = (
        f"{text(outcome.metric)}{low} over versions, virtual time and payload: the "
        "mean over the seeds, and its 95 % interval, as far as all seeds went."
    )
    rows = [row for row in outcome.rows if row.trials]
    groups = [Group(row.name, list(row.trials.values())) for row in rows]
    figure = curves_figure(groups, outcome.metric)
    parts = [plot(figure, f"{outcome.metric} over versions, time and payload")]
    if len(groups) > MOST_CURVES:
        parts.append(note(f"The best {MOST_CURVES} of {len(groups)} points are drawn."))
    return Section("curves", "Curves", lead, parts)
