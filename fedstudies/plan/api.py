"""``latecomer.plan``."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedcore.errors import ConfigError
from fedrun.arguments import (
    expect_config,
    expect_count,
    expect_list,
    expect_paths,
    expect_type,
    path_of,
)
from fedrun.config.yaml_text import changes_of
from fedstudies.plan.command import PlanOptions, compute_plan, write_plan
from fedstudies.plan.outcome import PlanOutcome


def plan(
    config: str | Path,
    prices: str | Path,
    *,
    target: Mapping[str, float],
    deadline: str | float | None = None,
    budget: float | None = None,
    workers: int | None = None,
    local_steps: Sequence[int] | None = None,
    pilots: Sequence[str | Path] = (),
    pilot_versions: int = 100,
    seeds: int = 2,
    checks: int = 20,
    app: str | None = None,
    changes: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    jobs: int = 1,
) -> PlanOutcome:
    """Recommends which workers to rent for a federation, as ``fedsim plan`` does.

    Args:
        config: the path of the YAML file.
        prices: the path of a price file, or the name of one that comes with the
            program.
        target: one metric with the value to reach, such as ``{"accuracy": 0.9}``.
        deadline: seconds, or a text such as ``"2h"``; the plan is the cheapest.
        budget: what it may cost; without a deadline, the plan is the soonest.
        workers: the largest number of workers. Without it, ``simulate.clients``, 16 at
            most.
        local_steps: the communication periods to try; without it, that of the config.
        pilots: folders of runs, which replace the simulated pilots.
        pilot_versions: how many versions each simulated pilot makes.
        seeds: how often each pilot is simulated.
        checks: over how many preemption seeds a plan is simulated.
        app: ``module:attribute``. Without it, the app that the config names.
        changes: values by field that replace those of the config.
        out: the folder for page and numbers. Without it, the next free one beside
            ``server.journal``.
        jobs: how many processes. A script that uses several must guard its own start
            with ``if __name__ == "__main__"``, since they import it.

    Returns:
        The ``recommendation``, and the tables ``frontier`` and ``checks`` as dicts of
        columns; ``sentences()`` and ``doubts`` are in words.

    Raises:
        ConfigError: an argument or the prices are wrong, or the pilots cannot support
            a conclusion.
    """
    expect_config(config, app, changes)
    if prices is None:
        raise ConfigError("prices: expected a path or a name, got None")
    expect_paths(prices=prices, out=out)
    expect_list("folders of runs", str, Path, pilots=pilots)
    expect_list("whole numbers, such as [1, 5]", int, local_steps=local_steps)
    expect_type("seconds, or a text such as '2h'", str, int, float, deadline=deadline)
    expect_type("an amount above 0", int, float, budget=budget)
    expect_type("a whole number", int, workers=workers, jobs=jobs)
    if not isinstance(target, Mapping) or len(target) != 1:
        raise ConfigError(
            f"target: expected one metric, such as {{'accuracy': 0.9}}, got {target!r}"
        )
    ((metric, value),) = target.items()
    expect_count(seeds=seeds, checks=checks, pilot_versions=pilot_versions)
    outcome, folder = compute_plan(
        PlanOptions(
            config=Path(config),
            app=app,
            changes=changes_of(changes),
            seeds=seeds,
            out=path_of(out),
            jobs=jobs,
            verbose=False,
            prices=Path(prices),
            target=f"{metric}={value}",
            deadline=deadline,
            budget=budget,
            workers=workers,
            local_steps=None
            if local_steps is None
            else ",".join(str(each) for each in local_steps),
            pilots=[Path(each) for each in pilots],
            pilot_versions=pilot_versions,
            checks=checks,
        )
    )
    write_plan(outcome, folder)
    return outcome
