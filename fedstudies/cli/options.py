"""The frame of a command that simulates many times."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from fedrun.cli.command import (
    data_changes,
    in_sentences,
    log_to_stderr,
    verbose_option,
    with_options,
)
from fedsim.cli.options import count_option


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
        from fedstudies.processes import usual_jobs

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
