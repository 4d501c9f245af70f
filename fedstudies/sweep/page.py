"""A sweep as one self-contained page: the curves, and the table."""

from fedcore.coordinator.settings import lower_is_better
from fedstudies.curves import MOST_CURVES, curves_figure
from fedstudies.intro import intro
from fedstudies.sweep.outcome import Outcome
from fedstudies.sweep.table import CAPTION, cells, heading
from fedview.report.page import Section, note, page, plot, text


def sweep_page(outcome: Outcome) -> str:
    """The page as HTML."""
    title = f"Sweep of {outcome.app}"
    top = intro(title, heading(outcome), outcome.verdict, outcome.doubts)
    points = Section("points", "All points", text(CAPTION), [cells(outcome).on_page()])
    return page(title, top, [_curves(outcome), points])


def _curves(outcome: Outcome) -> Section:
    low = " (lower is better)" if lower_is_better(outcome.metric) else ""
    lead = (
        f"{text(outcome.metric)}{low} over versions, virtual time and payload: the "
        "mean over the seeds with its 95 % interval, as far as all seeds got."
    )
    rows = [row for row in outcome.rows if row.trials]
    figure = curves_figure(rows, outcome.metric)
    parts = [plot(figure, f"{outcome.metric} over versions, time and payload")]
    if len(rows) > MOST_CURVES:
        parts.append(note(f"The best {MOST_CURVES} of {len(rows)} points are drawn."))
    return Section("curves", "Curves", lead, parts)
