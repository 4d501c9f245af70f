"""The tables of docs/flower.md, as they follow from the results."""

import json
from pathlib import Path
from statistics import fmean

from fedcore.typing import JSON

RESULTS = Path(__file__).parent.parent / "results" / "flower.json"


def saved(part: str) -> JSON:
    """Returns the newest run of a part."""
    found: JSON = json.loads(RESULTS.read_text(encoding="utf-8"))[part]
    return found


def simulated_table() -> list[str]:
    """Returns the table of both simulators, its head included."""
    head = ["app", "seeds", "accuracy by `flwr run`", "by `fedsim run --flower`"]
    head += ["most apart in a round", "seconds by `flwr run`", "by `fedsim run`"]
    lines = [f"| {' | '.join(head)} |", "| --- " * len(head) + "|"]
    for app, runs in saved("simulated")["apps"].items():
        means = [fmean(run["accuracy"][who] for run in runs) for who in WHO]
        seconds = [fmean(run["seconds"][who] for run in runs) for who in WHO]
        cells = [f"`{app}`", str(len(runs)), *(f"{mean:.4f}" for mean in means)]
        cells += [f"{max(run['apart']['most'] for run in runs):.4f}"]
        cells += [f"{each:.0f}" for each in seconds]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


WHO = ("flwr run", "fedsim run")
