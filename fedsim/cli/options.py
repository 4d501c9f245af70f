"""Options that several commands of ``fedsim`` take."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from fedrun.cli.command import (
    FROM_CONFIG,
    PATH,
    Decorator,
    app_option,
    data_changes,
    data_option,
    in_sentences,
    log_to_stderr,
    set_option,
    verbose_option,
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


def simulates_often(function: Callable[..., None]) -> Any:
    """The frame of a command that simulates many times.

    Adds ``--jobs`` and ``-v``. The function is given ``changes`` with those of
    ``--data``, and the number of ``jobs``.
    """

    @wraps(function)
    def command(
        *,
        changes: tuple[str, ...],
        data: tuple[str, ...],
        jobs: int | None,
        verbose: bool,
        **others: Any,
    ) -> None:
        log_to_stderr(verbose)
        from fedsim.experiments.processes import usual_jobs

        changes = (*changes, *data_changes(data))
        jobs = jobs or usual_jobs()
        function(changes=changes, jobs=jobs, verbose=verbose, **others)

    options = with_options(
        count_option(
            "--jobs",
            help="How many processes simulate at a time. The results do not depend on "
            "it.",
        ),
        verbose_option,
    )
    return options(in_sentences(command))
