"""Options that several commands of ``fedsim`` take."""

from pathlib import Path

import click

from fedrun.cli.command import FROM_CONFIG, app_option

PATH = click.Path(path_type=Path)
APP = app_option(otherwise=FROM_CONFIG)
CONFIG = click.argument("config", type=PATH)
METRIC = click.option(
    "--metric",
    help="The metric to compare by. Without it, accuracy, or the first one measured.",
)
JOBS = click.option(
    "--jobs",
    type=click.IntRange(1),
    help="How many processes simulate at a time. The results do not depend on it.",
)
