"""A live view of a run on a terminal: its progress, clients, bytes and news."""

import textwrap
import time
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fedcore.coordinator import events
from fedcore.coordinator.answers import describe_act
from fedcore.coordinator.machine import why_waiting
from fedcore.text import printable
from fedrun.cli.traffic_tables import overhead_line, saving, totals_table
from fedrun.journal.store import Row
from fedrun.traffic import CONTROL, WAYS, Lane, Load, by_client, of_way, total
from fedrun.units import amount, in_bytes, metric
from fedserver.view.names import ClientTable, Name
from fedserver.view.progress import ClientProgress, Progress
from fedview.results.coverage import LEAST_RECENT, Activity
from fedview.results.failures import last_line
from fedview.results.warnings import absence, warnings

MOST_CLIENTS, MOST_METRICS, MOST_NEWS = 16, 4, 6
MOST_WARNINGS = 2
LEAST_NEWS = 3  # lines that the table of bytes leaves for the news
WIDE = 100  # terminal width from which there is room for the names of codecs
_COUNTS = ("accepted", "refused", "late", "λ")
_BARS = "▁▂▃▄▅▆▇█"


class LiveView:
    """A view that is drawn four times a second within its ``with`` block."""

    def __init__(self, progress: Progress, console: Console | None = None) -> None:
        self._progress, self._console = progress, console or Console()
        self._news: deque[str] = deque(maxlen=MOST_NEWS)
        progress.listeners.append(self._record)
        self._live = Live(
            get_renderable=self._draw,
            console=self._console,
            refresh_per_second=4,
            transient=False,
        )

    def __enter__(self) -> Self:
        """Starts to draw."""
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Draws the view a last time, and leaves it on the screen."""
        self._live.stop()

    def _record(self, record: Row) -> None:
        if sentence := sentence_on(record, self._progress):
            self._news.append(f"{time.strftime('%H:%M:%S')} {sentence}")

    def _draw(self) -> RenderableType:
        """Draws the view; if space is short, leaves out news and bytes first."""
        progress, screen = self._progress, self._console.size
        if progress.address == "":
            return Text("starting")
        room = screen.height - 3  # the border, and a line for typed input
        with progress.lock:
            parts = self._head()
            parts += self._metrics(max(1, min(MOST_METRICS, (room - len(parts)) // 4)))
            left = room - len(parts)
            # All clients, if they fit without any news; otherwise two lines of news.
            rows = left - (1 if len(progress.clients) < left else 3)
            clients = self._clients(max(1, rows), wide=screen.width >= WIDE)
            traffic = self._traffic(left - clients.lines - LEAST_NEWS)
        parts.append(clients.table)
        room = left - clients.lines
        if traffic is not None:
            parts.append(traffic.table)
            room -= traffic.lines
        lines = self._newest(screen.width - 4, min(MOST_NEWS, room))
        return Panel(Group(*parts, *lines), title="latecomer", title_align="left")

    def _head(self) -> list[RenderableType]:
        """Returns the top lines: address, version, updates, bytes, goals, warnings."""
        progress, state = self._progress, self._progress.state
        verdicts = progress.verdicts
        refused = sum(verdicts.values()) - verdicts["accepted"]
        return [
            _line(f"[bold]{progress.address}[/]   version [bold]{state.version:,}[/]"),
            _line(
                f"{verdicts['accepted']:,} updates accepted, {refused:,} not, "
                f"{progress.rate:.1f}/s"
            ),
            _line(self._payload()),
            *self._goals(),
            *self._warnings(),
        ]

    def _warnings(self) -> list[RenderableType]:
        """Returns why the run is stalled, and which clients are hardly in the model."""
        coverage = self._progress.coverage
        away = absence(coverage) if coverage.recent_updates >= LEAST_RECENT else ""
        paused = why_waiting(self._progress.state)
        sentences = [paused, self._progress.stalled, *warnings(coverage), away]
        found = [printable(each) for each in sentences if each][:MOST_WARNINGS]
        width = self._console.size.width - 4
        lines = [line for text in found for line in _fold(text, width, "  ")]
        return [Text(line, "yellow") for line in lines]

    def _payload(self) -> str:
        """Returns the payload of all clients, and its reduction compared to float32."""
        lanes = self._progress.traffic.sums()
        up, down = of_way(lanes, "up"), of_way(lanes, "down")
        less = saving(lanes, self._progress.run.coordinator.algorithm.model.dim)
        than = f", {less} than float32" if less else ""
        return f"payload {in_bytes(up.payload)} up, {in_bytes(down.payload)} down{than}"

    def _goals(self) -> list[RenderableType]:
        """Draws a bar for each goal of the run."""
        found = self._progress.goals
        widest = max((len(name) for name, *_ in found), default=0)
        lines: list[RenderableType] = []
        for name, now, goal in found:
            bar = ProgressBar(total=goal, completed=min(now, goal), width=30)
            grid = Table.grid(padding=(0, 1))
            grid.add_row(f"{name:<{widest}}", bar, f"{now:,.0f} of {goal:,.0f}")
            lines.append(grid)
        return lines

    def _metrics(self, most: int) -> list[RenderableType]:
        """Shows the newest evaluation, in at most ``most`` lines."""
        if not self._progress.metrics:
            return []
        version, newest = self._progress.metrics[-1]
        shown = list(newest)[: most if len(newest) <= most else max(1, most - 1)]
        widest = max((len(name) for name in shown), default=0)
        lines: list[RenderableType] = []
        for name in shown:
            past = [m[name] for _, m in self._progress.metrics if name in m]
            line = Text(f"{name:<{widest}}  ", no_wrap=True, overflow="ellipsis")
            line.append(metric(newest[name]), "bold")
            line.append(f"  {sparkline(past, 24)}")
            if not lines:
                line.append(f"  at version {version:,}", "dim")
            lines.append(line)
        if len(shown) < min(len(newest), most):
            lines.append(_line(f"[dim]and {len(newest) - len(shown)} more[/]"))
        return lines

    def _clients(self, room: int, *, wide: bool) -> "_Part":
        """Returns a table of the most recently active clients, in ``room`` lines."""
        table = ClientTable()
        table.add_column("client")
        table.add_column("does", no_wrap=True)
        for column in (*_COUNTS, "up", "down"):
            table.add_column(column, justify="right", no_wrap=True)
        lanes = by_client(self._progress.traffic.lanes())
        waiting = self._progress.sessions.waiting
        clients = sorted(self._progress.clients.items(), key=lambda c: -c[1].seen)
        most = min(MOST_CLIENTS, room if len(clients) <= room else max(1, room - 1))
        for cid, client in sorted(clients[:most], key=lambda c: c[1].name):
            own = lanes.get(cid, {})
            moved = (_describe_bytes(own, way, codecs=wide) for way in WAYS)
            table.add_row(*_row(client, cid in waiting), *moved)
        if len(clients) <= most:
            return _Part(table, table.row_count + 1)
        more = _line(f"[dim]and {len(clients) - most:,} more[/]")
        return _Part(Group(table, more), table.row_count + 2)

    def _traffic(self, room: int) -> "_Part | None":
        """Returns a table of all clients' bytes by codec; None if there is no room."""
        lanes = self._progress.traffic.lanes()
        dim = self._progress.run.coordinator.algorithm.model.dim
        table = totals_table(lanes, dim)
        line = Text(overhead_line(lanes), style="dim")
        lines = table.row_count + 3  # an empty line, the head, and the line below
        if not lanes or lines > room:
            return None
        return _Part(Group(Text(""), table, line), lines)

    def _newest(self, width: int, room: int) -> list[Text]:
        """Returns the latest news that fit; the oldest give way."""
        found: list[Text] = []
        for news in reversed(self._news):
            lines = [Text(line, style="dim") for line in _fold(news, width)]
            if len(found) + len(lines) > room:
                break
            found = lines + found
        if not found and self._news and room > 0:
            last = Text(self._news[-1], "dim", no_wrap=True, overflow="ellipsis")
            return [last]
        return found


class _Part(NamedTuple):
    """A part of the view, and its height in lines."""

    table: RenderableType
    lines: int


def _line(text: str) -> Text:
    """Returns a text that is cut off after one line."""
    line = Text.from_markup(text)
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def _fold(text: str, width: int, indent: str = " " * 9) -> list[str]:
    """Returns the lines of a text, broken between words where that is possible."""
    return textwrap.wrap(text, max(width, 12), subsequent_indent=indent) or [""]


def _describe_bytes(own: Mapping[Lane, Load], way: str, *, codecs: bool) -> str:
    """Returns the payload bytes of a client, and the codec that made most of them."""
    mine = {lane.codec: load for lane, load in own.items() if lane.way == way}
    made = sorted(mine.keys() - {CONTROL}, key=lambda codec: -mine[codec].payload)
    if not made:
        return ""
    more = f" [dim]{made[0]}{'+' if len(made) > 1 else ''}[/]" if codecs else ""
    return f"{in_bytes(total(mine.values()).payload)}{more}"


_STYLES = {
    Activity.TRAINS: "green",
    Activity.EVALUATES: "green",
    Activity.LOST: "red",
    Activity.FAILED: "red",
    Activity.EVICTED: "red",
    Activity.AWAY: "yellow",
}


def _row(client: ClientProgress, waits: bool) -> list[RenderableType]:
    doing = "waits" if waits else client.doing
    does = Text(doing, _STYLES.get(client.activity, "dim"))
    if client.role == "evaluator":
        return [Name(client.name), does, *("" for _ in _COUNTS)]
    return [
        Name(client.name),
        does,
        f"{client.accepted:,}",
        f"{client.refused:,}" if client.refused else "",
        f"{client.staleness:,}",
        f"{client.weight:.2f}",
    ]


def sparkline(values: list[float], width: int) -> str:
    """Returns the last values of a metric as a line of blocks."""
    recent = values[-width:]
    low, high = min(recent), max(recent)
    if high == low:
        return _BARS[3] * len(recent)
    scale = (len(_BARS) - 1) / (high - low)
    return "".join(_BARS[round((value - low) * scale)] for value in recent)


def sentence_on(record: Row, progress: Progress) -> str:
    """Returns a sentence on a record for the operator; empty if it is no news."""
    name = progress.name(getattr(record, "cid", ""))
    match record:
        case events.Lost():
            return f"{name} is lost"
        case events.Failed():
            return f"{name} failed: {last_line(record.error)}"
        case events.Skipped():
            some = amount(record.count, "sample")
            return f"{name} left out {some}: {printable(record.why)}"
        case events.Unproved():
            return f"{name} claims a later state, without proof"
        case events.HistoryForked():
            return f"a new history begins: {printable(record.reason)}"
        case events.Evaluated():
            values = [f"{printable(k)} {metric(v)}" for k, v in record.values.items()]
            who = "" if progress.is_evaluator(record.cid) else f"{name}: "
            what = f"{'  '.join(values)}, n = {record.samples:,}"
            return f"{who}version {record.version:,}: {what}"
        case events.Closed():
            return f"the run has ended: {printable(record.reason)}"
        case events.Freed():
            return f"the operator frees the name {printable(record.name)}"
        case events.OperatorAct():
            return printable(describe_act(record))
        case _:
            return ""
