"""The help texts of the three programs: each says what to type."""

import shlex
from collections.abc import Iterator

import click
import pytest

from tests.docs.test_commands import OURS


def commands(
    words: list[str], command: click.Command
) -> Iterator[tuple[list[str], click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from commands([*words, name], inner)


ALL = [
    pytest.param(words, command, id=" ".join(words))
    for name, program in OURS.items()
    for words, command in commands([name], program)
]


@pytest.mark.parametrize(("words", "command"), ALL)
def test_every_option_is_explained_and_no_line_is_cut(
    words: list[str], command: click.Command
) -> None:
    context = click.Context(command, info_name=" ".join(words), terminal_width=80)
    text = command.get_help(context)
    for line in text.splitlines():
        assert len(line) <= 80, line
        is_usage = line.startswith("Usage:")
        assert is_usage or not line.endswith("..."), line
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden:
            assert option.help, option.name
    assert command.help is not None
    first = command.help.splitlines()[0]
    assert first.endswith(".")
    assert first[0].isupper()


@pytest.mark.parametrize(("words", "command"), ALL)
def test_every_command_has_an_example_that_can_be_typed(
    words: list[str], command: click.Command
) -> None:
    if isinstance(command, click.Group):
        return
    assert command.epilog is not None
    head, *lines = command.epilog.removeprefix("\b\n").splitlines()
    assert head in ("Example:", "Examples:")
    for line in "\n".join(lines).replace("\\\n", "").splitlines():
        typed = shlex.split(line)
        assert typed[: len(words)] == words
        command.make_context(words[-1], typed[len(words) :])  # reads, and runs nothing


@pytest.mark.parametrize(("words", "command"), ALL)
def test_the_app_is_spelled_alike(words: list[str], command: click.Command) -> None:
    for option in command.params:
        if "--app" in option.opts:
            assert option.metavar == "MODULE:ATTRIBUTE"
            assert isinstance(option, click.Option)
            assert (option.help or "").startswith(
                "The workload, such as my_app:workload or my_app.py:workload, looked "
                "for in the working folder first."
            )
