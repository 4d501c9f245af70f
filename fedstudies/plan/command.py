"""What ``fedsim plan`` does: from a command line to a plan and a page."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import click
from rich.console import Console

from fedcore.errors import ConfigError
from fedcore.planning.volatile_workers import Question
from fedrun.app import app_of, load_app
from fedrun.cli.plain_json import to_json
from fedrun.config import load_config
from fedsim.api import free_folder
from fedstudies.files import Files, write_files
from fedstudies.old_frame import QUIET, Options, follow
from fedstudies.plan.check import require_few_returns
from fedstudies.plan.goal import check_budget, read_duration, read_target
from fedstudies.plan.measure import Federation, PilotRuns
from fedstudies.plan.outcome import PlanOutcome
from fedstudies.plan.page import check_cells, frontier_cells, plan_page
from fedstudies.plan.planner import CHECKED, Planner
from fedstudies.plan.price_file import read_prices
from fedstudies.runner import require_measured
from fedstudies.tables import screen, tell
from fedstudies.typed import whole_numbers

MOST_WORKERS = 16  # that are tried unless --workers says otherwise


@dataclass(frozen=True, kw_only=True)
class PlanOptions(Options):
    """What was asked for on the command line."""

    config: Path
    prices: Path
    target: str
    deadline: str | float | None
    budget: float | None
    workers: int | None
    local_steps: str | None
    pilots: Sequence[Path]
    pilot_versions: int
    checks: int
    as_json: bool = False


def show_plan(options: PlanOptions) -> None:
    """Plans, writes page and numbers, and prints the recommendation."""
    config = load_config(options.config, options.changes)
    folder = options.folder(free_folder(config, "plan"))
    options = replace(options, out=folder)
    try:
        outcome, out = compute_plan(options, Console(stderr=True))
    except KeyboardInterrupt:
        click.echo(f"stopped; with -o {folder} the pilots that have ended are kept")
        return
    files = write_plan(outcome, out)
    if options.as_json:
        click.echo(to_json(outcome.as_json(), indent=1))
        return
    shown = screen()
    shown.print(frontier_cells(outcome).on_screen(title="Cost and time: the frontier"))
    shown.print(check_cells(outcome).on_screen(title="Predicted and simulated"))
    for doubt in outcome.doubts:
        tell(shown, doubt)
    for line in files.lines:
        tell(shown, line)
    for sentence in outcome.sentences():
        click.echo(sentence)


def compute_plan(
    options: PlanOptions, console: Console = QUIET
) -> tuple[PlanOutcome, Path]:
    """Plans; returns the result and the folder for its files.

    Raises:
        ConfigError: an option or the prices are wrong, or the pilots cannot support a
            conclusion.
    """
    prices, target = read_prices(options.prices), read_target(options.target)
    if options.deadline is None and options.budget is None:
        raise ConfigError(
            "--deadline or --budget: say when it should be done, such as "
            "--deadline 2h, or what it may cost, such as --budget 5"
        )
    question = Question(
        target.error,
        prices.on_demand,
        deadline=None
        if options.deadline is None
        else read_duration("--deadline", options.deadline),
        budget=None if options.budget is None else check_budget(options.budget),
    )
    if question.deadline is not None:
        require_few_returns(prices.preemptible.offers(), question.deadline)
    config = load_config(options.config, options.changes)
    app, place = app_of(options.app, config, options.config)
    require_measured(load_app(app, place), config, app, "plans")
    out = options.folder(free_folder(config, "plan"))
    with _made(out):
        most = options.workers or min(config.simulate.clients, MOST_WORKERS)
        if most < 2:
            raise ConfigError(f"--workers {most}: expected at least 2")
        federation = Federation(config, app, place, out, options.jobs)
        usual = getattr(config.algorithm.client, "steps", None)
        runs = PilotRuns(
            federation=federation,
            target=target,
            most=most,
            versions=options.pilot_versions,
            seeds=range(config.seed, config.seed + options.seeds),
            local_steps=_steps(options.local_steps, usual),
        )
        planner = Planner(
            federation=federation,
            target=target,
            question=question,
            prices=prices,
            most=most,
            runs=runs,
            journals=options.pilots,
            checks=options.checks,
        )
        follow(planner.measure(), "pilots", len(options.pilots) or runs.size, console)
        planner.search()
        follow(planner.examine(), "checks", CHECKED * options.checks, console)
    return planner.outcome(), out


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Makes a folder; removes it if an error leaves it empty."""
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        if is_new:
            with suppress(OSError):  # it is not empty
                folder.rmdir()
        raise


def write_plan(outcome: PlanOutcome, out: Path) -> Files:
    """Writes the page and the numbers of a plan."""
    return write_files(out, "plan", plan_page(outcome), outcome.as_json())


def _steps(given: str | None, usual: int | None) -> list[int | None]:
    """The communication periods to try.

    Raises:
        ConfigError: they are no whole numbers, or clients do not count steps.
    """
    if given is None:
        return [usual]
    expected = "numbers from 1, such as 1,5"
    steps = whole_numbers("--local-steps", given, expected)
    if usual is None:
        raise ConfigError(
            "--local-steps: the config's clients do not train for a number of steps; "
            "give algorithm.client.steps"
        )
    return [*sorted({*steps})]
