"""Runs a federation with real processes, or takes a finished run, and simulates it."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import click
from rich.console import Console

from benchmarks.fidelity.comparison import Fidelity, InOrder, Prediction, compare
from benchmarks.fidelity.federation import RUN, federate
from benchmarks.fidelity.page import cells, fidelity_page
from benchmarks.fidelity.predict import Predictor
from benchmarks.fidelity.side import began_and_ended, read_side
from fedcore.coordinator.events import Closed, Decided, Stepped
from fedcore.errors import ConfigError
from fedcore.typing import Seconds
from fedcore.workload import Workload
from fedrun.app import app_of, load_app
from fedrun.config import FederationConfig, load_config, parse_config
from fedsim.api import free_folder
from fedstudies.tables import screen, tell
from fedview.results import Results

PILOT = 0.25  # of the run, if nothing else is said
PAGE, NUMBERS = "fidelity.html", "fidelity.json"


@dataclass(frozen=True, kw_only=True)
class FidelityOptions:
    """What was asked for on the command line."""

    config: Path
    app: str | None = None
    changes: tuple[str, ...] = ()
    clients: int | None = None
    run: Path | None = None
    pilot: Seconds | None = None
    metric: str | None = None
    target: float | None = None
    seeds: int = 3
    out: Path | None = None


def show(options: FidelityOptions) -> None:
    """Prints and writes what was predicted beside what was measured.

    Raises:
        ConfigError: the config has mistakes, or the run cannot be simulated.
        UnavailableError: the federation failed.
    """
    fidelity = assess(options)
    screen().print(cells(fidelity).on_screen())
    for line in fidelity.sentences():
        click.echo(line)


def assess(options: FidelityOptions) -> Fidelity:
    """Runs a federation, or takes a finished run, and compares its simulations."""
    changes = options.changes
    if options.clients is not None:
        changes = (*changes, f"simulate.clients={options.clients}")
    config = load_config(options.config, changes)
    app, place = app_of(options.app, config, options.config)
    config = config.model_copy(update={"app": app})
    workload = load_app(app, place)
    folder = (options.out or free_folder(config, "fidelity")).resolve()
    console = Console(stderr=True)
    if options.run is None:
        if folder.exists():
            raise ConfigError(f"{folder}: is there already; name another folder")
        measured = _federated(config, place, workload, folder, console)
    else:
        measured = Results(options.run.resolve())
        folder.mkdir(parents=True, exist_ok=True)
    fidelity = _simulated(options, measured, config, workload, folder, console)
    under = f"{config.app}, {measured.summary['clients']} clients, {measured.folder}"
    (folder / PAGE).write_text(fidelity_page(fidelity, under), encoding="utf-8")
    told = json.dumps(fidelity.as_json(), indent=1, ensure_ascii=False)
    (folder / NUMBERS).write_text(told + "\n", encoding="utf-8")
    tell(console, f"page: {folder / PAGE}")
    return fidelity


def _federated(
    config: FederationConfig,
    place: Path,
    workload: Workload,
    folder: Path,
    console: Console,
) -> Results:
    """A real run."""
    with console.status("the server and its clients start") as status:
        for version in federate(config, place, workload, folder):
            if version:
                status.update(f"real processes: version {version:,}")
    return Results(folder / RUN)


def _simulated(
    options: FidelityOptions,
    measured: Results,
    given: FederationConfig,
    workload: Workload,
    folder: Path,
    console: Console,
) -> Fidelity:
    """The predictions, and the comparison."""
    began, ended = began_and_ended(measured)
    pilot = options.pilot or PILOT * (ended - began)
    recorded = parse_config(measured.configured.config)
    kept = {"engine": given.simulate.engine, "args": given.simulate.args}
    section = recorded.simulate.model_copy(update=kept)
    config = recorded.model_copy(update={"app": given.app, "simulate": section})
    predictor = Predictor(measured, config, workload, folder)
    with console.status("simulating"):
        seeds = range(config.seed, config.seed + options.seeds)
        ways: dict[str, Callable[[int], Results]] = {
            "replayed": predictor.replayed,
            "calibrated": partial(predictor.calibrated, pilot=pilot),
        }
        predicted = [
            Prediction(name, [read_side(name, simulate(seed)) for seed in seeds])
            for name, simulate in ways.items()
        ]
        again = predictor.in_order()
    side = read_side("measured", measured)
    found = compare(
        side,
        predicted,
        options.metric,
        options.target or _target(recorded, options.metric),
        pilot,
    )
    theirs, ours = again.of(Stepped), measured.of(Stepped)
    same = sum(a.digest == b.digest for a, b in zip(theirs, ours, strict=False))
    ended = again.of(Closed)[0].at if again.of(Closed) else math.inf
    nbytes = sum(r.nbytes for r in again.of(Decided) if r.at <= ended)
    usual = predictor.stretches(pilot)
    return replace(
        found,
        in_order=InOrder(same, len(ours), nbytes),
        absences=None if math.isinf(usual.there) else usual.returns,
    )


def _target(config: FederationConfig, metric: str | None) -> float | None:
    """That of the config, for this metric."""
    targets = config.stop.target
    name = metric or next(iter(targets), None)
    return None if name is None else targets.get(name)
