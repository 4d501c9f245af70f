"""The live view on a terminal: how far the run is, who is there, what they do."""

import time
from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fedcore.coordinator.records import (
    Closed,
    EpochOpened,
    Failed,
    Lost,
    Measured,
    Unproved,
)
from fedcore.text import printable
from fedrun.journal.codec import Row
from fedrun.tables import overhead_line, saving, size, totals_table
from fedrun.traffic import CONTROL, Lane, Load, by_client, total
from fedserver.progress import ClientProgress, Progress, goals

MOST_CLIENTS, MOST_NEWS = 16, 6
_COLUMNS = ("client", "does", "accepted", "refused", "late by", "weight")
_BARS = "▁▂▃▄▅▆▇█"


class LiveView:
    """Redraws itself four times a second while it is entered."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._news: deque[str] = deque(maxlen=MOST_NEWS)
        progress.listeners.append(self._record)
        self._live = Live(
            get_renderable=self._draw,
            console=Console(),
            refresh_per_second=4,
            transient=False,
        )

    def __enter__(self) -> Self:
        """Begins to draw."""
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Draws once more, and leaves it there."""
        self._live.stop()

    def _record(self, record: Row) -> None:
        clock = time.strftime("%H:%M:%S")
        name = self._progress.name(getattr(record, "cid", ""))
        match record:
            case Lost():
                self._news.append(f"{clock} {name} is lost")
            case Failed():
                _, _, last = record.error.strip().rpartition("\n")
                self._news.append(f"{clock} {name} failed: {printable(last)}")
            case Unproved():
                self._news.append(f"{clock} {name} claims a later state, without proof")
            case EpochOpened():
                reason = printable(record.reason)
                self._news.append(f"{clock} a new history begins: {reason}")
            case Measured():
                values = "  ".join(f"{k} {v:.4g}" for k, v in record.values.items())
                values = printable(values)
                self._news.append(f"{clock} version {record.version}: {values}")
            case Closed():
                self._news.append(f"{clock} the run has ended: {record.reason}")
            case _:
                pass

    def _draw(self) -> RenderableType:
        progress = self._progress
        if progress.address == "":
            return Text("starting")
        with progress.lock:
            parts = [
                self._head(),
                self._goals(),
                self._metrics(),
                self._clients(),
                self._traffic(),
            ]
        news = Text("\n".join(self._news), style="dim")
        return Panel(Group(*parts, news), title="latecomer", title_align="left")

    def _head(self) -> RenderableType:
        progress, state = self._progress, self._progress.run.coordinator.state
        verdicts = progress.verdicts
        refused = sum(verdicts.values()) - verdicts["accepted"]
        grid = Table.grid(padding=(0, 3))
        grid.add_row(
            f"[bold]{progress.address}[/]",
            f"version [bold]{state.version}[/]",
            f"{verdicts['accepted']} updates accepted, {refused} not",
            f"{progress.rate:.1f}/s",
        )
        return Group(grid, self._payload())

    def _payload(self) -> RenderableType:
        """What all clients have moved, and what that saved."""
        lanes = self._progress.traffic.lanes()
        up = total(load for lane, load in lanes.items() if lane.way == "up")
        down = total(load for lane, load in lanes.items() if lane.way == "down")
        less = saving(lanes, self._progress.run.coordinator.algorithm.spec.dim)
        than = f", {less} than float32" if less else ""
        return Text(f"payload {size(up.payload)} up, {size(down.payload)} down{than}")

    def _goals(self) -> RenderableType:
        grid = Table.grid(padding=(0, 1))
        for name, now, goal in goals(self._progress.run):
            bar = ProgressBar(total=goal, completed=min(now, goal), width=40)
            grid.add_row(name, bar, f"{now:.0f} of {goal:.0f}")
        return grid

    def _metrics(self) -> RenderableType:
        if not self._progress.metrics:
            return Text("")
        version, newest = self._progress.metrics[-1]
        grid = Table.grid(padding=(0, 2))
        for name, value in newest.items():
            past = [m[name] for _, m in self._progress.metrics if name in m]
            grid.add_row(Text(name), f"[bold]{value:.4f}[/]", sparkline(past))
        grid.add_row("[dim]at version[/]", f"[dim]{version}[/]")
        return grid

    def _clients(self) -> RenderableType:
        table = Table(box=None, header_style="dim", padding=(0, 1, 0, 0))
        for column in (*_COLUMNS, "up", "down"):
            table.add_column(
                column, justify="left" if len(table.columns) < 2 else "right"
            )
        lanes = by_client(self._progress.traffic.lanes())
        clients = sorted(self._progress.clients.items(), key=lambda c: -c[1].seen)
        for cid, client in sorted(clients[:MOST_CLIENTS], key=lambda c: c[1].name):
            own = lanes.get(cid, {})
            table.add_row(*_row(client), _passed(own, "up"), _passed(own, "down"))
        if len(clients) > MOST_CLIENTS:
            table.add_row(f"[dim]and {len(clients) - MOST_CLIENTS} more[/]")
        return table

    def _traffic(self) -> RenderableType:
        """Bytes of all clients, by direction and codec."""
        lanes = self._progress.traffic.lanes()
        if not lanes:
            return Text("")
        crossed = self._progress.traffic.crossed()
        dim = self._progress.run.coordinator.algorithm.spec.dim
        line = Text(overhead_line(lanes, crossed), style="dim")
        return Group(Text(""), totals_table(lanes, crossed, dim), line)


def _passed(lanes: Mapping[Lane, Load], way: str) -> str:
    """Payload bytes of a client and the codecs that made them."""
    own = {lane.codec: load for lane, load in lanes.items() if lane.way == way}
    codecs = sorted(own.keys() - {CONTROL}, key=lambda codec: -own[codec].payload)
    if not codecs:
        return ""
    more = "+" if len(codecs) > 1 else ""
    return f"{size(total(own.values()).payload)} [dim]{codecs[0]}{more}[/]"


def _row(client: ClientProgress) -> list[RenderableType]:
    style = {"lost": "red", "failed": "red", "left": "dim", "idle": "dim"}
    does = f"[{style.get(client.doing, 'green')}]{client.doing}[/]"
    name = Text(client.name)  # not markup, whatever it holds
    if client.role == "evaluator":
        return [name, does, "", "", "", ""]
    return [
        name,
        does,
        str(client.accepted),
        str(client.refused or ""),
        str(client.staleness),
        f"{client.weight:.2f}",
    ]


def sparkline(values: list[float], width: int = 40) -> str:
    """The course of a metric in one line of blocks."""
    recent = values[-width:]
    low, high = min(recent), max(recent)
    if high == low:
        return _BARS[3] * len(recent)
    scale = (len(_BARS) - 1) / (high - low)
    return "".join(_BARS[round((value - low) * scale)] for value in recent)
