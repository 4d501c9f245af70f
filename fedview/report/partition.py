"""Shows how a partitioner spread the data over clients.

``fedsim data`` shows it: a table in the terminal, and a page of its own.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from rich.bar import Bar
from rich.table import Table
from rich.text import Text

from fedcore.user_code import user_code
from fedcore.workload import Client, Workload
from fedrun import units
from fedrun.plain_files import write_text
from fedview.report import theme
from fedview.report.downsample import Floats, downsample
from fedview.report.page import Section, note, page, plot, text

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

Numbers = npt.NDArray[np.int64]

MOST_CELLS = 100_000
MOST_NAMED = 40  # clients with a name on the axis
TABLE_ROWS = 20
_COMMON = 3  # classes that the table names


class Shares(NamedTuple):
    """The clients' samples, by class where there are integer labels."""

    names: list[str]
    samples_N: Numbers
    counts_NC: Numbers | None


def shares_of(
    workload: Workload, clients: int, args: Mapping[str, str] | None = None
) -> Shares:
    """Asks the workload for each client's data, and counts.

    Args:
        workload: whose ``train_data`` is asked.
        clients: how many there are.
        args: what each of them is told as ``client.args``.

    Raises:
        WorkloadError: its data are not samples, or there are none.
    """
    names = [f"client-{index}" for index in range(clients)]
    sizes: list[int] = []
    counted: list[Numbers | None] = []
    for index, name in enumerate(names):
        with user_code(f"train_data of {name}"):
            data = workload.train_data(Client(name, index, clients, args or {}))
            samples = workload.samples(data, f"train_data of {name}")
            sizes.append(len(samples))
            counted.append(samples.label_counts(np.arange(len(samples))))
    return Shares(names, np.array(sizes, np.int64), _stack(counted))


def _stack(counted: list[Numbers | None]) -> Numbers | None:
    known = [counts for counts in counted if counts is not None]
    if len(known) < len(counted) or not known:
        return None
    classes = max(map(len, known))
    return np.stack([np.pad(counts, (0, classes - len(counts))) for counts in known])


def portions(counts_NC: Numbers) -> Floats:
    """Returns each client's distribution of labels, (N, C)."""
    total_N = np.maximum(counts_NC.sum(axis=1, keepdims=True), 1)
    return np.asarray(counts_NC / total_N, np.float64)


def skew(shares: Shares) -> list[str]:
    """Describes the partition in a few sentences."""
    sizes = shares.samples_N
    sentences = [
        f"{units.amount(len(sizes), 'client')} hold {sizes.sum():,} samples: "
        f"{sizes.min():,} to {sizes.max():,} each, the median is "
        f"{np.median(sizes):,.0f}."
    ]
    if shares.counts_NC is None:
        return [*sentences, "There are no integer labels to count."]
    portions_NC = portions(shares.counts_NC)
    whole_C = shares.counts_NC.sum(axis=0) / max(1, int(shares.counts_NC.sum()))
    held, classes = (shares.counts_NC > 0).sum(axis=1), (whole_C > 0).sum()
    distance = 0.5 * np.abs(portions_NC - whole_C).sum(axis=1).mean()
    return [
        *sentences,
        f"A client holds {held.mean():.3g} of {classes} classes on average, "
        f"at least {held.min()} and at most {held.max()}.",
        f"Its labels differ from those of all by {100 * distance:.3g} % on average "
        "(total variation: 0 % if all are alike, near 100 % if nobody shares a class).",
    ]


def partition_page(
    shares: Shares, out: Path, title: str = "Clients and their data"
) -> Path:
    """Writes one self-contained page; returns where it is."""
    intro = f"<h1>{text(title)}</h1>\n<p>{text(' '.join(skew(shares)))}</p>"
    rows = downsample(len(shares.names), _most_rows(shares))
    parts = [plot(partition_figure(shares, rows), "Samples by client and class")]
    if len(rows) < len(shares.names):
        sentence = (
            f"{len(rows):,} of {len(shares.names):,} clients are drawn, evenly chosen."
        )
        parts.append(note(sentence))
    lead = "A bar for each client counts its samples."
    if shares.counts_NC is not None:
        lead = (
            "A row for each client. The stronger the colour of a cell, the more of the "
            "client's samples are of that class; the bars count its samples."
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    section = Section("partition", "Clients and classes", lead, parts)
    write_text(out, page(title, intro, [section]))
    return out


def _most_rows(shares: Shares) -> int:
    classes = 1 if shares.counts_NC is None else shares.counts_NC.shape[1]
    return max(MOST_NAMED, min(2000, MOST_CELLS // classes))


def partition_figure(shares: Shares, rows: Numbers) -> "Figure":
    """Draws classes on the left, if there are any, and samples on the right."""
    from plotly.graph_objects import Bar as Bars
    from plotly.subplots import make_subplots

    labelled = shares.counts_NC is not None
    figure = make_subplots(
        rows=1,
        cols=2 if labelled else 1,
        shared_yaxes=True,
        horizontal_spacing=0.03,
        column_widths=[0.68, 0.32] if labelled else [1.0],
    )
    names = [theme.plain(shares.names[i]) for i in rows]
    if shares.counts_NC is not None:
        figure.add_trace(_cells(names, shares.counts_NC[rows]), row=1, col=1)
        tick = {"dtick": 1} if shares.counts_NC.shape[1] <= 30 else {}
        figure.update_xaxes(title_text="class", row=1, col=1, **tick)
        figure.update_xaxes(showgrid=False, zeroline=False, row=1, col=1)
    column = 2 if labelled else 1
    bars = Bars(
        orientation="h",
        y=np.arange(len(rows)),
        x=shares.samples_N[rows],
        marker=theme.fill(theme.GREEN),
        customdata=names,
        hovertemplate="%{customdata}: %{x:,} samples<extra></extra>",
        showlegend=False,
    )
    figure.add_trace(bars, row=1, col=column)
    figure.update_xaxes(title_text="samples", rangemode="tozero", row=1, col=column)
    figure.update_yaxes(range=[len(rows) - 0.4, -0.6], showgrid=False, zeroline=False)
    if len(rows) <= MOST_NAMED:
        ticks = [theme.label(shares.names[i]) for i in rows]
        figure.update_yaxes(tickvals=np.arange(len(rows)), ticktext=ticks)
        return theme.dress(figure, theme.rows_height(len(rows)))
    numbered = len(rows) == len(shares.names)
    figure.update_yaxes(title_text="client", showticklabels=numbered, row=1, col=1)
    return theme.dress(figure, 820, bargap=0)


def _cells(names: list[str], counts_NC: Numbers) -> Any:
    """Draws a cell for each client and class; its colour is the class's share."""
    from plotly.graph_objects import Heatmap

    clients, classes = counts_NC.shape
    return Heatmap(
        x=np.arange(classes),
        y=np.arange(clients),
        z=portions(counts_NC),
        zmin=0,
        zmax=1,
        customdata=counts_NC,
        text=[[name] * classes for name in names],
        colorscale=[[0, theme.soft(theme.BLUE, 0)], [1, theme.soft(theme.BLUE, 1)]],
        colorbar={
            "title": {"text": "share", "side": "right", "font": {"size": 13}},
            "tickformat": ".0%",
            "thickness": 12,
            "outlinewidth": 0,
            "x": 1.01,
        },
        xgap=1,
        ygap=1 if clients <= MOST_NAMED else 0,
        hovertemplate="%{text}, class %{x}<br>%{customdata:,} samples, %{z:.1%}"
        "<extra></extra>",
    )


def partition_table(shares: Shares) -> Table:
    """Makes a table of the first clients for a terminal, with the sentences below."""
    table = Table(
        title="Clients and their data",
        title_justify="left",
        caption=Text(" ".join(skew(shares))),
        caption_justify="left",
    )
    table.add_column("client", no_wrap=True)
    table.add_column("samples", justify="right")
    table.add_column("", min_width=16)
    if shares.counts_NC is not None:
        table.add_column("classes", justify="right")
        table.add_column("largest classes")
    largest = float(shares.samples_N.max())
    for i, name in enumerate(shares.names[:TABLE_ROWS]):
        size = int(shares.samples_N[i])
        row: list[str | Text | Bar] = [
            Text(name),
            f"{size:,}",
            Bar(largest, 0, size, width=24),
        ]
        if shares.counts_NC is not None:
            held = int((shares.counts_NC[i] > 0).sum())
            row += [str(held), _most_common(portions(shares.counts_NC)[i])]
        table.add_row(*row)
    rest = len(shares.names) - TABLE_ROWS
    if rest > 0:
        table.add_row(f"… {rest:,} more")
    return table


def _most_common(portions_C: Floats) -> str:
    order = np.argsort(-portions_C, kind="stable")[:_COMMON]
    return ", ".join(f"{c} ({portions_C[c]:.0%})" for c in order if portions_C[c] > 0)
