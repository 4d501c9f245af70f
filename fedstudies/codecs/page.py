"""The comparison as one self-contained page: the scatter, the front, the table."""

from collections.abc import Iterable

from fedstudies.codecs.comparison import Comparison
from fedstudies.codecs.scatter import beyond_axis, codecs_figure
from fedstudies.codecs.table import CAPTION, codecs_html, heading
from fedstudies.intro import intro
from fedview.report.page import Section, copyable, note, page, plot, text


def codecs_page(comparison: Comparison) -> str:
    """The page as HTML."""
    title = f"Codecs for {comparison.app}"
    top = intro(
        title,
        heading(comparison),
        comparison.advice,
        comparison.doubts,
        is_warning=not comparison.taken,
    )
    if comparison.yaml:
        top += copyable(comparison.yaml)
    table = Section("pairs", "All pairs", text(CAPTION), [codecs_html(comparison)])
    return page(title, top, [_scatter(comparison), table])


def _scatter(comparison: Comparison) -> Section:
    low = " (lower is better)" if comparison.lower_is_better else ""
    lead = (
        f"Each point is a pair: {text(comparison.metric)}{low}, the mean of the last "
        "quarter of the evaluations, over the payload bytes up and down for each "
        "update. On the Pareto front no other pair is better in both."
    )
    parts = [plot(codecs_figure(comparison), f"{comparison.metric} over bytes")]
    known, names = set(comparison.known), [str(row.pair) for row in comparison.rows]
    lost = [name for place, name in enumerate(names) if place not in known]
    if lost:
        parts.append(_note("Not drawn, since nothing was learnt", lost))
    worse = beyond_axis(comparison)
    if worse:
        pairs = (f"{names[i]}: {comparison.values[i]:.4f}" for i in worse)
        parts.append(
            _note("Triangles at the edge stand for pairs beyond the axis", pairs)
        )
    return Section("front", "What bytes buy", lead, parts)


def _note(what: str, pairs: Iterable[str]) -> str:
    return note(text(f"{what}: {'; '.join(pairs)}."))
