"""A sweep as one self-contained page: the curves, and the table."""

from fedrun.report.page import Section, note, page, plot, text
from fedsim.experiments.curves import MOST_CURVES, Group, curves_figure
from fedsim.experiments.sweep.outcome import Outcome
from fedsim.experiments.sweep.table import CAPTION, cells, heading

_INTRO = """<h1>Sweep of {app}</h1>
<p class="under">{heading}</p>
<div class="verdict"><p><strong>{verdict}</strong> {doubts}</p></div>"""


def sweep_page(outcome: Outcome) -> str:
    """The page as HTML."""
    verdict = outcome.verdict
    intro = _INTRO.format(
        app=text(outcome.app),
        heading=text(heading(outcome)),
        verdict=text(f"{verdict[0].upper()}{verdict[1:]}."),
        doubts=text(" ".join(outcome.doubts)),
    )
    return page(
        f"Sweep of {outcome.app}",
        intro,
        [
            _curves(outcome),
            Section("points", "All points", text(CAPTION), [cells(outcome).on_page()]),
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
