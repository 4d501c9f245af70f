"""What simulated federations came to: saved once, and to stay on every processor.

``make golden`` saves it in ``runs.json``, for a change that is meant to give other
models; the changelog then names it. ``python -m tests.golden.runs`` says what differs.
"""

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import latecomer
from fedcore.coordinator.events import Decided, Declined, Leased, Stepped
from fedcore.workload import Workload
from fedview.results import Results
from tests.golden.exact import WORKLOAD
from tests.golden.federations import FEDERATIONS, ROUNDED

FILE = Path(__file__).with_name("runs.json")
ENGINES = ("exact", "stacked")
VERSIONS = 6
CLOSE = 2e-5  # roundings put places 1e-6 apart, and a rate of 1 % more 1e-2
OTHER_BITS = "other bits"
_DECIDED = attrgetter("cid", "seq", "base", "staleness", "samples", "steps", "nbytes")


class Came(NamedTuple):
    """What a federation came to."""

    decisions: str
    """A digest: what was sent, and what was decided of it."""
    bits: str
    """A digest of all versions, and of what was downloaded."""
    places: Sequence[float]
    """Where some versions stand (:func:`tests.golden.exact.place`)."""


def came_to(
    settings: Mapping[str, Any], engine: str, workload: Workload = WORKLOAD
) -> Came:
    """Simulates a federation of ten clients."""
    simulate = {"clients": 10, **settings.get("simulate", {})}
    config = {
        "stop": {"versions": VERSIONS},
        "evaluate": {"every_versions": 3},  # each evaluation writes a model to disk
        **settings,
        "simulate": {**simulate, "engine": {"kind": engine}},
    }
    with tempfile.TemporaryDirectory() as folder:
        results = latecomer.run(config, workload, folder=Path(folder))
        decisions, bits = _digest(_decisions(results)), _digest(_bits(results))
        return Came(decisions, bits, results.central["place"])


def _decisions(results: Results) -> Iterator[str]:
    for decided in results.of(Decided):
        yield f"{_DECIDED(decided)} {decided.verdict.value}"
    for declined in results.of(Declined):
        yield f"{declined.cid} {declined.version} {declined.reason}"


def _bits(results: Results) -> Iterator[str]:
    for step in results.of(Stepped):
        yield step.digest
    tasks = (r for r in results.of(Leased) if r.task == "train")
    yield from sorted(f"{r.cid} {r.version} {r.nbytes}" for r in tasks)


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def differences(before: Came, now: Came) -> list[str]:
    """Returns what is no longer as it was; the place of a version only if it is far."""
    told = [] if now.decisions == before.decisions else ["other decisions"]
    if len(now.places) != len(before.places):
        return [*told, f"{len(now.places)} places, expected {len(before.places)}"]
    for here, there in zip(now.places, before.places, strict=True):
        if not abs(here - there) <= CLOSE:
            return [*told, f"a version stands at {here}, expected {there}"]
    return told if now.bits == before.bits else [*told, OTHER_BITS]


def matters(name: str, difference: str) -> bool:
    """Whether a federation may not differ in this from what was saved."""
    return difference != OTHER_BITS or name not in ROUNDED


def saved() -> dict[str, Came]:
    """What ``runs.json`` holds of each federation."""
    known = json.loads(FILE.read_text())
    return {name: Came(**came) for name, came in known.items()}


def save() -> None:
    """Runs all of them and keeps what they came to, a line each."""
    lines = (
        f" {json.dumps(name)}: {json.dumps(came_to(settings, 'exact')._asdict())}"
        for name, settings in FEDERATIONS.items()
    )
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 1 if a federation came to something else."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden.runs")
    parser.add_argument("names", nargs="*", help="which; all if none")
    parser.add_argument("--save", action="store_true", help=f"write {FILE.name}")
    options = parser.parse_args(arguments)
    if options.save:
        save()
        return 0
    before, failed = saved(), False
    for name in options.names or FEDERATIONS:
        for told in differences(before[name], came_to(FEDERATIONS[name], "exact")):
            failed |= matters(name, told)
            print(f"{name}: {told}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
