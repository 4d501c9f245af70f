"""Options that several commands of ``fedsim`` take."""

from pathlib import Path

import click

from fedrun.cli.command import (
    FROM_CONFIG,
    PATH,
    Decorator,
    app_option,
    data_option,
    set_option,
    with_options,
)

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


def out_option(what: str, default: str | None = None) -> Decorator:
    """The option ``-o``, whose help is ``what``."""
    return click.option(
        "-o",
        "--out",
        type=PATH,
        default=None if default is None else Path(default),
        show_default=default is not None,
        help=what,
    )
