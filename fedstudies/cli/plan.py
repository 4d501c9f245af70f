"""The command ``fedsim plan``."""

from typing import Any

import click

from fedrun.cli.command import PATH, example
from fedsim.cli.options import (
    CONFIG,
    FEDERATION,
    count_option,
    out_option,
)
from fedstudies.cli.options import simulates_often


@click.command(
    epilog=example(
        "fedsim plan federation.yaml --prices aws_v100_2023 --target accuracy=0.9 \\",
        "    --deadline 2h",
        "fedsim plan federation.yaml --prices prices.yaml --target loss=0.3 --budget 5",
    )
)
@CONFIG
@FEDERATION
@click.option(
    "--prices",
    type=PATH,
    required=True,
    help="The file of prices, or the name of one that comes with the program, such as "
    "aws_v100_2023.",
)
@click.option(
    "--target",
    required=True,
    metavar="METRIC=VALUE",
    help="The metric to reach, such as accuracy=0.9 or loss=0.3.",
)
@click.option(
    "--deadline",
    metavar="TIME",
    help="When it should be done, such as 90s, 30m or 2h; the plan is the cheapest.",
)
@click.option(
    "--budget",
    type=float,
    help="What it may cost; without a deadline, the plan is the soonest.",
)
@count_option(
    "--workers",
    help="The largest number of workers. Without it, simulate.clients, 16 at most.",
)
@click.option(
    "--local-steps",
    metavar="N,N",
    help="Numbers of local steps between two messages to try, such as 1,5,20. Without "
    "it, that of the config.",
)
@click.option(
    "--pilot",
    "pilots",
    type=PATH,
    multiple=True,
    metavar="RUN",
    help="The folder of a run that replaces the simulated pilots. Give several, with "
    "different numbers of updates in a version.",
)
@count_option(
    "--pilot-versions", default=100, help="How many versions each pilot makes."
)
@count_option("--seeds", default=2, help="How often each pilot is simulated.")
@count_option(
    "--checks",
    default=20,
    help="Over how many preemption seeds a plan is simulated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the numbers as JSON.")
@out_option("The folder for the page and numbers.")
@simulates_often
def plan(**options: Any) -> None:
    """Recommend which workers to rent, on demand or preemptible.

    CONFIG is the YAML file of the federation. Short pilots of its app show how error,
    time and bytes depend on the number of workers; the plan is the cheapest one that
    reaches the target by the deadline, and is simulated before it is recommended.
    """
    from fedstudies.plan.command import PlanOptions, show_plan

    show_plan(PlanOptions(**options))
