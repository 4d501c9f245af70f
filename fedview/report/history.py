"""The history of a run: downtimes, changes of settings, new epochs, its end."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from fedcore.coordinator.answers import describe_act
from fedcore.coordinator.events import (
    Act,
    Closed,
    Cut,
    Evicted,
    Freed,
    HistoryForked,
    Paused,
    Readmitted,
    RunResumed,
    ServerStarted,
    ServerStopped,
    SnapshotOrdered,
    Unpaused,
)
from fedcore.typing import Seconds
from fedrun.journal import Configured
from fedrun.run import differences
from fedrun.units import Unit, in_seconds
from fedview.report import theme
from fedview.results import Results

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_MOST_LINES = 200
# Written between two servers, or by the next one before it serves: no signs of life.
_ACTS: dict[type[Act], str] = {
    Paused: "paused",
    Unpaused: "goes on",
    Evicted: "evicted",
    Readmitted: "readmitted",
    SnapshotOrdered: "snapshot",
}
_BETWEEN = (Configured, Cut, HistoryForked, Freed, RunResumed, *_ACTS)
_HOW = {
    "killed": "it was killed, crashed or lost its power; nothing was recorded after",
    "stopped": "it was told to stop",
    "set back": "an older state was restored; what came after it is not known here",
    "ended": "the run had ended",
}


class Mark(NamedTuple):
    """A moment at which something happened to the whole run."""

    seconds: Seconds
    what: str
    more: str


class Downtime(NamedTuple):
    """A time without a server: from its last record to the next server's start."""

    start: Seconds
    end: Seconds
    how: str  # killed, stopped, set back or ended


def downtimes(results: Results) -> list[Downtime]:
    """Returns the downtimes in order; a simulation has none."""
    found: list[Downtime] = []
    last, how, served, closed = results.started, "killed", False, False
    for record in results.records:
        match record:
            case ServerStarted():
                if served:
                    at = max(record.at, last)
                    found.append(Downtime(last, at, "ended" if closed else how))
                served, last, how = True, max(record.at, last), "killed"
                continue
            case ServerStopped():
                how = "stopped"
            case HistoryForked(reason=reason) if "restored" in reason:
                how = "set back"
            case Closed():
                closed = True
            case RunResumed():
                closed = False
        if not isinstance(record, _BETWEEN):
            last = max(last, record.at)
    return [
        Downtime(start - results.started, end - results.started, how)
        for start, end, how in found
    ]


def time_down(gaps: Iterable[Downtime]) -> Seconds:
    """Returns the seconds without a server, as far as the journal knows them."""
    return sum(gap.end - gap.start for gap in gaps if gap.how in ("killed", "stopped"))


def history(results: Results) -> list[Mark]:
    """Returns all marks and downtimes, in the order of time."""
    current, *again = results.of(Configured)
    marks = []
    for later in again:
        changes = "; ".join(differences(current.config, later.config))
        marks.append(Mark(later.at, "other settings", changes or "the same values"))
        current = later
    for epoch in results.of(HistoryForked):
        more = f"at version {epoch.version}: {epoch.reason}"
        marks.append(Mark(epoch.at, "new epoch", more))
    marks += [Mark(r.at, "damage cut off", r.reason) for r in results.of(Cut)]
    marks += [
        Mark(r.at, "resumed", "its stopping condition was changed")
        for r in results.of(RunResumed)
    ]
    for kind, what in _ACTS.items():
        marks += [Mark(r.at, what, describe_act(r)) for r in results.of(kind)]
    marks += [Mark(r.at, "ended", r.reason) for r in results.of(Closed)]
    marks = [m._replace(seconds=m.seconds - results.started) for m in marks]
    for start, end, how in downtimes(results):
        marks.append(Mark(start, f"server {how}", _HOW[how]))
        what = (
            "about which nothing is known" if how == "set back" else "without a server"
        )
        away = f"after {in_seconds(end - start)} {what}"
        marks.append(Mark(end, "server back", away))
    return sorted(marks, key=lambda mark: mark.seconds)


def mark_history(figure: "Figure", results: Results, clock: Unit, **place: int) -> None:
    """Draws a band for each downtime and a line for each other mark, over the run."""
    end = results.seconds / clock.size or 1
    figure.update_xaxes(range=[0, end], **place)
    gaps = [gap for gap in downtimes(results) if gap.how != "ended"]
    silent = ("ended", "server")
    marks = [mark for mark in history(results) if not mark.what.startswith(silent)]
    for start, end, how in gaps[:_MOST_LINES]:
        figure.add_vrect(
            x0=start / clock.size,
            x1=end / clock.size,
            fillcolor=theme.DOWNTIME,
            line={"color": theme.VERMILION, "width": 1},
            layer="above",
            name="server down",
            annotation={
                "text": f"server {how}",
                "hovertext": f"{how}: back after {in_seconds(end - start)}",
                "y": 1,
                "yanchor": "bottom",
                "xanchor": "center",
                "x": (start + end) / 2 / clock.size,
                "showarrow": False,
            },
            **place,
        )
    for mark in marks[:_MOST_LINES]:
        figure.add_vline(
            x=mark.seconds / clock.size,
            line={"color": theme.VERMILION, "width": 1.5, "dash": "dash"},
            annotation={
                "text": mark.what,
                "hovertext": theme.plain(mark.more),
                "y": 1,
                "yanchor": "bottom",
                "xanchor": "center",
            },
            **place,
        )
