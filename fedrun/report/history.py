"""What happened to the run as a whole: new epochs, other settings, its end."""

from typing import TYPE_CHECKING, NamedTuple

from fedcore.coordinator.records import Closed, EpochOpened, Reopened
from fedcore.typing import Seconds
from fedrun.journal import Configured
from fedrun.report import look
from fedrun.report.units import Unit
from fedrun.results import Results
from fedrun.run import differences

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_MOST_NAMED, _MOST_LINES = 4, 200


class Mark(NamedTuple):
    """One such moment."""

    seconds: Seconds
    what: str
    more: str


def history(results: Results) -> list[Mark]:
    """All of it, in order."""
    told, *again = results.of(Configured)
    marks = []
    for later in again:
        changes = "; ".join(differences(told.config, later.config))
        marks.append(Mark(later.at, "restarted", changes or "with the same settings"))
        told = later
    for epoch in results.of(EpochOpened):
        more = f"at version {epoch.version}: {epoch.reason}"
        marks.append(Mark(epoch.at, "new epoch", more))
    marks += [Mark(r.at, "reopened", "its end was moved") for r in results.of(Reopened)]
    marks += [Mark(r.at, "ended", r.reason) for r in results.of(Closed)]
    marks.sort(key=lambda mark: mark.seconds)
    return [m._replace(seconds=m.seconds - results.started) for m in marks]


def mark_epochs(figure: "Figure", results: Results, clock: Unit, **place: int) -> None:
    """Vertical lines where the server is known to have begun anew."""
    marks = [mark for mark in history(results) if mark.what != "ended"]
    for mark in marks[:_MOST_LINES]:
        figure.add_vline(
            x=mark.seconds / clock.size,
            line={"color": look.VERMILION, "width": 1.5, "dash": "dash"},
            annotation={
                "text": mark.what if len(marks) <= _MOST_NAMED else "",
                "hovertext": look.plain(mark.more),
                "y": 1,
                "yanchor": "bottom",
                "xanchor": "center",
            },
            **place,
        )
