"""``python -m benchmarks.asynchrony``: virtual time to a target accuracy."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console

from benchmarks.asynchrony.campaign import Campaign, Store
from benchmarks.asynchrony.contenders import CONTENDERS, MAIN
from benchmarks.asynchrony.course import SPEEDS, Setting
from benchmarks.asynchrony.plot import draw
from benchmarks.asynchrony.problem import PROBLEMS
from benchmarks.asynchrony.report import show
from fedcore.errors import LatecomerError
from fedrun.cli.exit_codes import exit_code

RESULTS = Path(__file__).parent.parent / "results" / "asynchrony.json"
DATA = "LATECOMER_DATA"


def main(arguments: Sequence[str] | None = None) -> int:
    """Tunes and runs every contender in every setting that is asked for."""
    options = _options(arguments)
    torch.set_num_threads(1)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 200
    store = Store(RESULTS if options.save else None)
    campaigns = []
    for flight in options.in_flight:
        for speed in options.speeds:
            setting = Setting(PROBLEMS[options.model], options.data, speed, flight)
            campaign = Campaign(
                setting, store, console.print, options.limit, options.tuning
            )
            campaigns.append(campaign)
            try:
                run(campaign, options)
            except LatecomerError as error:
                print(f"error: {error}", file=sys.stderr)
                return exit_code(error)
    seeds = seeds_of(options)
    for campaign in campaigns:
        show(console, campaign, seeds)
    if options.plot:
        options.plot.parent.mkdir(parents=True, exist_ok=True)
        options.plot.write_text(draw(campaigns, seeds))
    return 0


def run(campaign: Campaign, options: argparse.Namespace) -> None:
    """Tuning with seed 0, then runs with other seeds, then the control."""
    chosen = [CONTENDERS[name] for name in options.only or MAIN]
    for contender in chosen:
        if not contender.rates_of and contender.fixed is None:
            campaign.tune(contender)
    for seed in seeds_of(options):
        for contender in chosen:
            campaign.run(contender, seed)
    if not options.no_control:
        campaign.control()


def seeds_of(options: argparse.Namespace) -> list[int]:
    """Those that no rate was chosen by."""
    return list(range(1, options.seeds + 1))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.asynchrony")
    parser.add_argument("--model", choices=PROBLEMS, default="mlp")
    parser.add_argument(
        "--speeds", nargs="*", choices=SPEEDS, default=list(SPEEDS), metavar="KIND"
    )
    parser.add_argument(
        "--in-flight", nargs="*", type=int, default=[200], metavar="CLIENTS"
    )
    parser.add_argument(
        "--only", nargs="*", choices=CONTENDERS, help=f"{', '.join(MAIN)} if none"
    )
    parser.add_argument("--seeds", type=int, default=3, help="3 if not said")
    parser.add_argument(
        "--tuning", type=int, default=12, help="runs for each contender's rates"
    )
    parser.add_argument(
        "--limit", type=float, default=250.0, help="time units that a run may take"
    )
    parser.add_argument("--no-control", action="store_true")
    parser.add_argument(
        "--data",
        default=os.environ.get(DATA, "data"),
        metavar="FOLDER",
        help=f"of fashion_mnist.npz; or ${DATA}",
    )
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="an SVG of the curves"
    )
    parser.add_argument(
        "--save",
        action="store_true",
        help=f"write {RESULTS.name}; what it has already is not run again",
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
