"""The top of the report: which run, how it went, and what was lost."""

import inspect
from collections import Counter
from datetime import UTC, datetime

from fedcore.coordinator.records import (
    EpochOpened,
    Reopened,
    ServerStarted,
    Unproved,
)
from fedcore.errors import ConfigError
from fedcore.protocol import Verdict
from fedrun.config import parse_config
from fedrun.journal import Configured
from fedrun.report import units
from fedrun.report.history import downtimes
from fedrun.report.learning import main_first
from fedrun.report.lives import Life
from fedrun.report.lost import what_was_lost
from fedrun.report.page import text
from fedrun.results import SUPPORT, Results

_REAL_CLOCK = 1e8  # seconds since 1970 are more than this; a virtual clock starts at 0
_TILE = """<div class="tile"><dt>{name}</dt><dd><div class="value">{value}</div>
<div class="more">{more}</div></dd></div>"""


def intro(results: Results, lives: dict[str, Life]) -> str:
    """The heading, the run in numbers, and what was lost."""
    tiles = "\n".join(
        _TILE.format(name=text(name), value=text(value), more=text(more))
        for name, value, more in facts(results, lives)
    )
    loss = what_was_lost(results, lives)
    kind = "verdict" if loss.nothing else "verdict warn"
    return f"""<h1>Run {text(results.configured.run_id)}</h1>
<p class="under">{text(recipe(results))}</p>
<dl class="tiles">
{tiles}
</dl>
<div class="{kind}"><p><strong>{text(loss.headline)}</strong>
{text(" ".join(loss.sentences))}</p></div>"""


def recipe(results: Results) -> str:
    """The recipe in a sentence, and where it comes from."""
    config = results.configured.config
    kind = config.get("algorithm", {}).get("kind", "unknown")
    try:
        algorithm = parse_config(config).algorithm
    except ConfigError:  # its method is of a module that was not imported here
        return f"Recipe {kind}"
    what = (inspect.getdoc(type(algorithm)) or "").partition("\n")[0].rstrip(".")
    paper = algorithm.paper
    source = "a recipe of this project" if paper == "this project" else paper
    return f"Recipe {kind}: {what} ({source})"


def facts(results: Results, lives: dict[str, Life]) -> list[tuple[str, str, str]]:
    """The run in numbers: name, value, and a remark."""
    return [
        _end(results),
        ("Duration", units.in_seconds(results.seconds), _began(results)),
        _versions(results),
        _clients(lives),
        _updates(results),
        _bytes(results),
        *_metrics(results),
        _server(results),
    ]


def _end(results: Results) -> tuple[str, str, str]:
    ended = results.summary["ended"]
    if ended is None:
        return "End", "not yet", "the run can go on"
    return "End", str(ended), f"at version {results.summary['versions']:,}"


def _began(results: Results) -> str:
    if results.started < _REAL_CLOCK:
        return "of virtual time"
    began = datetime.fromtimestamp(results.started, UTC)
    return f"from {began:%Y-%m-%d %H:%M} UTC"


def _versions(results: Results) -> tuple[str, str, str]:
    count = results.summary["versions"]
    if not count:
        return "Model versions", "0", "none was published yet"
    mean = sum(results.versions["updates"]) / count
    each = "1 update" if mean == 1 else f"{units.digits(mean)} updates"
    remark = f"of {each} each, {results.dim:,} values"
    return "Model versions", f"{count:,}", remark


def _clients(lives: dict[str, Life]) -> tuple[str, str, str]:
    active = sum(1 for life in lives.values() if life.accepted)
    losses = sum(life.losses for life in lives.values())
    lost = f"lost {units.counted(losses, 'time')}" if losses else "never lost"
    remark = f"{active:,} with accepted updates; {lost}"
    return "Clients", f"{len(lives):,}", remark


def _updates(results: Results) -> tuple[str, str, str]:
    updates = dict(results.summary["updates"])
    accepted = updates.pop(Verdict.ACCEPTED.value, 0)
    others = [f"{n:,} {name.replace('_', ', ')}" for name, n in updates.items()]
    return "Accepted updates", f"{accepted:,}", "; ".join(others) or "and no others"


def _bytes(results: Results) -> tuple[str, str, str]:
    summary = results.summary
    up, down = summary["bytes_up"], summary["bytes_down"]
    dense = summary["bytes_uncompressed"]
    value = f"{units.in_bytes(up)}\u00a0↑, {units.in_bytes(down)}\u00a0↓"
    return "Bytes up and down", value, units.versus(up + down, dense)


def _metrics(results: Results) -> list[tuple[str, str, str]]:
    found = []
    last = results.summary["metrics"]
    for name in main_first(last):
        remark = "no version has a number"
        if name in results.best:
            best, version = results.best[name]
            remark = f"best {units.metric(best)} at version {version:,}"
        remark += f"; n\u00a0=\u00a0{results.summary['samples']:,}"
        found.append((f"Final {name}", units.metric(last[name]), remark))
    return found[:4] + _federated(results)[: 2 if found else 4]


def _federated(results: Results) -> list[tuple[str, str, str]]:
    """What clients measured last on data of their own."""
    last = results.summary["federated"]
    names = [name for name in main_first(results.metric_names) if name in last]
    return [
        (
            f"Clients' {name}",
            units.metric(last[name]),
            f"version {last['version']:,} by {units.counted(last['clients'], 'client')}"
            f", weighted by samples; n\u00a0=\u00a0{last[name + SUPPORT]:,}",
        )
        for name in names
    ]


def _server(results: Results) -> tuple[str, str, str]:
    """How often nobody served the run, and which other marks it bears."""
    epochs = len(results.of(EpochOpened))
    told = len(results.of(Configured)) - 1
    reopened = len(results.of(Reopened))
    unproved = sum(record.count for record in results.of(Unproved))
    gaps = [gap for gap in downtimes(results) if gap.how != "ended"]
    ways = Counter(gap.how for gap in gaps)
    remarks = [f"{how} {units.counted(n, 'time')}" for how, n in ways.items()]
    if epochs:
        remarks.append(units.counted(epochs, "restored history", "restored histories"))
    if told:
        remarks.append(f"{units.counted(told, 'change')} of settings")
    if reopened:
        remarks.append(f"reopened {units.counted(reopened, 'time')}")
    if unproved:
        remarks.append(f"{units.counted(unproved, 'unproved claim')} of a later state")
    down = units.in_seconds(sum(gap.end - gap.start for gap in gaps))
    value = f"down for {down}" if gaps else "never down"
    if not results.of(ServerStarted):
        value = "simulated" if results.started < _REAL_CLOCK else "not recorded"
    return "Server", value, "; ".join(remarks)
