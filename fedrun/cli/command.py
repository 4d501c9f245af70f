"""Options, error messages and logging of all command lines."""

import errno
import json
import logging
import os
import shutil
import signal
import sys
import textwrap
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TextIO, TypeVar

import click

from fedcore.errors import ConfigError, LatecomerError, UserCodeError
from fedcore.text import brief, printable
from fedrun.cli.exit_codes import exit_code
from fedrun.cli.help import MODEL, OUTPUT, SERVER, Decorator, section
from fedrun.cli.stoppable import stoppable
from fedrun.json_lines import JsonFormatter

Given = ParamSpec("Given")
Result = TypeVar("Result")


class _Path(click.Path):
    """A path; an empty text, as an unset variable gives, is none."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        if value == "":
            self.fail("should be a path, and is empty", param, ctx)
        return super().convert(value, param, ctx)


PATH = _Path(path_type=Path)
_NO_ROOM = errno.ENOSPC, errno.EDQUOT, errno.EIO  # where the output goes
_LONG = 4000  # characters of a line that an error may have


def in_sentences(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Ends a command on an expected error, with a sentence and an exit code."""

    @wraps(function)
    def command(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        try:
            with _interruptible():
                return function(*args, **kwargs)
        except LatecomerError as error:
            if isinstance(error, UserCodeError) and error.__cause__ is not None:
                traceback.print_exception(error.__cause__)
            for line in str(error).splitlines():
                click.echo(f"error: {printable(brief(line, _LONG))}", err=True)
            sys.exit(exit_code(error))
        except OSError as error:  # a file that was named cannot be read or written
            if error.filename is None and error.errno not in _NO_ROOM:
                raise
            path = error.filename2 or error.filename or "the output"
            text = printable(f"error: {path}: {error.strerror}")
            click.echo(text, err=True)
            sys.exit(os.EX_IOERR)
        except KeyboardInterrupt:
            click.echo("interrupted; the command has not finished", err=True)
            sys.exit(1)

    return command


def say(text: str) -> None:
    """Prints sentences; on a terminal their lines end between words."""
    if sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
        text = "\n".join(_fold(line, width) for line in text.splitlines())
    click.echo(text)


def _fold(line: str, width: int) -> str:
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.fill(
        line,
        width,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


@contextmanager
def _interruptible() -> Iterator[None]:
    """Tells Ctrl-C in the block from a KeyboardInterrupt of the user's code."""
    is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not is_ours or threading.current_thread() is not threading.main_thread():
        yield
        return
    with stoppable(signal.SIGINT):
        yield


def example(*lines: str) -> str:
    """Returns the examples at the end of a help text."""
    return "\n".join(["\b", "Example:" if len(lines) == 1 else "Examples:", *lines])


def with_options(*options: Decorator) -> Decorator:
    """Makes several options one decorator, in the order of the help."""

    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


set_option = section(
    MODEL,
    click.option(
        "--set",
        "changes",
        multiple=True,
        metavar="FIELD=VALUE",
        help="Use another value than the config's, such as algorithm.buffer=8. May be "
        "given several times.",
    ),
)
verbose_option = section(
    OUTPUT,
    click.option(
        "-v", "--verbose", is_flag=True, help="Log details to the standard error."
    ),
)
json_option = section(
    OUTPUT,
    click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs."),
)
data_option = section(
    MODEL,
    click.option(
        "--data",
        multiple=True,
        metavar="KEY=VALUE",
        help="Tell train_data this, as client.args[KEY]. May be given several times.",
    ),
)


def out_option(what: str, default: str | None = None, **more: Any) -> Decorator:
    """Makes the option ``-o``, which says where the result of a command goes.

    Args:
        what: the help.
        default: where it goes without the option.
        more: for ``click.option``.
    """
    if default is not None:
        more |= {"default": Path(default), "show_default": True}
    return section(OUTPUT, click.option("-o", "--out", type=PATH, help=what, **more))


def _more_data(function: Callable[..., Any]) -> Any:
    """Adds the items of ``--node-config`` to those of ``--data``."""

    @wraps(function)
    def command(
        *, data: tuple[str, ...], node_config: tuple[str, ...], **given: Any
    ) -> Any:
        if node_config:
            from fedrun.app import framework

            data = (*data, *framework("flower").node_items(node_config))
        return function(data=data, **given)

    return in_sentences(command)


def node_config_option(function: Callable[..., Any]) -> Any:
    """Adds ``--node-config`` to a command that has ``--data``."""
    option = click.option(
        "--node-config",
        multiple=True,
        metavar="KEY=VALUE",
        help="With --flower: what Context.node_config holds, as flower-supernode takes "
        "it. May be given several times.",
    )
    return section(MODEL, option)(_more_data(function))


trust_options = section(
    SERVER,
    click.option(
        "--ca", type=PATH, help="The authority that signed the server's certificate."
    ),
    click.option(
        "--certificate", type=PATH, help="The certificate to show the server."
    ),
    click.option("--key", type=PATH, help="The private key of --certificate."),
    click.option(
        "--plaintext",
        is_flag=True,
        help="Use no TLS, even to a server on another machine.",
    ),
)


def _load_methods(
    context: click.Context, option: click.Parameter, files: tuple[Path, ...]
) -> None:
    from fedrun.methods import load_methods

    for file in files:
        try:
            load_methods(file)
        except ConfigError as error:
            click.echo(f"error: {printable(str(error))}", err=True)
            context.exit(exit_code(error))


methods_option = section(
    MODEL,
    click.option(
        "--methods",
        multiple=True,
        type=PATH,
        metavar="FILE",
        expose_value=False,
        callback=_load_methods,
        help="Import this file of methods of your own. May be given several times.",
    ),
)


def app_option(*, required: bool = False, otherwise: str = "") -> Decorator:
    """Makes the option ``--app``.

    Args:
        required: whether the command needs it.
        otherwise: what is taken without it.
    """
    options = section(
        MODEL,
        click.option(
            "--app",
            metavar="MODULE:ATTRIBUTE",
            help="The workload, such as my_app:workload or my_app.py:workload, looked "
            f"for in the working folder first.{otherwise}",
        ),
        click.option(
            "--flower",
            metavar="DIR",
            help="In place of --app: the folder of a Flower app, with its "
            "pyproject.toml.",
        ),
        click.option(
            "--run-config",
            multiple=True,
            metavar="KEY=VALUE",
            help="With --flower: other values than those of tool.flwr.app.config, as "
            "flwr run takes them.",
        ),
    )

    def decorate(function: Callable[..., Any]) -> Any:
        @wraps(function)
        def command(
            *,
            app: str | None,
            flower: str | None,
            run_config: tuple[str, ...],
            **given: Any,
        ) -> Any:
            named = _app_named(app, flower, run_config)
            if required and named is None:
                raise click.UsageError(
                    "the app is missing: say --app MODULE:ATTRIBUTE, or --flower DIR"
                )
            return function(app=named, **given)

        return options(in_sentences(command))

    return decorate


def _app_named(
    app: str | None, flower: str | None, run_config: tuple[str, ...]
) -> str | None:
    """Returns the app's name, whichever option gave it; None: none did.

    Raises:
        UsageError: two options did, or values of a run config belong to nothing.
    """
    if flower is None:
        if run_config:
            raise click.UsageError("--run-config is for --flower DIR")
        return app
    if app is not None:
        raise click.UsageError("the app is given twice: by --app and by --flower")
    from fedrun.app import framework

    return framework("flower").app_name(flower, run_config)


FROM_CONFIG = " Without it, the app that the config names."


def key_and_value(item: str) -> tuple[str, str]:
    """Splits an item of ``--data`` into its key and its value.

    Raises:
        ConfigError: it has no key, or no value.
    """
    key, equals, value = item.partition("=")
    if not key or not equals:
        raise ConfigError(f"--data {item}: expected key=value")
    return key, value


def data_changes(data: Sequence[str]) -> list[str]:
    """Returns the items of ``--data`` as changes of a config, for a simulation.

    Raises:
        ConfigError: an item is not key=value, or its key has a dot.
    """
    changes = []
    for item in data:
        key, value = key_and_value(item)
        if "." in key:
            raise ConfigError(f"--data {item}: a key of a simulation has no dot")
        changes.append(f"simulate.args.{key}={json.dumps(value)}")  # YAML, as words
    return changes


def log_to_stderr(verbose: bool, *, as_json: bool = False) -> None:
    """Logs warnings to the standard error, and details if ``verbose``.

    Args:
        verbose: whether to log details.
        as_json: log lines of JSON.
    """
    level = logging.DEBUG if verbose else logging.WARNING
    layout = "%(levelname)s %(name)s: %(message)s"
    log_printable(level, layout, as_json=as_json)


def log_printable(
    level: int, layout: str, dates: str | None = None, *, as_json: bool = False
) -> None:
    """Logs to the standard error; what is not printable is escaped.

    Args:
        level: of the least important line.
        layout: of a line of text.
        dates: how a time in it looks.
        as_json: log lines of JSON in place of text.
    """
    handler = logging.StreamHandler(AboveBars(sys.stderr))
    handler.setFormatter(JsonFormatter() if as_json else _Printable(layout, dates))
    logging.basicConfig(level=level, handlers=[handler])


class AboveBars:
    """The standard error, for lines that must not run into what rich draws.

    While rich draws on a terminal, its own ``sys.stderr`` puts lines above the drawing.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def _place(self) -> TextIO:
        return sys.stderr if self._stream.isatty() else self._stream

    def write(self, text: str) -> None:
        """Writes one or more whole lines."""
        self._place().write(text)

    def flush(self) -> None:
        """Flushes the stream that lines are written to."""
        self._place().flush()


class _Printable(logging.Formatter):
    """Escapes what a peer wrote, so that it cannot act on the terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record), lines=True)
