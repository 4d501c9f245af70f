"""Options that several commands of ``fedsim`` take."""

import click

from fedrun.cli.command import (
    FROM_CONFIG,
    PATH,
    app_option,
    data_option,
    set_option,
    with_options,
)
from fedrun.cli.command import out_option as out_option
from fedrun.cli.help import Decorator

APP = app_option(otherwise=FROM_CONFIG)
CONFIG = click.argument("config", type=PATH)
OPTIONAL_CONFIG = click.argument("config", type=PATH, required=False)
FEDERATION = with_options(APP, set_option, data_option)
METRIC = click.option(
    "--metric",
    help="The metric to compare by. Without it, accuracy, or the first one measured.",
)


def count_option(*names: str, default: int | None = None, help: str) -> Decorator:
    """An option for a number from 1 on."""
    return click.option(
        *names,
        type=click.IntRange(1),
        default=default,
        show_default=default is not None,
        help=help,
    )
