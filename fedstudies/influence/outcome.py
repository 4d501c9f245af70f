"""The findings of an audit: the influence of each client, estimated and true."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from fedcore.coordinator.settings import lower_is_better
from fedcore.typing import JSON
from fedrun import units
from fedrun.correlation import pearson, spearman
from fedrun.evaluation import main_metric
from fedstudies.curves import COLOURS, draw_line, figure_of
from fedstudies.frame import Findings, Outcome, Part
from fedstudies.influence.estimate import Settings
from fedstudies.tables import Cells
from fedview.report import theme

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

MOST_NAMES = 8  # in a sentence
CHECKED = 3  # clients that are left out really, by default
MOST_WRONG = 0.5  # of the true changes of the metric, where the estimate holds
_HUGE = 1e5  # from here on a number is written with an exponent
OVERSHOOTS = 2.0  # curvature times rate beyond which differences grow in a step
_BARS = (
    "How the {metric} on the test data would change without each client: without it, "
    "minus with it. Clients at the top are missed most."
)
_SCATTER = (
    "Each point is a client. On the diagonal the estimate is what retraining without "
    "the client shows, with the batches of the other clients as they were."
)
_TABLE = (
    "Changes of all metrics without each client, and the distance of the models. "
    "The error is the norm of the difference of estimated and true change, as a share."
)


class Influence(NamedTuple):
    """The difference of the model without a client."""

    changes: Mapping[str, float]
    """Of each metric on the test data: without the client, minus with it."""
    distance: float
    """The norm of the difference of the models."""
    chance: Mapping[str, float] = MappingProxyType({})
    """Half of each change's 95 % interval over parts of the test data; empty: they are
    too few."""


class Row(NamedTuple):
    """One client of the audit."""

    client: str
    samples: int
    updates: int
    """How many of its updates are in the model."""
    estimated: Influence
    true: Influence | None = None
    """By retraining without the client; None: that was not asked for."""
    error: float | None = None
    """‖ε - ε*‖ / ‖ε*‖ of the estimated and the true difference; None: not known."""


@dataclass(frozen=True, kw_only=True)
class Audit(Outcome):
    """The influence of the clients of one run."""

    run: str
    """Which one, in words."""
    versions: int
    settings: Settings
    values: Mapping[str, float]
    """The metrics of the run's model on the test data."""
    rows: Sequence[Row]
    """The client that helps most first, as :func:`rank` orders them."""
    steepest: float = 0.0
    """The largest curvature times rate along an estimated difference."""

    @property
    def metric(self) -> str:
        """The metric by which the clients are rank: the loss, where it is known."""
        return main_of(self.values)

    @property
    def is_checked(self) -> bool:
        """Whether the true influence of a client is known too."""
        return any(row.true is not None for row in self.rows)

    @property
    def holds(self) -> bool:
        """Whether the estimate agrees with retraining, where both are known."""
        return holds(self.metric, self.rows)

    def help_of(self, found: Influence) -> float:
        """Returns how much worse the model would be without a client."""
        return help_of(self.metric, found)

    def doubt(self, row: Row, name: str | None = None) -> float:
        """Returns by how much a client's change of a metric may be another one.

        It is what other test data could make of it, and for an estimate also what it
        was wrong by, for the size of the difference, where it was checked.
        """
        name = name or self.metric
        if row.true is not None:
            return row.true.chance.get(name, 0.0)
        return row.estimated.chance.get(name, 0.0) + self._error(name, row)

    def _error(self, name: str, row: Row) -> float:
        rates = [
            abs(one.estimated.changes[name] - one.true.changes[name])
            / one.estimated.distance
            for one in self.rows
            if one.true is not None and one.estimated.distance
        ]
        return max(rates, default=0.0) * row.estimated.distance

    @property
    def correlation(self) -> tuple[float, float] | None:
        """Pearson's and Spearman's, of estimated and true changes of the metric.

        None where the true influence is not known of all, or does not vary.
        """
        if any(row.true is None for row in self.rows):
            return None
        pairs = [(self.help_of(r.estimated), r.true) for r in self.rows if r.true]
        estimated = [one for one, _ in pairs]
        true = [self.help_of(other) for _, other in pairs]
        found = pearson(estimated, true), spearman(estimated, true)
        return None if math.isnan(found[0]) else found

    @property
    def doubts(self) -> list[str]:
        """Sentences that limit the result."""
        absent = [row.client for row in self.rows if not row.updates]
        checked = [row.client for row in self.rows if row.true is not None]
        said = []
        if absent:
            said.append(
                f"{_some(absent)} never took part in these {self.versions:,} versions, "
                "so the influence is 0; more versions may tell."
            )
        if found := self.correlation:
            said.append(
                "Estimated and true influence correlate with Pearson's "
                f"{found[0]:.3f} and Spearman's {found[1]:.3f}."
            )
        elif len(checked) == len(self.rows):
            said.append("The true influence does not vary, so nothing correlates.")
        elif checked:
            said.append(
                f"The influence is estimated, and checked by retraining without "
                f"{_some(checked)}; --leave-one-out retrains without each client."
            )
        if not any(row.estimated.chance for row in self.rows):
            said.append(
                "The test data are too few to tell what others would show, so any "
                "change may be chance."
            )
        said.append("± is for this run: other batches may show something else.")
        return said

    @property
    def verdict(self) -> str:
        """Whether the estimate holds, who helps, who hurts, and who could be left out.

        Only what is beyond doubt is said.
        """
        there = [row for row in self.rows if row.updates]
        if not there:
            return "none of these clients took part, so none has had any influence"
        parts = [] if self.holds else [self._fails()]
        known = there if self.holds else [row for row in there if row.true is not None]
        order = sorted(known, key=lambda row: -self.help_of(best_of(row)))
        helps = [row for row in order if self._sign(row) > 0]
        hurts = [row for row in order if self._sign(row) < 0]
        most = " most" if len(known) == len(there) else ""
        if helps:
            parts.append(f"{self._without(helps[0])}: it helps{most}")
        if hurts:
            parts.append(f"{self._without(hurts[-1])}: it hurts{most}")
        parts += self._name_spare(hurts)
        if not helps and not hurts:
            parts.append(f"what each client does to the {self.metric} may be chance")
        elif not hurts and most:
            parts.append(f"no client hurts the {self.metric} beyond chance")
        return "; ".join(parts)

    def _fails(self) -> str:
        """Returns how the estimate differs from the truth, and a likely reason."""
        row = max(
            (row for row in self.rows if row.true is not None),
            key=lambda row: abs(
                self.help_of(row.estimated) - self.help_of(row.true or row.estimated)
            ),
        )
        assert row.true is not None
        found = (
            "the estimate does not hold here: without "
            f"{row.client} the {self.metric} is estimated to change by "
            f"{row.estimated.changes[self.metric]:+.2g}, and changes by "
            f"{row.true.changes[self.metric]:+.2g} when the others are retrained"
        )
        if self.steepest > OVERSHOOTS:
            found += (
                f" (curvature times rate is up to {self.steepest:.2g}; beyond "
                f"{OVERSHOOTS:g}, a step makes differences larger)"
            )
        if any(each.true is None for each in self.rows if each.updates):
            found += ", so only retrained clients are judged (--leave-one-out: all)"
        return found

    def _sign(self, row: Row, name: str | None = None) -> int:
        """1 where the client helps a metric beyond doubt, -1 where it hurts."""
        help_ = help_of(name or self.metric, best_of(row))
        return (help_ > 0) - (help_ < 0) if abs(help_) > self.doubt(row, name) else 0

    def _name_spare(self, hurts: Sequence[Row]) -> list[str]:
        """Names the clients that could be left out, and those where it is unclear."""
        missed = {
            row.client: [name for name in self.values if self._sign(row, name) > 0]
            for row in hurts
        }
        spare = [name for name, by in missed.items() if not by]
        each = "each be" if len(spare) > 1 else "be"
        found = [f"{_some(spare)} could {each} left out"] if spare else []
        for name in self.values:
            by = [client for client, names in missed.items() if name in names]
            if by:
                hurt, help_ = ("hurt", "help") if len(by) > 1 else ("hurts", "helps")
                found.append(
                    f"{_some(by)} {hurt} the {self.metric} and {help_} the {name}"
                )
        return found

    def _without(self, row: Row) -> str:
        change = best_of(row).changes[self.metric]
        way = "higher" if change > 0 else "lower"
        kind = "" if row.true else "an estimated "
        doubt = self.doubt(row)
        around = f" ± {doubt:.2g}" if doubt else ""
        return (
            f"without {row.client} the {self.metric} would be {kind}"
            f"{abs(change):.2g}{around} {way}"
        )

    def findings(self) -> Findings:
        """Returns the bars of all clients, the check and the table."""
        bars = (
            f"change of the {self.metric} without each client",
            partial(bars_figure, self),
        )
        parts = [Part("Influence", _BARS.format(metric=self.metric), figures=[bars])]
        if self.is_checked:
            drawn = ("estimated and true influence", partial(scatter_figure, self))
            check = Part(
                "Estimated and true", _SCATTER, figures=[drawn], anchor="check"
            )
            parts.append(check)
        cells, heading = self.cells(), self.heading
        return Findings(
            title=f"Influence of clients in {self.run}",
            heading=heading,
            verdict=self.verdict,
            numbers=self.as_json(),
            parts=[*parts, Part("Clients", _TABLE, cells, heading=heading)],
            doubts=self.doubts,
            is_warning=not self.holds,
        )

    def cells(self) -> Cells:
        """Returns the table of clients, the most helpful one first.

        Names come first, since they begin each part on a narrow screen.
        """
        names = list(self.values)
        head = ["client", "rank", "samples", "updates", *names, "distance"]
        align = " rrr" + "n" * len(names) + "r"
        if self.is_checked:
            head += [f"true {name}" for name in names] + ["true distance", "error"]
            align += "n" * len(names) + "rr"
        head.append(f"± {self.metric}")
        align += "r"
        return Cells(
            head,
            [self._cells(place, row) for place, row in enumerate(self.rows)],
            align,
        )

    def _cells(self, place: int, row: Row) -> list[str]:
        rank = str(place + 1) if self._has_ranks else "–"
        cells = [row.client, rank, f"{row.samples:,}", f"{row.updates:,}"]
        for found in (row.estimated, row.true) if self.is_checked else (row.estimated,):
            if found is None:
                cells += ["–"] * (len(self.values) + 1)
                continue
            cells += [_change(found.changes[name]) for name in self.values]
            cells.append(f"{found.distance:.3g}")
        if self.is_checked:
            cells.append("–" if row.error is None else _share(row.error))
        cells.append(_change(self.doubt(row)).lstrip("+"))
        return cells

    @property
    def _has_ranks(self) -> bool:
        """Whether the clients' places among each other are known."""
        return self.holds or all(each.true is not None for each in self.rows)

    @property
    def heading(self) -> str:
        """The run and the estimator, in a line."""
        how: str = self.settings.estimator
        how += f" of {self.settings.samples} samples" if how == "fisher" else ""
        how += ", layers truncated" if self.settings.truncate else ""
        return (
            f"{self.run}, {units.amount(self.versions, 'version')}, "
            f"{units.amount(len(self.rows), 'client')}; estimator: {how}"
        )

    def as_json(self) -> JSON:
        """Returns all numbers, for a program."""
        found = self.correlation
        return {
            "run": self.run,
            "versions": self.versions,
            "estimator": self.settings.estimator,
            "samples": self.settings.samples,
            "truncate": self.settings.truncate,
            "metric": self.metric,
            "values": dict(self.values),
            "holds": self.holds,
            "curvature_times_rate": self.steepest,
            "verdict": self.verdict,
            "doubts": self.doubts,
            "pearson": None if found is None else found[0],
            "spearman": None if found is None else found[1],
            "clients": [
                {
                    "rank": place + 1 if self._has_ranks else None,
                    "client": row.client,
                    "samples": row.samples,
                    "updates": row.updates,
                    "estimated": _as_json(row.estimated),
                    "true": None if row.true is None else _as_json(row.true),
                    "error": row.error,
                    "doubt": self.doubt(row),
                }
                for place, row in enumerate(self.rows)
            ],
        }


def _change(value: float) -> str:
    """Returns a change of a metric, with an exponent where it is huge."""
    return f"{value:+.4f}" if abs(value) < _HUGE else f"{value:+.3g}"


def _share(value: float) -> str:
    return f"{value:.1%}" if value < _HUGE else f"{100 * value:.3g}%"


def main_of(values: Mapping[str, float]) -> str:
    """Returns the metric to rank by: the loss, or the main one if none is measured."""
    return "loss" if "loss" in values else main_metric(list(values)) or "loss"


def best_of(row: Row) -> Influence:
    """Returns the influence of a client by retraining, or else the estimate."""
    return row.true or row.estimated


def holds(metric: str, rows: Sequence[Row]) -> bool:
    """Returns whether the estimate agrees with retraining, where both are known.

    The estimated changes of the metric are off by less than half of the true ones, as
    root mean squares, and no change that is beyond chance has the other sign.
    """
    pairs = [
        (row.estimated.changes[metric], row.true.changes[metric], row.true)
        for row in rows
        if row.true is not None
    ]
    wrong = math.hypot(*(one - other for one, other, _ in pairs))
    turned = any(
        one * other < 0 and abs(other) > true.chance.get(metric, 0.0)
        for one, other, true in pairs
    )
    size = math.hypot(*(other for _, other, _ in pairs))
    return not turned and wrong <= MOST_WRONG * size


def rank(metric: str, rows: Sequence[Row]) -> list[Row]:
    """Orders clients, the most helpful one first.

    Where the estimate does not hold, those whose true influence is known come first.
    """
    if holds(metric, rows):
        return sorted(rows, key=lambda row: -help_of(metric, best_of(row)))
    return sorted(
        rows,
        key=lambda row: (
            row.true is None,
            -help_of(metric, row.true) if row.true else 0.0,
        ),
    )


def help_of(metric: str, found: Influence) -> float:
    """Returns how much worse the model would be without a client, by a metric."""
    return found.changes[metric] * (1 if lower_is_better(metric) else -1)


def _some(names: Sequence[str]) -> str:
    """Returns names in a sentence; of many only the first ones."""
    if len(names) > MOST_NAMES:
        more = len(names) - MOST_NAMES
        return f"{', '.join(names[:MOST_NAMES])} and {more} more"
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def _as_json(found: Influence) -> JSON:
    return {"changes": dict(found.changes), "distance": found.distance}


def bars_figure(audit: Audit) -> "Figure":
    """Draws a bar for each client, and beside it the true one where it is known.

    The one that is known best has its doubt drawn.
    """
    from plotly.graph_objects import Bar, Figure

    names = [theme.label(row.client) for row in audit.rows]
    figure = Figure()
    kinds: list[tuple[str, list[Influence | None], str]]
    kinds = [("estimated", [row.estimated for row in audit.rows], COLOURS[0])]
    if audit.is_checked:
        kinds.append(("true", [row.true for row in audit.rows], COLOURS[1]))
    for name, found, colour in kinds:
        doubts = [
            audit.doubt(row) if each is best_of(row) else 0.0
            for row, each in zip(audit.rows, found, strict=True)
        ]
        figure.add_trace(
            Bar(
                x=[each and each.changes[audit.metric] for each in found],
                error_x={"type": "data", "array": doubts},
                y=names,
                name=name,
                orientation="h",
                marker={"color": colour},
                hovertemplate="%{y}: %{x:+.4g}<extra>" + name + "</extra>",
            )
        )
    figure.update_yaxes(autorange="reversed")
    figure.update_xaxes(title_text=f"change of the {audit.metric} without the client")
    return theme.dress(figure, theme.rows_height(len(names) * len(kinds)))


def scatter_figure(audit: Audit) -> "Figure":
    """Draws estimated against true changes of the metric, with the diagonal."""
    rows = [(row.client, row.estimated, row.true) for row in audit.rows if row.true]
    estimated = [one.changes[audit.metric] for _, one, _ in rows]
    true = [each.changes[audit.metric] for _, _, each in rows if each]
    ends = [min([*estimated, *true]), max([*estimated, *true])]
    hidden: dict[str, Any] = {"showlegend": False, "hoverinfo": "skip"}
    dotted = {"dash": "dot"}
    diagonal = draw_line(
        "", ends, ends, "", theme.GREY, width=1.5, line=dotted, **hidden
    )
    hover = "%{text}<br>true %{x:+.4g}<br>estimated %{y:+.4g}"
    points = draw_line(
        "",
        true,
        estimated,
        hover,
        COLOURS[0],
        mode="markers",
        showlegend=False,
        text=[theme.label(name) for name, _, _ in rows],
        marker={"color": COLOURS[0], "size": 9},
    )
    x = f"true change of the {audit.metric}"
    return figure_of([diagonal, points], x, "estimated", 400)
