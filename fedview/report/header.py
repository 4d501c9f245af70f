"""The top of the report: the run, its numbers, and what was lost."""

import inspect
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from fedcore.coordinator.events import (
    HistoryForked,
    RunResumed,
    ServerStarted,
    Unproved,
)
from fedcore.coordinator.settings import lower_is_better, reaches
from fedcore.errors import ConfigError
from fedcore.protocol import Verdict
from fedrun import units
from fedrun.config import parse_config
from fedrun.journal import Configured
from fedview.report.byte_counts import times_of_versions
from fedview.report.client_timelines import ClientTimeline
from fedview.report.curves import main_first, targets
from fedview.report.history import downtimes, time_down
from fedview.report.loss_summary import loss_summary
from fedview.report.page import text
from fedview.results import SUPPORT, Results, Table, is_number

_TILE = """<div class="tile"><dt>{name}</dt><dd><div class="value">{value}</div>
<div class="more">{more}</div></dd></div>"""


def intro(results: Results, timelines: dict[str, ClientTimeline]) -> str:
    """Makes the heading, the main numbers, and the verdict on losses."""
    tiles = "\n".join(
        _TILE.format(name=text(name), value=text(value), more=text(more))
        for name, value, more in facts(results, timelines)
    )
    loss = loss_summary(results, timelines)
    kind = "verdict" if loss.nothing else "verdict warn"
    run = f"Run {results.configured.run_id}. {recipe(results)}"
    return f"""<h1>{text(title(results))}</h1>
<p class="under">{text(run)}</p>
<dl class="tiles">
{tiles}
</dl>
<div class="{kind}"><p><strong>{text(loss.headline)}</strong>
{text(" ".join(loss.sentences))}</p></div>
{"".join(map(_warning, results.diverged))}"""


def _warning(sentence: str) -> str:
    said = sentence[0].upper() + sentence[1:]
    return f'<div class="verdict warn"><p><strong>{text(said)}.</strong></p></div>'


def title(results: Results) -> str:
    """Returns the title: the app, and the last value of its metric."""
    app = results.setting("app", default="")
    if not app:
        return f"Run {results.configured.run_id}"
    name = "/".join(str(app).split("/")[-2:])  # a file is known by its folder
    for found in _metrics(results)[:1]:
        what, value, _ = found
        metric = what.removeprefix("Final ").replace("Clients'", "clients'", 1)
        return f"{name}: {metric} {value}"
    return name


def recipe(results: Results) -> str:
    """Describes the recipe in a sentence, with its source."""
    kind = results.setting("algorithm", "kind", default="unknown")
    try:
        algorithm = parse_config(results.configured.config).algorithm
    except ConfigError:  # its method is of a module that was not imported here
        return f"Recipe {kind}"
    what = (inspect.getdoc(type(algorithm)) or "").partition("\n")[0].rstrip(".")
    paper = algorithm.paper
    source = "a recipe of this project" if paper == "this project" else paper
    return f"Recipe {kind}: {what} ({source})"


def facts(
    results: Results, timelines: dict[str, ClientTimeline]
) -> list[tuple[str, str, str]]:
    """Returns the main numbers of the run: name, value, and a remark."""
    metrics = _metrics(results)
    return [
        *metrics[:1],
        ("Duration", units.in_seconds(results.seconds), _until(results)),
        _bytes(results),
        _clients(timelines, results),
        _updates(results),
        _versions(results),
        *metrics[1:],
        _server(results),
    ]


def _until(results: Results) -> str:
    """Says when the run began, and why it ended."""
    ended = results.summary["ended"]
    end = "can go on" if ended is None else f"ended: {ended}"
    if results.has_virtual_time:
        return f"of virtual time; {end}"
    began = datetime.fromtimestamp(results.started, UTC)
    return f"from {began:%Y-%m-%d %H:%M} UTC; {end}"


def _versions(results: Results) -> tuple[str, str, str]:
    count = results.summary["versions"]
    if not count:
        return "Model versions", "0", "none was published yet"
    mean = sum(results.versions["updates"]) / count
    each = "1 update" if mean == 1 else f"{units.digits(mean)} updates"
    remark = f"of {each} each, {results.dim:,} values"
    return "Model versions", f"{count:,}", remark


def _clients(
    timelines: dict[str, ClientTimeline], results: Results
) -> tuple[str, str, str]:
    active = sum(1 for timeline in timelines.values() if timeline.accepted)
    losses = sum(timeline.losses for timeline in timelines.values())
    how = "dropped out" if results.has_virtual_time else "out of reach"
    often = f"{how} {units.amount(losses, 'time')}" if losses else f"never {how}"
    remark = f"{active:,} with accepted updates; {often}"
    return "Clients", f"{len(timelines):,}", remark


def _updates(results: Results) -> tuple[str, str, str]:
    updates = dict(results.summary["updates"])
    accepted = updates.pop(Verdict.ACCEPTED.value, 0)
    others = [f"{n:,} {name.replace('_', ', ')}" for name, n in updates.items()]
    return "Accepted updates", f"{accepted:,}", "; ".join(others) or "and no others"


def _bytes(results: Results) -> tuple[str, str, str]:
    """Returns the bytes in messages, or the payload of a simulation."""
    summary = results.summary
    up, down = summary["bytes_up"], summary["bytes_down"]
    dense = summary["bytes_uncompressed"]
    value = f"{units.unbroken_bytes(up)}\u00a0↑, {units.unbroken_bytes(down)}\u00a0↓"
    remark = units.versus(up + down, dense)
    if not summary["in_messages"]:
        return "Payload up and down", value, remark
    payload = summary["payload_up"] + summary["payload_down"]
    remark += f"; {units.unbroken_bytes(payload)} of this is payload"
    return "Bytes up and down", value, remark


def _metrics(results: Results) -> list[tuple[str, str, str]]:
    """Returns the last values, with their targets and the best values."""
    found = []
    last = results.summary["metrics"]
    for name in main_first(last):
        remarks = [*_aim(results, results.central, name)]
        if name in results.best:
            best, version = results.best[name]
            remarks.append(f"best {units.metric(best)} at version {version:,}")
        else:
            remarks.append("no version has a finite value")
        remarks.append(f"n\u00a0=\u00a0{results.summary['samples']:,}")
        found.append((f"Final {name}", units.metric(last[name]), "; ".join(remarks)))
    return found[:4] + _list_client_metrics(results)[: 2 if found else 4]


def _aim(results: Results, table: Table, name: str) -> Iterator[str]:
    """Says whether a metric reached its target, and at which version."""
    goal = targets(results).get(name)
    if goal is None:
        return
    bound = "at most" if lower_is_better(name) else "at least"
    aim = f"target of {bound} {units.metric(goal)}"
    versions, values = table.get("version", []), table.get(name, [])
    for version, value in zip(versions, values, strict=True):
        if is_number(value) and reaches({name: goal}, {name: value}):
            (seconds,) = times_of_versions(results, [version])
            after = f", after {units.in_seconds(seconds)}" if seconds >= 0 else ""
            untrained = "" if version else ", before any training"
            yield f"{aim} reached at version {version:,}{after}{untrained}"
            return
    yield f"{aim} not reached"


def _list_client_metrics(results: Results) -> list[tuple[str, str, str]]:
    """Returns the clients' last evaluations on their own data."""
    last = results.summary["federated"]
    names = [name for name in main_first(results.metric_names) if name in last]
    return [
        (
            f"Clients' {name}",
            units.metric(last[name]),
            "; ".join([*_clients_aim(results, name), _by(last, name)]),
        )
        for name in names
    ]


def _clients_aim(results: Results, name: str) -> Iterator[str]:
    """Says whether the clients' metric reached its target, if no evaluator has it."""
    if name not in results.summary["metrics"]:
        yield from _aim(results, results.federated, name)


def _by(last: Mapping[str, Any], name: str) -> str:
    clients = units.amount(last["clients"], "client")
    support = f"n\u00a0=\u00a0{last[name + SUPPORT]:,}"
    return f"version {last['version']:,} by {clients}, weighted by samples; {support}"


def _server(results: Results) -> tuple[str, str, str]:
    """Says how long no server ran, and what else happened to the run."""
    epochs = len(results.of(HistoryForked))
    changes = len(results.of(Configured)) - 1
    resumed = len(results.of(RunResumed))
    unproved = sum(record.count for record in results.of(Unproved))
    gaps = [gap for gap in downtimes(results) if gap.how != "ended"]
    ways = Counter(gap.how for gap in gaps)
    remarks = [f"{how} {units.amount(n, 'time')}" for how, n in ways.items()]
    if epochs:
        remarks.append(units.amount(epochs, "restored history", "restored histories"))
    if changes:
        remarks.append(f"{units.amount(changes, 'change')} of settings")
    if resumed:
        remarks.append(f"resumed {units.amount(resumed, 'time')}")
    if unproved:
        remarks.append(f"{units.amount(unproved, 'unproved claim')} of a later state")
    down = time_down(gaps)
    value = f"down for {units.in_seconds(down)}" if down else "never down"
    if not results.of(ServerStarted):
        value = "simulated" if results.has_virtual_time else "not recorded"
    return "Server", value, "; ".join(remarks)
