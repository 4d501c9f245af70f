"""The command ``fedsim scale``."""

from typing import Any

import click

from fedrun.cli.command import (
    PATH,
    data_changes,
    example,
    in_sentences,
    log_to_stderr,
    verbose_option,
)
from fedsim.cli.options import CONFIG, FEDERATION, out_option


@click.command(
    epilog=example(
        "fedsim scale federation.yaml --workers 1,2,4,8,16,32",
        "fedsim scale federation.yaml --device phone.yaml --link up=10,down=50",
    )
)
@CONFIG
@FEDERATION
@click.option(
    "--workers",
    default="1,2,4,8,16,32",
    show_default=True,
    metavar="N,N",
    help="The numbers of workers to predict for.",
)
@click.option(
    "--device",
    type=PATH,
    help="A YAML file that describes the clients' device. Without it, this machine is "
    "measured.",
)
@click.option(
    "--measure", is_flag=True, help="Measure this machine, and do not remark on it."
)
@click.option(
    "--link",
    metavar="MBIT",
    help="Mbit/s of the network, such as 100 or up=10,down=50,server=1000. Without it, "
    "simulate.link and a server of 1000.",
)
@click.option(
    "--run",
    "runs",
    type=PATH,
    multiple=True,
    metavar="FOLDER",
    help="A run of the same app. Runs of various numbers of clients show the measured "
    "scaling; the batch limit is also measured at the last one's model. May be given "
    "several times.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, and write no page.")
@out_option("The folder for the page and numbers.")
@verbose_option
@in_sentences
def scale(
    changes: tuple[str, ...], data: tuple[str, ...], verbose: bool, **options: Any
) -> None:
    """Predict what more workers bring, and where they stop to.

    CONFIG is the YAML file of the federation. The seconds of a round are predicted from
    the model's layers, the device and the network; how many clients are worth averaging
    follows from the gradients of the app's own data.
    """
    log_to_stderr(verbose)
    from fedstudies.scaling.command import ScaleOptions, show_scale

    changes = (*changes, *data_changes(data))
    show_scale(ScaleOptions(changes=changes, verbose=verbose, **options))
