"""The same app by ``flwr run`` in simulation and by ``fedsim run --flower``."""

import ast
import json
import re
from pathlib import Path
from statistics import fmean

from benchmarks.flower.processes import Commands, copied
from fedcore.typing import JSON
from fedview.results import Results

NODES = 10
CENTRAL = re.compile(r"Global evaluation.*?MetricRecord: (\{.*?\})", re.DOTALL)
OF_CLIENTS = re.compile(r"aggregate_evaluate.*?MetricRecord: (\{.*?\})", re.DOTALL)
LEGACY = re.compile(r"\((\d+), (0\.\d+)\)")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
APPS = {  # and the metric of each; whether the server computes it
    "quickstart-sklearn": ("accuracy", False),
    "quickstart-torch": ("accuracy", True),
    "quickstart-numpyclient": ("accuracy", False),
}
SEEDS = {"quickstart-torch": (1, 2, 3)}  # the others draw nothing


def measure(folder: Path) -> JSON:
    """Runs every app with both; returns seconds and accuracies of each.

    What is done lies in the folder, and is not run again.
    """
    found: JSON = {}
    for app in APPS:
        for seed in SEEDS.get(app, (0,)):
            place = folder / f"{app}-{seed}"
            done = place / "found.json"
            if not done.is_file():
                place.mkdir(parents=True, exist_ok=True)
                done.write_text(json.dumps(both(app, seed, place)), encoding="utf-8")
            found.setdefault(app, []).append(json.loads(done.read_text("utf-8")))
    return {"apps": found}


def both(app: str, seed: int, place: Path) -> JSON:
    """Runs an app with both simulators; returns seconds and accuracies.

    Args:
        app: the name of an example.
        seed: of the app, if it draws anything.
        place: where runs and logs are written.
    """
    metric, is_central = APPS[app]
    config = ["--run-config", f"seed={seed}"] if app in SEEDS else []
    with Commands(place) as commands:
        path = copied(app, place)
        words = ["fedsim", "run", "--flower", str(path), *config, "--no-report"]
        words += ["--set", f"simulate.clients={NODES}", "-o", "run"]
        _, ours = commands.run(words)
        with commands.super_link("--simulation"):
            words = ["flwr", "run", app, "link", "--stream", *config]
            words += ["--federation-config", f"num-supernodes={NODES}"]
            said, theirs = commands.run(words)
    (place / "flwr-run.log").write_text(said, encoding="utf-8")
    results = Results(place / "run")
    table = results.central if is_central else results.federated
    mine = table[metric][1:]  # Flower tells rounds from the first on
    found = rounds_of(COLOURS.sub("", said), metric, is_central=is_central)
    apart = [abs(a - b) for a, b in zip(mine, found, strict=True)]
    print(f"{app}, seed {seed}: {theirs:.0f} s by flwr run, {ours:.0f} s by fedsim run")
    return {
        "seed": seed,
        "rounds": len(mine),
        "seconds": {"flwr run": round(theirs, 1), "fedsim run": round(ours, 1)},
        "accuracy": {"flwr run": found[-1], "fedsim run": mine[-1]},
        "apart": {"mean": fmean(apart), "most": max(apart)},
    }


def rounds_of(said: str, metric: str, *, is_central: bool) -> list[float]:
    """Returns a metric for each round, as ``flwr run --stream`` printed it."""
    pattern = CENTRAL if is_central else OF_CLIENTS
    found = [ast.literal_eval(each)[metric] for each in pattern.findall(said)]
    if found:
        return found
    block = said[said.rindex(f"'{metric}'") :]  # the history of the older kind
    return [float(value) for _, value in LEGACY.findall(block[: block.index("]")])]
