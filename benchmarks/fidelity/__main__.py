"""``python -m benchmarks.fidelity``: what simulations predict of real federations.

Each setting is run by processes on this machine, a server, an evaluator and ten clients
which sleep as slow devices would, for half a minute or so; then it is simulated, from
all of its journal and from its beginning.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import yaml
from rich.table import Table

from benchmarks.fidelity.settings import PILOT, SETTINGS
from benchmarks.speed.measure import machine
from fedcore.errors import LatecomerError
from fedcore.typing import JSON
from fedrun.exits import exit_status
from fedsim.experiments.terminal import screen
from fedsim.fidelity.command import Wanted, assess
from fedsim.fidelity.comparison import Fidelity

RESULTS = Path(__file__).parent.parent / "results" / "fidelity.json"
GOAL = 0.15  # of the time to the target


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the settings that are named, or all."""
    options = _options(arguments)
    folder = Path(options.folder or tempfile.mkdtemp(prefix="fidelity-"))
    found: dict[str, Fidelity] = {}
    for name in options.settings or SETTINGS:
        path = folder / _file_name(name) / "fed.yaml"
        run = path.with_name("out") / "run"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(SETTINGS[name], sort_keys=False))
        changes = (f"simulate.engine.kind={options.engine}",)
        wanted = Wanted(
            config=path,
            changes=changes,
            out=path.with_name("out"),
            run=run if run.exists() else None,
            pilot=PILOT if "timeouts" in SETTINGS[name] else None,
        )
        try:
            found[name] = assess(wanted)
        except LatecomerError as error:
            print(f"error: {name}: {error}", file=sys.stderr)
            return exit_status(error)
    screen().print(_table(found))
    if options.save:
        _save(found)
    return 0


def _file_name(name: str) -> str:
    return name.replace(", ", "-").replace(" ", "-")


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
    new = {name: fidelity.as_json() for name, fidelity in found.items()}
    told = {"machine": machine(), "goal": GOAL, "settings": kept | new}
    RESULTS.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fidelity")
    parser.add_argument(
        "settings", nargs="*", type=_setting, help=f"of {'; '.join(SETTINGS)}"
    )
    parser.add_argument(
        "--folder", help="where runs are kept; those that are there are not run again"
    )
    parser.add_argument(
        "--engine",
        default="stacked",
        choices=["stacked", "exact"],
        help="that simulates",
    )
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.name}")
    return parser.parse_args(arguments)


def _setting(text: str) -> str:
    if text not in SETTINGS:
        raise argparse.ArgumentTypeError(
            f"no setting {text!r}; there are {'; '.join(SETTINGS)}"
        )
    return text


if __name__ == "__main__":
    sys.exit(main())
