"""The commands that simulate or train many times: ``codecs``, ``sweep`` and others."""

from pathlib import Path
from typing import Any

import click

from fedrun.cli.command import (
    PATH,
    example,
    in_sentences,
)
from fedsim.cli.options import (
    CONFIG,
    FEDERATION,
    METRIC,
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


@click.command(
    epilog=example(
        "fedsim sweep federation.yaml --grid algorithm.buffer=4,8 --seeds 3",
        "fedsim sweep federation.yaml --random 8 \\",
        "    --range algorithm.client.lr=log:0.01:1",
    )
)
@CONFIG
@FEDERATION
@click.option(
    "--grid",
    "grids",
    multiple=True,
    metavar="FIELD=VALUE,VALUE",
    help="Values to try, such as algorithm.buffer=4,8. With several, every "
    "combination is tried.",
)
@click.option(
    "--range",
    "ranges",
    multiple=True,
    metavar="FIELD=SCALE:LOW:HIGH",
    help="An interval from which --random draws; the scale is linear, log or int, as "
    "in algorithm.client.lr=log:0.01:1.",
)
@click.option(
    "--random",
    type=click.IntRange(1),
    metavar="N",
    help="Draw this many points from the intervals of --range and the values of "
    "--grid.",
)
@count_option("--seeds", default=1, help="How often each point is simulated.")
@METRIC
@out_option("The folder of the sweep.")
@click.option("--fresh", is_flag=True, help="Simulate again what is done already.")
@click.option("--keep", is_flag=True, help="Keep the folders of the runs.")
@simulates_often
def sweep(**options: Any) -> None:
    """Try many settings of a federation.

    CONFIG is the YAML file of the federation. Finished runs are kept in the folder of
    the sweep: the same command, or one with more values or seeds, simulates only what
    is new.
    """
    from fedstudies.sweep.command import SweepOptions, show_sweep

    show_sweep(SweepOptions(**options))


@click.command(epilog=example("fedsim compare runs/a runs/b --target 0.9 -o page.html"))
@click.argument("runs", nargs=-1, required=True)
@METRIC
@click.option(
    "--target",
    type=float,
    help="Count costs up to this value of the metric. Without it, up to stop.target, "
    "or to the best value that all runs reach.",
)
@out_option("Also write a page with the curves.")
@in_sentences
def compare(
    runs: tuple[str, ...], metric: str | None, target: float | None, out: Path | None
) -> None:
    """Compare runs or sweeps by metric and cost.

    RUNS are their folders. A sweep stands for its best point; FOLDER:2 names another
    row. Runs that differ only in their seeds are averaged.
    """
    from fedstudies.compare.command import compare_runs

    compare_runs(runs, metric, target, out)
