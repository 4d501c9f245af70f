"""``fedsim plan``: what a federation of volatile workers costs, and whom to rent."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field
from rich.console import Console

from fedcore.config import Count
from fedcore.errors import ConfigError
from fedcore.planning.volatile_workers import Question
from fedcore.typing import Seconds
from fedrun.config import FederationConfig
from fedstudies.federated import CONFIG, Simulating
from fedstudies.frame import Option, Phase, Steps, Stopped, stopping
from fedstudies.functions import function_of
from fedstudies.plan.check import require_few_returns
from fedstudies.plan.goal import (
    above_zero,
    check_budget,
    read_duration,
    read_target,
    target_of,
)
from fedstudies.plan.measure import Federation, PilotRuns
from fedstudies.plan.outcome import PlanOutcome
from fedstudies.plan.planner import Planner
from fedstudies.prices.price_file import PricesConfig, read_prices
from fedstudies.runner import require_measured
from fedstudies.typed import numbers

MOST_WORKERS = 16  # that are tried unless --workers says otherwise


class Plan(Simulating[PlanOutcome]):
    """Recommend which workers to rent, on demand or preemptible.

    Short pilots of the app show how error, time and bytes depend on the number of
    workers; the plan is the cheapest one that reaches the target by the deadline, and
    is simulated before it is recommended.

    Returns:
        The ``recommendation``, and the tables ``frontier`` and ``checks`` as dicts of
        columns; ``sentences()`` and ``doubts`` are in words.

    Raises:
        ConfigError: an argument or the prices are wrong, or the pilots cannot support
            a conclusion.
    """

    config: Annotated[str | Path, CONFIG]
    """The YAML file of the federation."""
    prices: Annotated[str | Path, Option(wanted="a path or a name")]
    """The file of prices, or the name of one that comes with the program, such as
    aws_v100_2023."""
    _: KW_ONLY
    target: Annotated[
        Mapping[str, float],
        Field(min_length=1, max_length=1),
        Option(
            "METRIC=VALUE",
            read=read_target,
            wanted="one metric, such as {'accuracy': 0.9}",
        ),
    ]
    """The metric to reach, such as accuracy=0.9 or loss=0.3."""
    deadline: Annotated[
        str | float | None,
        Option("TIME", read=read_duration, wanted="seconds, or a text such as '2h'"),
    ] = None
    """When it should be done, such as 90s, 30m or 2h; the plan is the cheapest."""
    budget: Annotated[float | None, Option(wanted="an amount above 0")] = None
    """What it may cost; without a deadline, the plan is the soonest."""
    workers: Count | None = None
    """The largest number of workers. Without it, simulate.clients, 16 at most."""
    local_steps: Annotated[
        Sequence[Count] | None,
        numbers("numbers from 1", "1,5"),
    ] = None
    """Numbers of local steps between two messages to try, such as 1,5,20. Without it,
    that of the config."""
    pilots: Annotated[Sequence[str | Path], Option("RUN")] = ()
    """The folder of a run that replaces the simulated pilots. Give several, with
    different numbers of updates in a version."""
    pilot_versions: Count = 100
    """How many versions each pilot makes."""
    seeds: Count = 2
    """How often each pilot is simulated."""
    checks: Count = 20
    """Over how many preemption seeds a plan is simulated."""
    out: Annotated[str | Path | None, Option(also="-o")] = None
    """The folder for the page, the numbers and the pilots. Without it, the next free
    one beside server.journal."""

    examples: ClassVar = (
        "federation.yaml --prices aws_v100_2023 --target accuracy=0.9 \\\n"
        "    --deadline 2h",
        "federation.yaml --prices prices.yaml --target loss=0.3 --budget 5",
    )

    def perform(self, console: Console) -> Steps[PlanOutcome]:
        """Simulates pilots, searches, and simulates the plans that seem best."""
        prices, target = read_prices(self.prices, PricesConfig), target_of(self.target)
        if self.deadline is None and self.budget is None:
            raise ConfigError(
                "--deadline or --budget: say when it should be done, such as "
                "--deadline 2h, or what it may cost, such as --budget 5"
            )
        budget = None if self.budget is None else check_budget(self.budget)
        question = Question(
            target.error,
            prices.on_demand,
            deadline=self._seconds(),
            budget=budget,
            restart=prices.restart_seconds,
        )
        if question.deadline is not None:
            require_few_returns(prices.preemptible.offers(), question.deadline)
        found = self.federation()
        config, app, place = found
        require_measured(found.load(), config, app, "plans")
        with _make_folder(self.folder), stopping(_stop):
            most = self.workers or min(config.simulate.clients, MOST_WORKERS)
            if most < 2:
                raise ConfigError(f"--workers {most}: expected at least 2")
            federation = Federation(config, app, place, self.folder, self.jobs)
            runs = PilotRuns(
                federation=federation,
                target=target,
                most=most,
                versions=self.pilot_versions,
                seeds=range(config.seed, config.seed + self.seeds),
                local_steps=self._steps(config),
            )
            planner = Planner(
                federation=federation,
                target=target,
                question=question,
                prices=prices,
                most=most,
                runs=runs,
                journals=[Path(run) for run in self.pilots],
                checks=self.checks,
            )
            yield Phase("pilots", len(self.pilots) or runs.size)
            yield from planner.measure()
            planner.search()
            yield Phase("checks", planner.expected * self.checks)
            yield from planner.examine()
        return planner.outcome()

    def _seconds(self) -> Seconds | None:
        if self.deadline is None:
            return None
        if isinstance(self.deadline, str):
            return read_duration("--deadline", self.deadline)
        return above_zero("--deadline", self.deadline, self.deadline)

    def _steps(self, config: FederationConfig) -> list[int | None]:
        """Returns the communication periods to try."""
        usual = getattr(config.algorithm.client, "steps", None)
        if self.local_steps is None:
            return [usual]
        if usual is None:
            raise ConfigError(
                "--local-steps: the config's clients do not train for a number of "
                "steps; give algorithm.client.steps"
            )
        return [*sorted({*self.local_steps})]


plan = function_of(Plan)


def _stop() -> Stopped:
    why = "a plan needs all pilots and checks"
    return Stopped(why, "the pilots that have ended are kept", again=())


@contextmanager
def _make_folder(folder: Path) -> Iterator[None]:
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
