"""``python -m benchmarks.flower``: one Flower app, run by Flower and by us."""

import os
import tempfile
from importlib.metadata import version
from pathlib import Path

import click

from benchmarks.flower import deployed, simulated
from benchmarks.flower.report import deployed_table, simulated_table
from benchmarks.series import join
from fedcore.typing import JSON

RESULTS = Path(__file__).parent.parent / "results" / "flower.json"
PARTS = {
    "simulated": (simulated.measure, simulated_table),
    "deployed": (deployed.measure, deployed_table),
}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("parts", nargs=-1, type=click.Choice(list(PARTS)))
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    help="Keep runs and logs in this folder. Without it, they are removed.",
)
@click.option(
    "--save/--no-save", default=True, show_default=True, help="Save what was found."
)
def main(parts: tuple[str, ...], out: Path | None, save: bool) -> None:
    """Measure PARTS, or all of them, and save what was found.

    Every run stays in the file, also what a busy machine made slow.
    """
    for part in parts or PARTS:
        measure, table = PARTS[part]
        with tempfile.TemporaryDirectory() as folder:
            found = measure(Path(folder) if out is None else out / part)
        run: JSON = {"flwr": version("flwr"), "load": busy(), **found}
        if save:
            join(RESULTS, {part: run})
        print("\n".join(table(run)))


def busy() -> float:
    """The mean number of processes that wanted to run in the last five minutes."""
    return round(os.getloadavg()[1], 1)


if __name__ == "__main__":
    main()
