"""``fedsim coding``: what codes gain for a silo's own workers."""

from pathlib import Path

import click

from fedrun.cli.command import example, in_sentences
from fedsim.cli.options import out_option


@click.command(
    epilog=example(
        "fedsim coding --workers 10",
        "fedsim coding --workers 50 --straggling 0.5 --json",
    )
)
@click.option(
    "--workers",
    type=int,
    required=True,
    metavar="N",
    help="The number of workers.",
)
@click.option(
    "--straggling",
    type=float,
    default=1.0,
    show_default=True,
    help="The rate μ of a worker's exponential delay: its mean is 1/μ of what the "
    "worker computes.",
)
@click.option(
    "--multicast-gain",
    type=float,
    help="By how much one message to all workers is cheaper than one to each. Without "
    "it, as many times as there are workers.",
)
@click.option(
    "--trials",
    type=int,
    default=20_000,
    show_default=True,
    help="How often each way is drawn.",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="The seed of the draws.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the numbers as JSON.")
@out_option("The folder for the page and numbers.", default="coding")
@in_sentences
def coding(
    workers: int,
    straggling: float,
    multicast_gain: float | None,
    trials: int,
    seed: int,
    as_json: bool,
    out: Path,
) -> None:
    """Tell how much sooner coded workers of one silo are done.

    Compares uncoded, replicated, MDS-coded and gradient-coded workers, by formula and
    drawn, and says what coded shuffling would save. All of it is about the workers of
    one client; data are never replicated across clients.
    """
    from fedstudies.coding.command import show_coding
    from fedstudies.coding.study import CodingStudy

    study = CodingStudy(
        workers=workers,
        straggling=straggling,
        multicast_gain=multicast_gain,
        trials=trials,
        seed=seed,
    )
    show_coding(study, out, as_json=as_json)
