"""What ``fedsim influence`` does: from a command line to a table and a page."""

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console

from fedcore.errors import ConfigError
from fedcore.training import initial_model
from fedcore.user_code import user_code
from fedcore.workload import Client, Workload
from fedrun import units
from fedrun.app import app_of, load_app
from fedrun.cli.plain_json import to_json
from fedrun.cli.stoppable import stoppable
from fedrun.config import FederationConfig, load_config
from fedrun.config.engine import EngineConfig
from fedsim.api import free_folder
from fedsim.api import run as run_simulation
from fedsim.population import Population
from fedstudies.files import write_files
from fedstudies.influence.allowed import (
    require_auditable,
    require_curved,
    require_smooth,
)
from fedstudies.influence.audit import (
    Auditor,
    Retraining,
    chosen,
    retrain,
)
from fedstudies.influence.estimate import Estimator, Settings
from fedstudies.influence.outcome import Audit
from fedstudies.influence.page import influence_page
from fedstudies.influence.repetition import Repetition
from fedstudies.influence.schedule import read_schedule
from fedstudies.old_frame import QUIET, Options, Progress, follow
from fedstudies.processes import run_all
from fedstudies.tables import screen, tell
from fedstudies.typed import split


@dataclass(frozen=True, kw_only=True)
class InfluenceOptions(Options):
    """What was asked for on the command line."""

    config: Path
    run: Path | None
    """The folder of a recorded run; None: the federation is simulated."""
    versions: int | None
    estimator: Estimator
    samples: int
    truncate: bool
    leave_one_out: bool
    check: int
    """Without how many clients it retrains, to check the estimate."""
    clients: str | None
    as_json: bool = False
    seeds: int = 1  # one run is audited

    @property
    def wanted(self) -> list[str]:
        """The names of the clients that were asked for; none: all."""
        names = [name for name in split(self.clients or "") if name]
        if not names and self.clients is not None:
            raise ConfigError(
                f"--clients {self.clients!r}: expected names, such as client-3,client-7"
            )
        return names


def show_influence(options: InfluenceOptions) -> None:
    """Audits a run, writes page and numbers, and says who helps and who hurts.

    Raises:
        ConfigError: the run cannot be audited, or a setting is wrong.
    """
    console = Console(stderr=True)
    try:
        with stoppable():
            audit, out = compute_influence(options, None, console)
    except KeyboardInterrupt:
        console.print("stopped: the audit needs the whole run, so nothing is written")
        return
    files = write_files(out, "influence", influence_page(audit), audit.as_json())
    for line in files.lines:
        tell(console, line)
    if options.as_json:
        click.echo(to_json(audit.as_json(), indent=1))
        return
    screen().print(audit.cells().on_screen(title=audit.heading))
    for doubt in audit.doubts:
        click.echo(doubt)
    click.echo(audit.verdict)


def compute_influence(
    options: InfluenceOptions, workload: Workload | None, console: Console = QUIET
) -> tuple[Audit, Path]:
    """Audits a run; returns what it says, and the folder for its files.

    Args:
        options: what was asked for.
        workload: the model and the data; None: those of the app. With a workload, this
            process retrains alone.
        console: where progress is shown.

    Raises:
        ConfigError: the run cannot be audited, or a setting is wrong.
        ModelError: the model's Hessian products do not match its gradients.
    """
    config = load_config(options.config, options.changes)
    given, app, place = workload, "", Path()
    if given is None:
        app, place = app_of(options.app, config, options.config)
        given = load_app(app, place)
    if given.test_data is None:
        raise ConfigError(
            "influence: the workload has no test_data=, on which the influence is "
            "measured"
        )
    out = options.folder(free_folder(config, "influence"))
    recorded = options.run
    if recorded is None:
        recorded = _simulated(config, given, options, out, console)
    schedule = read_schedule(recorded, config.simulate.args, options.versions)
    watched = chosen(list(schedule.clients), options.wanted)
    settings = Settings(options.estimator, options.samples, options.truncate)
    repetition = Repetition(given, schedule)
    if options.estimator == "hessian":
        repetition.require_curved()
    auditor = Auditor(repetition, watched, settings, recorded.name)

    def estimated() -> Generator[Progress]:
        for version in auditor.estimate():
            yield Progress(1, f"version {version:,}")

    def retrained(names: Sequence[str]) -> Generator[Progress]:
        if workload is not None:
            for name in auditor.retrain(names):
                yield Progress(1, name, f"retrained without {name}")
            return
        args = tuple(config.simulate.args.items())
        tasks = [
            Retraining(app, place, recorded, options.versions, args, name)
            for name in names
        ]
        found = run_all(retrain, tasks, options.jobs, verbose=options.verbose)
        with closing(found):
            for task, w_D in found:
                auditor.true[task.client] = w_D
                yield Progress(1, task.client, f"retrained without {task.client}")

    follow(estimated(), "estimate", len(schedule.rounds), console)
    if options.leave_one_out:
        follow(retrained(watched), "leave one out", len(watched), console)
    elif names := auditor.to_check(options.check):
        follow(retrained(names), "check", len(names), console)
    out.mkdir(parents=True, exist_ok=True)
    return auditor.outcome(), out


def _simulated(
    config: FederationConfig,
    workload: Workload,
    options: InfluenceOptions,
    out: Path,
    console: Console,
) -> Path:
    """Simulates the federation one client at a time; returns the folder of the run.

    What cannot be audited is refused before anything is simulated.
    """
    require_auditable(config.algorithm)
    if config.simulate.arrivals is None:
        population = Population(config.simulate, config.seed)
        chosen(population.names, options.wanted)
        _require_model(config, workload, options, population.client(0))
    simulate = config.simulate.model_copy(update={"engine": EngineConfig(kind="exact")})
    changed = {"simulate": simulate}
    stop = config.stop
    if options.versions is not None:
        stop = type(stop)(versions=options.versions)
    config = config.model_copy(update={**changed, "stop": stop})
    folder = out / "run"
    tell(console, f"simulates {units.counted(simulate.clients, 'client')}: {folder}")
    run_simulation(config, workload, folder=folder, progress=console.is_terminal)
    return folder


def _require_model(
    config: FederationConfig,
    workload: Workload,
    options: InfluenceOptions,
    client: Client,
) -> None:
    """Checks that the model can be audited, on the data of one client."""
    with user_code("the model"):
        model = workload.flat()
    require_smooth(model)
    curvature = workload.curvature(model)
    if options.estimator != "hessian":
        return
    whose = f"train_data of {client.name}"
    with user_code(whose):
        samples = workload.samples(workload.train_data(client), whose)
    require_curved(curvature, initial_model(model, config.seed), samples)
