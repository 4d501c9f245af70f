"""The tables: accuracy against bytes, the claim's verdict, the parts of the bytes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.bytes.count import Count
from benchmarks.bytes.federation import Outcome
from benchmarks.bytes.http2 import COUNT
from fedcore.typing import JSON
from fedrun.cli.traffic_tables import overhead_line
from fedrun.traffic import WAYS, total

LOSS, TIMES, OVERHEAD = 0.005, 150, 400  # what is claimed
Outcomes = Sequence[Outcome]  # one a seed


@dataclass(frozen=True, slots=True)
class Row:
    """What came of a setting, as means over its seeds."""

    outcomes: Outcomes
    reference: Outcomes  # uncompressed

    def mean(self, quantity: Callable[[Outcome], float]) -> float:
        """The mean over the seeds."""
        return float(np.mean([quantity(outcome) for outcome in self.outcomes]))

    @property
    def accuracy(self) -> float:
        """Of the last versions."""
        return self.mean(lambda o: o.accuracy)

    @property
    def loss(self) -> float:
        """Of accuracy, against uncompressed."""
        return Row(self.reference, self.reference).accuracy - self.accuracy

    @property
    def times(self) -> float:
        """How many times fewer bytes crossed the sockets."""
        reference = Row(self.reference, self.reference)
        return reference.mean(_all_bytes) / self.mean(_all_bytes)

    def at_socket(self, way: str) -> float:
        """Bytes of an update, all included."""
        return self.mean(lambda o: o.whole.sent[way] / o.updates)

    def payload(self, way: str) -> float:
        """Of these, what is payload."""
        return self.mean(lambda o: o.whole.payload(way) / o.updates)

    @property
    def steady(self) -> float:
        """Bytes of an update that are no payload, on warm connections."""
        return self.mean(lambda o: o.steady.overhead() / o.steady.updates)

    @property
    def whole(self) -> float:
        """The same with connecting, enrolling and the end."""
        return self.mean(lambda o: o.whole.overhead() / o.updates)

    def to_json(self) -> JSON:
        """All of it, and what each seed gave."""
        return {
            "accuracy": round(self.accuracy, 4),
            "loss": round(self.loss, 4),
            "times fewer": round(self.times, 1),
            "socket": {way: round(self.at_socket(way), 1) for way in ("up", "down")},
            "payload": {way: round(self.payload(way), 1) for way in ("up", "down")},
            "overhead": {"steady": round(self.steady, 1), "all": round(self.whole, 1)},
            "seeds": [_seed_json(outcome) for outcome in self.outcomes],
        }


def _all_bytes(outcome: Outcome) -> float:
    return sum(outcome.whole.sent.values()) / outcome.updates


def _seed_json(outcome: Outcome) -> JSON:
    return {
        "accuracy": round(outcome.accuracy, 4),
        "curve": {str(v): round(value, 4) for v, value in outcome.curve.items()},
        "updates": outcome.updates,
        "bytes": dict(outcome.whole.sent),
        "journalled": {"up": outcome.payload_up, "down": outcome.payload_down},
        "counted": levels(outcome),
        "connections": outcome.whole.connections,
        "cuts": outcome.whole.cuts,
        "seconds": round(outcome.seconds, 1),
        "cpu": {name: round(value, 1) for name, value in outcome.cpu.items()},
        "steady bytes of an update": {
            f"{call} {kind}": [round(number, 1) for number in both]
            for (call, kind), both in items(outcome.steady).items()
        },
    }


def levels(outcome: Outcome) -> dict[str, dict[str, int]]:
    """The same bytes as the server has counted them, and as the proxy has."""
    found: dict[str, dict[str, int]] = {}
    lanes = outcome.book.lanes()
    for way in WAYS:
        load = total(load for lane, load in lanes.items() if lane.way == way)
        found[way] = {
            "payload": load.payload,
            "payload, proxy": outcome.whole.payload(way),
            "messages": load.framed,
            "messages, proxy": outcome.whole.framed(way),
            "socket, proxy": outcome.whole.sent[way],
        }
    return found


def items(count: Count) -> dict[tuple[str, str], tuple[float, float]]:
    """Bytes of an update by call and kind, up and down; the largest come first."""
    names = {(call, kind) for _, call, kind in count.tally if kind != COUNT}
    found = {
        name: (
            count.tally["up", *name] / count.updates,
            count.tally["down", *name] / count.updates,
        )
        for name in names
    }
    return {name: found[name] for name in sorted(found, key=lambda n: -sum(found[n]))}


def show(console: Console, title: str, rows: Mapping[str, Row]) -> None:
    """The table of a task, and what it says of the claim."""
    grid = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    grid.add_column("bytes of an update", no_wrap=True)
    for column in ("accuracy", "loss", "socket up", "down", "payload up", "down"):
        grid.add_column(column, justify="right")
    for column in ("overhead, warm", "all", "times fewer", "seconds"):
        grid.add_column(column, justify="right")
    for name, row in rows.items():
        grid.add_row(
            name,
            f"{row.accuracy:.4f}",
            f"{row.loss:.4f}",
            *(f"{row.at_socket(way):,.0f}" for way in ("up", "down")),
            *(f"{row.payload(way):,.0f}" for way in ("up", "down")),
            f"{row.steady:,.0f}",
            f"{row.whole:,.0f}",
            f"{row.times:.1f}",
            f"{row.mean(lambda o: o.seconds):.0f}",
        )
    console.print(grid)
    reference = next(iter(rows))
    for name, row in rows.items():
        if name.startswith(reference):  # with cuts, too
            continue
        console.print(
            f"  {name}: loss ≤ {LOSS} {_verdict(row.loss <= LOSS)}, ≥ {TIMES} times "
            f"fewer {_verdict(row.times >= TIMES)}, overhead ≤ {OVERHEAD} "
            f"{_verdict(row.steady <= OVERHEAD)}"
        )


def show_items(console: Console, name: str, row: Row) -> None:
    """Where the bytes go; of the first seed."""
    show_levels(console, name, row.outcomes[0])
    name = f"{name}: an update on warm connections"
    grid = Table(title=name, title_justify="left", box=box.SIMPLE_HEAD)
    for column in ("call", "kind"):
        grid.add_column(column)
    for column in ("up", "down", "both"):
        grid.add_column(column, justify="right")
    for (call, kind), both in items(row.outcomes[0].steady).items():
        if sum(both) >= 0.05:
            cells = (f"{number:.1f}" for number in (*both, sum(both)))
            grid.add_row(call, kind, *cells)
    console.print(grid)


def show_levels(console: Console, name: str, outcome: Outcome) -> None:
    """Codec and message as counted inside and outside, and the socket outside."""
    title = f"{name}: counted by the server, and by the proxy"
    grid = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    grid.add_column("bytes")
    for column in ("payload", "proxy", "messages", "proxy", "socket, proxy"):
        grid.add_column(column, justify="right")
    for way, counted in levels(outcome).items():
        grid.add_row(way, *(f"{number:,}" for number in counted.values()))
    console.print(grid)
    console.print(f"  {overhead_line(outcome.book.lanes())}")


def _verdict(holds: bool) -> str:
    return "holds" if holds else "DOES NOT HOLD"
