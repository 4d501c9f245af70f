"""The command ``predict``."""

from pathlib import Path

import click

from fedrun.cli.command import PATH, example, in_sentences, methods_option
from fedsim.cli.options import count_option, out_option


@click.command(
    epilog=example(
        "fedsim predict phases.jsonl --workers 2,4,8 --buffer 4 \\",
        "    --server-up-mbit 100 --server-down-mbit 100 -o forecast",
        "fedsim predict runs/digits --client ann --workers 10,20 --synchronous",
    )
)
@click.argument("trace", type=PATH)
@click.option(
    "--client", help="Whose tasks to take; needed if TRACE is the folder of a run."
)
@click.option(
    "--workers",
    default="2,4,8",
    show_default=True,
    metavar="N,N",
    help="The numbers of clients to predict for.",
)
@count_option(
    "--buffer",
    help="How many updates make a version; with --synchronous, the cohort. Without "
    "it, 10, or all clients.",
)
@click.option(
    "--synchronous", is_flag=True, help="Clients train in rounds, and wait for each."
)
@click.option(
    "--server-up-mbit",
    "up_mbit",
    type=float,
    metavar="MBIT",
    help="What all clients together can send to the server in a second. Without it, "
    "the rate of the traced client.",
)
@click.option(
    "--server-down-mbit",
    "down_mbit",
    type=float,
    metavar="MBIT",
    help="What the server can send to all clients together, likewise.",
)
@click.option(
    "--server-ms",
    type=float,
    metavar="MS",
    help="How long the server works on an update. Without it, what a verdict takes "
    "longer than the shortest answer to a request.",
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the draws."
)
@out_option("Also write a page and the numbers to this folder.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@methods_option
@in_sentences
def predict(
    trace: Path,
    client: str | None,
    workers: str,
    buffer: int | None,
    synchronous: bool,
    up_mbit: float | None,
    down_mbit: float | None,
    server_ms: float | None,
    seed: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """Predict the throughput of many clients from what one did.

    TRACE is the file that fedclient join --phases wrote, or the folder of a run. The
    clients are copies of the traced one, and share the server and its link.
    """
    from fedstudies.predict.command import (
        PredictOptions,
        counts_of,
        show_forecast,
    )

    options = PredictOptions(
        trace=trace,
        client=client,
        workers=counts_of(workers),
        buffer=buffer,
        synchronous=synchronous,
        up_mbit=up_mbit,
        down_mbit=down_mbit,
        server_ms=server_ms,
        seed=seed,
        out=out,
    )
    show_forecast(options, as_json=as_json)
