"""The state of a run for ``fedserver status``: as JSON, and as a table made of it."""

import asyncio
import heapq
import json
import time
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

from rich.console import Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from fedcore.errors import IMPOSSIBLE, ProtocolError
from fedcore.text import from_peer, printable
from fedcore.typing import JSON, Seconds
from fedrun.cli.traffic_tables import bytes_of_all
from fedrun.traffic import OTHERS, by_client, lanes_json, read_lanes, total
from fedrun.units import amount, in_bytes, metric
from fedserver.view.names import ClientTable, Name
from fedserver.view.progress import Progress
from fedview.results.coverage import Coverage, Label
from fedview.results.warnings import absence, since, warnings

MOST_LISTED = 2000  # clients in a status, which must fit into one message
MOST_LABELS = 12  # labels in a line of the table
_NUMBERS = ("accepted", "refused", "late", "λ")
_SHARES = ("share", "recent_share")  # in all updates, and in the recent ones
_LONGEST: Seconds = 1.0  # a status of more clients is reused for this time


class Status:
    """Answers status calls; makes the status of many clients at most once a second."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._making, self._stale = asyncio.Lock(), 0.0
        self._texts = "", ""

    async def text(self, everything: bool) -> str:
        """Returns the status as JSON: the whole, or the public part of it."""
        async with self._making:
            is_small = len(self._progress.clients) <= MOST_LISTED
            loop = asyncio.get_running_loop()
            if is_small or loop.time() >= self._stale:
                self._texts = await asyncio.to_thread(self._make)
                self._stale = loop.time() + _LONGEST
            return self._texts[everything]

    def _make(self) -> tuple[str, str]:
        """Returns the public part of the status, and the whole status."""
        status = status_json(self._progress)
        return json.dumps(without_clients(status)), json.dumps(status)


def status_json(progress: Progress) -> JSON:
    """Returns the state of a run."""
    state, config = progress.state, progress.run.config
    with progress.lock:  # the core thread waits meanwhile: only make copies
        facts = {
            "run": progress.run.run_id,
            "journal": str(progress.run.journal.folder),
            "recipe": config.algorithm.kind,
            "version": state.version,
            "epoch": state.epoch,
            "unproved": progress.run.coordinator.unproved,
            "stop": config.stop.model_dump(exclude_none=True),
            "ended": state.closed,
            "paused": state.paused,
            "evicted": dict(state.roster.evicted),
            "buffer": [state.count, config.algorithm.buffer],
            "updates": dict(progress.verdicts),
            "updates_per_second": round(progress.rate, 3),
            "uptime": round(time.monotonic() - progress.began, 1),
            "payload_up": progress.payload_up,
            "payload_down": progress.payload_down,
            "metrics": dict(progress.metrics[-1][1]) if progress.metrics else {},
            "evaluated_version": progress.metrics[-1][0] if progress.metrics else None,
            "disk": progress.core.trouble,
            "stalled": progress.stalled,
        }
    traffic = {
        "lanes": lanes_json(progress.traffic.sums()),
        "values": progress.run.coordinator.algorithm.model.dim,
    }
    covered = _coverage_json(progress.coverage)
    return {**facts, "traffic": traffic, "coverage": covered, **_clients(progress)}


def _clients(progress: Progress) -> JSON:
    """Returns the most recently active clients, and the number of the others."""
    present, waiting = progress.sessions.present, progress.sessions.waiting.copy()
    with progress.lock:
        latest = heapq.nlargest(
            MOST_LISTED, progress.clients.items(), key=lambda item: item[1].seen
        )
        listed = {
            cid: client.to_json() | _shares(progress.coverage, cid)
            for cid, client in latest
        }
        unlisted = len(progress.clients) - len(listed)
        places = {cid: n for n, cid in enumerate(progress.clients) if cid in listed}
    lanes = by_client(progress.traffic.lanes())
    return {
        "clients": [
            {
                **listed[cid],
                "present": cid in present,
                "replaced": progress.coverage.is_replaced(cid),
                "waiting": waiting.get(cid, ""),
                "traffic": {"lanes": lanes_json(lanes.get(cid, {}))},
            }
            for cid in places
        ],
        "unlisted": unlisted,
    }


def _coverage_json(coverage: Coverage) -> JSON:
    """Returns the clients from which the model has learnt, and the others."""
    missing = coverage.missing
    return {
        "recent": coverage.recent_updates,
        "half": [client.name for client in coverage.half[:MOST_LISTED]],
        "missing": [
            {"client": client.name, "since": since(client)}
            for client in missing[:MOST_LISTED]
        ],
        "absence": absence(coverage),
        "labels": {
            str(label): found._asdict() for label, found in _largest(coverage.labels)
        },
        "warnings": warnings(coverage),
    }


def _largest(labels: dict[int, Label]) -> list[tuple[int, Label]]:
    """Returns the labels with the largest shares, in their order."""
    found = heapq.nlargest(MOST_LISTED, labels.items(), key=lambda each: each[1].share)
    return sorted(found)


def _shares(coverage: Coverage, cid: str) -> JSON:
    if cid not in coverage.clients:  # an evaluator
        return dict.fromkeys(_SHARES, 0.0)
    return {"share": coverage.share(cid), "recent_share": coverage.recent_share(cid)}


def without_clients(status: JSON) -> JSON:
    """Returns the public part of a status: sums, and no client's name."""
    unlisted = status["unlisted"] + len(status["clients"])
    hidden = {
        "journal": "",
        "disk": "it is full or fails" if status["disk"] else "",
        "evicted": {},
        "coverage": {"absence": "", "warnings": []},
    }
    return {**status, **hidden, "clients": [], "unlisted": unlisted}


# ------------------------------------------------------------------------- table


def _as_told(table: Callable[[JSON], RenderableType]) -> Callable[[JSON], Any]:
    """Prints a server's texts in printable form; reports an invalid status as an error.

    Raises:
        ProtocolError: the JSON is not the status of a run.
    """

    @wraps(table)
    def show_status(status: JSON) -> RenderableType:
        try:
            return table(_printable(status))
        except IMPOSSIBLE as error:
            why = f"{type(error).__name__}: {from_peer(str(error))}"
            raise ProtocolError(
                f"the server does not tell the status of a run: {why}"
            ) from error

    return show_status


def _printable(told: Any) -> Any:
    if isinstance(told, dict):
        return {from_peer(key): _printable(value) for key, value in told.items()}
    if isinstance(told, list):
        return list(map(_printable, told))
    return from_peer(told) if isinstance(told, str) else told


@_as_told
def status_table(status: JSON) -> RenderableType:
    """Returns the state of a run for a terminal, with the most important lines last."""
    head = Table.grid(padding=(0, 2))
    head.add_row("run", Text(status["run"]))
    head.add_row("recipe", Text(status["recipe"]))
    if status["unproved"]:
        head.add_row("unproved", f"{status['unproved']:,} claims of a later state")
    if status["disk"]:
        head.add_row("disk", Text(status["disk"]))
    for what, sentence in _troubles(status):
        head.add_row(what, Text(sentence))
    if (why := status["paused"]) is not None:
        paused = "nobody is given training until it is resumed"
        head.add_row("paused", Text(printable(f"{why}: {paused}" if why else paused)))
    for name, why in status["evicted"].items():
        head.add_row("evicted", Text(printable(f"{name}: {why}" if why else name)))
    if labels := _labels(status):
        head.add_row("labels", Text(printable(labels)))
    goal, (count, size) = status["stop"].get("versions"), status["buffer"]
    of = f" of {goal:,}" if goal else ""
    buffer = f"{count:,} of {size:,} updates in the buffer"
    head.add_row("version", f"{status['version']:,}{of}, {buffer}")
    updates = [f"{n:,} {verdict}" for verdict, n in status["updates"].items()]
    rate = f"{status['updates_per_second']:.1f}/s"
    head.add_row("updates", f"{', '.join(updates) or 'none yet'} ({rate})")
    for name, value in status["metrics"].items():
        at = f"at version {status['evaluated_version']:,}"
        head.add_row(Text(printable(name)), f"{metric(value)} {at}")
    head.add_row("ended", status["ended"] or "no")
    table = ClientTable()
    for column in ("client", "does", "there", *_NUMBERS, "share", "recent", "payload"):
        is_word, is_name = column in ("client", "does", "there"), column == "client"
        side: JustifyMethod = "left" if is_word else "right"
        table.add_column(column, justify=side, no_wrap=not is_name)
    for client in sorted(status["clients"], key=lambda c: str(c["name"])):
        lanes = read_lanes(OTHERS, client["traffic"]["lanes"])
        payload = total(lanes.values()).payload
        counts = [f"{client[name]:,}" for name in ("accepted", "refused", "staleness")]
        counts.append(f"{client['weight']:.2f}")
        table.add_row(
            Name(client["name"]),
            _doing(client),
            "yes" if client["present"] else "no",
            *("" if client["role"] == "evaluator" else count for count in counts),
            *(f"{share:.1%}" if (share := client[name]) else "" for name in _SHARES),
            in_bytes(payload) if payload else "",
        )
    if status["unlisted"]:
        table.add_row(f"[dim]and {status['unlisted']:,} more[/]")
    lanes = read_lanes(OTHERS, status["traffic"]["lanes"])
    totals = bytes_of_all(lanes, status["traffic"]["values"])
    return Group(*totals, table, Text(""), head)


def _doing(client: JSON) -> str:
    """Returns a client's activity; ``replaced`` if a newer key took its name."""
    if client.get("replaced") and not client["present"]:
        return "replaced"
    return "waits" if client["waiting"] else str(client["doing"])


def _labels(status: JSON) -> str:
    """Returns the shares of the labels in the model, the largest first."""
    found = status["coverage"].get("labels", {})  # unauthorised callers get none
    shares = sorted(((own["share"], name) for name, own in found.items()), reverse=True)
    said = [f"{name}: {share:.1%}" for share, name in shares[:MOST_LABELS]]
    more = len(shares) - len(said)
    return ", ".join(said) + (f" and {more:,} more" if more > 0 else "")


def _troubles(status: JSON) -> Iterator[tuple[str, str]]:
    """Yields warnings: a stalled run, clients hardly in the model, failures."""
    if status["stalled"]:
        yield "stalled", status["stalled"]
    covered = status["coverage"]
    for warning in covered["warnings"]:
        yield "warning", warning
    if covered["absence"]:
        yield "missing", covered["absence"]
    for client in status["clients"]:
        if client["failures"]:
            times = f"{client['name']} failed {amount(client['failures'], 'time')}"
            yield "failed", f"{times}, last: {client['error']}"
        if why := client["waiting"]:
            yield "waiting", f"{client['name']} waits: {why}"
        if client["skipped"]:
            left_out = f"{client['name']} left out {client['skipped']:,} samples"
            yield "skipped", f"{left_out}, last: {client['why']}"
