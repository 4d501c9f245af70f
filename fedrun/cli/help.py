"""Help texts: options in sections, and subcommands in the order of use."""

from collections.abc import Callable
from functools import partial
from typing import Any

import click

Decorator = Callable[[Any], Any]
_OWN = "Options"
# In the order in which a command lists them; the options of no section come first.
MODEL, SERVER, CLIENT = "Model and data", "Server", "Client"
COMPUTING, OUTPUT = "Computing", "Output"
_SECTIONS = (_OWN, MODEL, SERVER, CLIENT, COMPUTING, OUTPUT)
_WIDEST = 30  # columns of the names of options
_NUMBERS = {  # in the help, by click's own names, which look like two values
    "integer": "N",
    "integer range": "N",
    "float": "NUMBER",
    "float range": "NUMBER",
}


class Command(click.Command):
    """A command that lists its options in sections."""

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        for option in self.params:
            if isinstance(option, click.Option) and option.metavar is None:
                option.metavar = _NUMBERS.get(option.type.name)

    def format_options(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """Writes the sections; ``--help`` ends the last one."""
        rows: dict[str, list[tuple[str, str]]] = {name: [] for name in _SECTIONS}
        names, last = set(self.get_help_option_names(ctx)), []
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx)
            if record is None or not isinstance(option, click.Option):
                continue
            if names.issuperset(option.opts):
                last.append(record)
            else:
                rows[getattr(option, "section", _OWN)].append(record)
        next((rows[x] for x in reversed(_SECTIONS) if rows[x]), rows[_OWN]).extend(last)
        widths = (len(name) for records in rows.values() for name, _ in records)
        width = min(max(widths, default=0), _WIDEST)
        for title, records in rows.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl([(n.ljust(width), text) for n, text in records])


class Group(click.Group):
    """A command with subcommands, which are listed in the order of their definition.

    Its own page, with an example and the documentation's page, fits on a terminal of
    24 lines.
    """

    command_class = Command
    group_class = type

    def __init__(self, *, example: str, page: str, **given: Any) -> None:
        """``example`` can be typed; ``page`` is a page of the documentation."""
        epilog = f"\b\nExample: {example}\nDocumentation: docs/{page}"
        super().__init__(epilog=epilog, **given)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the names in the order of use."""
        return list(self.commands)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Returns what can be typed; the options of a group are no more than these."""
        names = (min(each.opts, key=len) for each in self.get_params(ctx))
        return [*(f"[{name}]" for name in names), self.subcommand_metavar]

    def format_options(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """Writes the subcommands."""
        limit = formatter.width - 6 - max(map(len, self.commands))
        rows = [
            (name, command.get_short_help_str(limit))
            for name, command in self.commands.items()
            if not command.hidden
        ]
        more = f"{ctx.command_path} COMMAND -h tells more"
        with formatter.section(f"Commands in the order of use ({more})"):
            formatter.write_dl(rows)


command: Callable[..., Decorator] = partial(click.command, cls=Command)
"""Makes a function a command, as ``click.command`` does."""


def section(title: str, *options: Decorator) -> Decorator:
    """Returns several options as one decorator; the help lists them in a section.

    Args:
        title: the section; one of this module's constants.
        options: the options, in the order of the help.
    """

    def decorate(function: Any) -> Any:
        before = {id(each) for each in getattr(function, "__click_params__", ())}
        for option in reversed(options):
            function = option(function)
        for option in getattr(function, "__click_params__", ()):
            if id(option) not in before and not hasattr(option, "section"):
                option.section = title
        return function

    return decorate
