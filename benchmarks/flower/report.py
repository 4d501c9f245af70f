"""The tables of docs/flower.md, made from the results."""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from benchmarks.flower.deployment import TARGET
from fedcore.typing import JSON

RESULTS = Path(__file__).parent.parent / "results" / "flower.json"
WHO = ("flwr run", "fedsim run")


def saved(part: str) -> JSON:
    """Returns the newest run of a part."""
    found: JSON = json.loads(RESULTS.read_text(encoding="utf-8"))[part]
    return found


def simulated_table(run: JSON) -> list[str]:
    """Returns the table of both simulators, its head included."""
    head = ["app", "seeds", "accuracy by `flwr run`", "by `fedsim run --flower`"]
    head += ["most apart in a round", "seconds by `flwr run`", "by `fedsim run`"]
    rows = []
    for app, runs in run["apps"].items():
        means = [fmean(run["accuracy"][who] for run in runs) for who in WHO]
        seconds = [fmean(run["seconds"][who] for run in runs) for who in WHO]
        cells = [f"`{app}`", str(len(runs)), *(f"{mean:.4f}" for mean in means)]
        cells += [f"{max(run['apart']['most'] for run in runs):.4f}"]
        rows.append(cells + [f"{each:.0f}" for each in seconds])
    return _table(head, rows)


def deployed_table(run: JSON) -> list[str]:
    """Returns the table of both deployments, its head included."""
    ways = run["ways"].values()
    rows = [
        ["seconds to the first result", *(f"{w['first result']:.1f}" for w in ways)],
        ["updates a second from then on", *(f"{w['per second']:.2f}" for w in ways)],
        ["bytes an update, to the server", *(_bytes(w, "up") for w in ways)],
        ["bytes an update, from the server", *(_bytes(w, "down") for w in ways)],
        ["memory at the server, MB", *(_memory(w["memory"]) for w in ways)],
        ["accuracy of the last version", *(f"{w['accuracy']:.3f}" for w in ways)],
        [
            f"seconds to an accuracy of {TARGET:g}",
            *(f"{w['target']['seconds']:.1f}" for w in ways),
        ],
        ["kilobytes until then, both ways", *map(_kilobytes, ways)],
        ["a node is killed: seconds without a version", *map(_waited, ways)],
        ["a node is killed: then", *map(_then, ways)],
        ["the server is killed: the run", *map(_run, ways)],
        ["the server is killed: seconds to the next version", *map(_back, ways)],
    ]
    return _table(["", *run["ways"]], rows)


def _bytes(way: JSON, direction: str) -> str:
    return f"{way['bytes'][direction] / way['updates']:,.0f}"


def _kilobytes(way: JSON) -> str:
    return f"{way['target']['bytes'] / 1000:,.0f}"


def _memory(memory: dict[str, float]) -> str:
    return ", ".join(f"{kind} {most:.0f}" for kind, most in memory.items())


def _waited(way: JSON) -> str:
    return f"{way['node killed']['waited']:.1f}"


def _then(way: JSON) -> str:
    told = way["node killed"]
    if "results" in told:
        return f"rounds of {', '.join(map(str, told['results']))} updates"
    return f"{told['versions']} versions in {told['watched']:.0f} s"


def _run(way: JSON) -> str:
    told = way["server killed"]
    if "status" in told:
        return f"`{told['status']}` after {told['before']} rounds"
    lost, doubled = told["lost"], told["doubled"]
    updates = f"of {told['acknowledged']:,} updates {lost} lost, {doubled} doubled"
    return f"goes on from version {told['before']:,}; {updates}"


def _back(way: JSON) -> str:
    told = way["server killed"]
    if told["back"] is None:
        return "none"
    return f"{told['back']:.1f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", "| --- " * len(head) + "|"]
    return lines + [f"| {' | '.join(cells)} |" for cells in rows]
