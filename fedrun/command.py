"""What the command lines have in common: one sentence for an error, and its status."""

import logging
import os
import sys
import traceback
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import click

from fedcore.errors import LatecomerError, UserCodeError
from fedcore.text import printable
from fedrun.exits import exit_status

Given = ParamSpec("Given")
Result = TypeVar("Result")


def in_sentences(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Expected errors end a command with their message on stderr and a status."""

    @wraps(function)
    def command(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except LatecomerError as error:
            if isinstance(error, UserCodeError) and error.__cause__ is not None:
                traceback.print_exception(error.__cause__)
            for line in str(error).splitlines():
                click.echo(f"error: {printable(line)}", err=True)
            sys.exit(exit_status(error))
        except OSError as error:  # a file that was named cannot be read or written
            if error.filename is None:
                raise
            path = error.filename2 or error.filename
            text = printable(f"error: {path}: {error.strerror}")
            click.echo(text, err=True)
            sys.exit(os.EX_IOERR)

    return command


def log_to_stderr(verbose: bool) -> None:
    """Warnings of the library, and more if asked for."""
    level = logging.DEBUG if verbose else logging.WARNING
    log_printable(level, "%(levelname)s %(name)s: %(message)s")


def log_printable(level: int, layout: str, dates: str | None = None) -> None:
    """Logs to the standard error; what is not printable is escaped."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Printable(layout, dates))
    logging.basicConfig(level=level, handlers=[handler])


class _Printable(logging.Formatter):
    """A peer's words are shown, and do not act on the terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record), lines=True)
