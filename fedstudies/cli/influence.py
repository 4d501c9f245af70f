"""The command ``fedsim influence``."""

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
        "fedsim influence federation.yaml --versions 100 --leave-one-out",
        "fedsim influence federation.yaml --run runs/digits --clients client-3",
    )
)
@CONFIG
@FEDERATION
@click.option(
    "--run",
    type=PATH,
    metavar="FOLDER",
    help="Audit this recorded run of the federation. Without it, the federation is "
    "simulated first.",
)
@count_option(
    "--versions",
    "--rounds",
    help="How many versions to simulate, or to audit of --run. Without it, up to the "
    "end.",
)
@click.option(
    "--estimator",
    type=click.Choice(["hessian", "fisher"]),
    default="hessian",
    show_default=True,
    help="Exact second derivatives, or gradients of samples in their place.",
)
@count_option(
    "--samples", default=50, help="fisher: how many samples stand for a Hessian."
)
@click.option(
    "--truncate",
    is_flag=True,
    help="Stop following a layer once its estimate grows (for deep models).",
)
@click.option(
    "--leave-one-out",
    is_flag=True,
    help="Also retrain without each client, and compare.",
)
@count_option(
    "--check",
    default=3,
    help="Without how many clients to retrain, to check the estimate.",
)
@click.option(
    "--clients",
    metavar="NAME,NAME",
    help="Audit these clients only; it takes less memory and time.",
)
@out_option("The folder for the page, the numbers and the simulated run.")
@click.option("--json", "as_json", is_flag=True, help="Print the numbers as JSON.")
@simulates_often
def influence(**options: Any) -> None:
    """Estimate how each client influenced the model.

    CONFIG is the YAML file of the federation. The audit repeats every client's local
    steps on its data, so it runs where the data of all clients are: in a simulation, or
    with the app of a recorded run.
    """
    from fedstudies.influence.command import InfluenceOptions, show_influence

    show_influence(InfluenceOptions(**options))
