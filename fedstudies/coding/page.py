"""What codes gain as one self-contained page, and as tables for a terminal."""

from typing import TYPE_CHECKING

from fedrun.units import in_bytes
from fedstudies.coding.study import CodingStudy
from fedstudies.intro import intro
from fedstudies.terminal import Cells
from fedview.report import theme
from fedview.report.page import Section, note, page, plot, text

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

WARNING = (
    "All of this replicates raw data among the workers of one silo. It is never done "
    "across clients, whose data stay where they are."
)
_TIMES = (
    "The whole work takes an undisturbed worker the time 1. Each worker takes its "
    "share of it, and an exponential delay that is proportional to the share. The "
    "lines are exact means, the points means of draws. Gradient coding is sooner where "
    "s + 1 divides the number of workers: then one worker of each group is enough."
)
_SHUFFLES = (
    "Before every pass each worker gets fresh rows. One broadcast can serve several "
    "workers that keep each other's rows. This moves raw data, and no training of this "
    "platform does it: the table says what it would save inside a cluster. Coded rows "
    "are counted by a formula that is asymptotic in their number, and the last column "
    "is asymptotic in the number of workers, too."
)
_COLOURS = {
    "MDS": theme.BLUE,
    "gradient coding": theme.GREEN,
    "replication": theme.ORANGE,
}


def time_cells(study: CodingStudy, *, every: bool) -> Cells:
    """Returns a row for each way to share out the work.

    Args:
        study: with its rows.
        every: whether all are shown, and not only the fastest of each method.
    """
    uncoded = study.uncoded.formula
    rows = [
        (
            row.method,
            row.setting or "–",
            f"{row.share:.3f}",
            f"{row.formula:.4f}",
            f"{row.drawn:.4f} ± {1.96 * row.error:.4f}",
            f"{uncoded / row.formula:.2f}",
        )
        for row in (study.rows if every else study.best)
    ]
    head = ["method", "setting", "work each", "time", "drawn", "times as fast"]
    return Cells(head, rows, "  rrnr")


def shuffle_cells(study: CodingStudy) -> Cells:
    """Returns a row for each size of the workers' caches."""
    rows = [
        (
            f"{row.cached:.3g}",
            f"{row.uncoded:.3f}",
            f"{row.coded:.3f}",
            f"{row.saving:.2f}",
            f"{(row.cached + 1 / study.workers) * study.gain:.2f}",
        )
        for row in study.shuffles
    ]
    head = [
        "cached α",
        "uncoded rows",
        "coded, many rows",
        "times cheaper",
        "for many workers, (α + 1/n) γ",
    ]
    return Cells(head, rows, "rrrrr")


def coding_page(study: CodingStudy) -> str:
    """Returns the study as one HTML page."""
    title = f"Codes for {study.workers} workers of one silo"
    top = intro(title, study.heading, study.verdict, [WARNING])
    times = Section(
        "times",
        "Time",
        text(_TIMES),
        [
            plot(time_figure(study), "time by the number of answers or stragglers"),
            time_cells(study, every=True).on_page(),
        ],
    )
    if not study.shuffles:
        return page(title, top, [times])
    shuffles = [shuffle_cells(study).on_page(), note(text(demonstrated(study)))]
    return page(
        title,
        top,
        [times, Section("shuffling", "Coded shuffling", text(_SHUFFLES), shuffles)],
    )


def demonstrated(study: CodingStudy) -> str:
    """Returns what the shuffle of real bytes showed, as a sentence."""
    shown = study.demonstration
    assert shown is not None
    return (
        f"A shuffle of real bytes among {shown.workers} workers that keep "
        f"{shown.cached:g} of all rows: {in_bytes(shown.uncoded_nbytes)} one by one, "
        f"{in_bytes(shown.coded_nbytes)} as coded broadcasts, where the formula, "
        f"asymptotic in the number of rows, says {in_bytes(shown.formula_nbytes)}; "
        f"{shown.wrong_rows} rows were decoded wrongly."
    )


def time_figure(study: CodingStudy) -> "Figure":
    """Draws the time of each method over k, r or s."""
    from plotly.graph_objects import Figure, Scatter

    figure = Figure()
    for method, colour in _COLOURS.items():
        rows = study.of(method)
        if not rows:
            continue
        letter = rows[0].setting[0]
        common = {"x": [row.number for row in rows], "legendgroup": method}
        figure.add_trace(
            Scatter(
                **common,
                y=[row.formula for row in rows],
                name=f"{method}, by {letter}",
                mode="lines",
                line={"color": colour, "width": 2},
                hovertemplate=f"{method}, {letter} = %{{x}}: %{{y:.4f}}<extra></extra>",
            )
        )
        figure.add_trace(
            Scatter(
                **common,
                y=[row.drawn for row in rows],
                name=f"{method}, drawn",
                mode="markers",
                showlegend=False,
                marker={"color": colour, "size": 6},
                hovertemplate=f"{method}, {letter} = %{{x}}: %{{y:.4f}} drawn"
                "<extra></extra>",
            )
        )
    figure.add_hline(
        y=study.uncoded.formula,
        line={"dash": "dot", "width": 1.5, "color": theme.GREY},
        annotation_text="without a code",
    )
    figure.update_xaxes(title_text="k, r or s")
    most = 3 * study.uncoded.formula
    figure.update_yaxes(title_text="time", range=[0, most])
    return theme.dress(figure, 380)
