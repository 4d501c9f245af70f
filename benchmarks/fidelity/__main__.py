"""``python -m benchmarks.fidelity``: predictions of real federations by simulations.

A federation is run by processes on this machine: a server, an evaluator and clients,
which sleep as slow devices would. Then it is simulated, from all of its journal and
from its beginning alone, and both are compared.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from benchmarks.basis import stamp
from benchmarks.fidelity.assess import FidelityOptions, assess, show
from benchmarks.fidelity.comparison import Fidelity
from benchmarks.fidelity.settings import PILOT, SETTINGS, write_setting
from benchmarks.speed.measure import machine
from fedcore.typing import JSON
from fedrun.cli.command import (
    PATH,
    data_changes,
    example,
    in_sentences,
    log_to_stderr,
    verbose_option,
)
from fedsim.cli.options import FEDERATION, METRIC, count_option, out_option
from fedstudies.tables import screen

RESULTS = Path(__file__).parent.parent / "results" / "fidelity.json"
GOAL = 0.15  # of the time to the target


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=example(
        "python -m benchmarks.fidelity federation.yaml --clients 8 --seeds 3",
        "python -m benchmarks.fidelity synchronous FedBuff -o runs/fidelity --save",
    ),
)
@click.argument("federations", nargs=-1)
@FEDERATION
@count_option("--clients", help="How many clients. Without it, simulate.clients.")
@click.option(
    "--run",
    type=PATH,
    metavar="RUN",
    help="Compare with this finished run; no processes are started.",
)
@click.option(
    "--pilot",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="How much of the run the simulation is calibrated on. Without it, a quarter.",
)
@METRIC
@click.option(
    "--target",
    type=float,
    help="Compare times up to this value of the metric. Without it, up to stop.target, "
    "or to nine tenths of the gain.",
)
@count_option("--seeds", default=3, help="How often each simulation is repeated.")
@out_option("The folder for the page and the runs.")
@click.option("--save", is_flag=True, help=f"Write {RESULTS.name} of the settings.")
@verbose_option
@in_sentences
def main(
    federations: tuple[str, ...],
    changes: tuple[str, ...],
    data: tuple[str, ...],
    out: Path | None,
    *,
    save: bool,
    verbose: bool,
    **options: Any,
) -> None:
    """Check simulations against real processes.

    FEDERATIONS is the YAML file of one, or names of built-in settings; without any, all
    built-in settings are run. Of these, runs that are in the folder of --out already
    are not run again.
    """
    log_to_stderr(verbose)
    changes = (*changes, *data_changes(data))
    named = [name for name in federations if name in SETTINGS]
    if len(named) == len(federations):
        folder = out or Path(tempfile.mkdtemp(prefix="fidelity-"))
        _run_settings(named or list(SETTINGS), folder, changes, save=save)
        return
    if len(federations) > 1 or save:
        raise click.UsageError(
            f"expected one YAML file, or settings of {'; '.join(SETTINGS)}"
        )
    config = Path(federations[0])
    show(FidelityOptions(config=config, changes=changes, out=out, **options))


def _run_settings(
    names: list[str], folder: Path, changes: tuple[str, ...], *, save: bool
) -> None:
    found: dict[str, Fidelity] = {}
    for name in names:
        path = write_setting(name, folder)
        run = path.with_name("out") / "run"
        options = FidelityOptions(
            config=path,
            changes=("simulate.engine.kind=stacked", *changes),
            out=path.with_name("out"),
            run=run if run.exists() else None,
            pilot=PILOT if "timeouts" in SETTINGS[name] else None,
        )
        found[name] = assess(options)
    screen().print(_table(found))
    if save:
        _save(found)


def _table(found: dict[str, Fidelity]) -> Table:
    table = Table(title="Seconds to the target: measured and predicted")
    table.add_column("setting")
    for head in (
        "updates/s",
        "target",
        "measured",
        "replayed",
        "calibrated",
        "staleness D",
        "(5 %)",
        "bytes up",
        "same bits",
    ):
        table.add_column(head, justify="right")
    for name, fidelity in found.items():
        row = fidelity.rows[0]
        cells = [
            f"{found.value:.1f} ({error:+.1%})"
            for found, error in zip(row.predicted, row.errors(), strict=True)
        ]
        tests = [fidelity.staleness(side) for side in fidelity.predicted]
        order = fidelity.in_order
        assert order is not None
        exact = order.bytes_up == fidelity.measured.trial.bytes_up
        table.add_row(
            name,
            f"{fidelity.measured.rate:.1f}",
            f"{fidelity.target:.3g}",
            f"{row.measured:.1f}",
            *cells,
            ", ".join(f"{test.statistic:.3f}" for test in tests if test),
            f"{tests[0].bound:.3f}" if tests[0] else "",
            "exact" if exact else f"{order.bytes_up:,}",
            f"{order.same} of {order.versions}",
        )
    return table


def _save(found: dict[str, Fidelity]) -> None:
    """Writes every value; settings that were not run keep theirs."""
    kept: dict[str, JSON] = {}
    if RESULTS.is_file():
        kept = json.loads(RESULTS.read_text())["settings"]
    new = {name: {**fidelity.as_json(), **stamp()} for name, fidelity in found.items()}
    told = {"machine": machine(), "goal": GOAL, "settings": kept | new}
    RESULTS.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.fidelity")
