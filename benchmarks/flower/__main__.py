"""``python -m benchmarks.flower``: one Flower app, run by Flower and by us."""

import os
import tempfile
from importlib.metadata import version
from pathlib import Path

import click

from benchmarks.flower import simulated
from benchmarks.flower.report import simulated_table
from benchmarks.series import join

RESULTS = Path(__file__).parent.parent / "results" / "flower.json"
PARTS = {"simulated": simulated.measure}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("parts", nargs=-1, type=click.Choice(list(PARTS)))
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    help="Keep runs and logs in this folder. Without it, they are removed.",
)
def main(parts: tuple[str, ...], out: Path | None) -> None:
    """Measure PARTS, or all of them, and save what was found.

    Every run stays in the file, also what a busy machine made slow.
    """
    for part in parts or PARTS:
        with tempfile.TemporaryDirectory() as folder:
            found = PARTS[part](Path(folder) if out is None else out / part)
        busy = round(os.getloadavg()[1], 1)
        run = {"flwr": version("flwr"), "load": busy, "apps": found}
        join(RESULTS, {part: run})
    print("\n".join(simulated_table()))


if __name__ == "__main__":
    main()
