"""The commands that simulate or train many times: ``codecs``, ``sweep`` and others."""

from typing import Any

import click

from fedrun.cli.command import (
    PATH,
    example,
)
from fedsim.cli.options import (
    FEDERATION,
    count_option,
    out_option,
)
from fedstudies.cli.options import simulates_often


@click.command(
    epilog=example(
        "fedsim codecs federation.yaml --uplink top_k:ratio=0.01",
        "fedsim codecs --app my_app:workload",
    )
)
@click.argument("config", type=PATH, required=False)
@FEDERATION
@click.option(
    "--uplink",
    "uplinks",
    multiple=True,
    metavar="CODEC",
    help="A codec to try for updates, such as top_k:ratio=0.01 or as YAML. May be "
    "given several times.",
)
@click.option(
    "--downlink",
    "downlinks",
    multiple=True,
    metavar="CODEC",
    help="A codec to try for models. May be given several times.",
)
@count_option(
    "--versions",
    "--rounds",
    default=100,
    help="How many versions each simulation makes.",
)
@count_option(
    "--seeds",
    default=1,
    help="How often each pair is simulated; the means are compared.",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(0),
    default=0.005,
    show_default=True,
    help="How much worse than uncompressed the recommended pair may be.",
)
@out_option("The folder for the page and numbers.")
@simulates_often
def codecs(**options: Any) -> None:
    """Compare codecs on your model, and recommend a pair.

    CONFIG is the YAML file of the federation. Without it, the app is simulated with
    all defaults.
    """
    from fedstudies.codecs.command import CodecsOptions, show_codecs

    show_codecs(CodecsOptions(**options))
