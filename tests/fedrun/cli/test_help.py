"""Help texts: options in sections, subcommands in the order of use, short top pages."""

import os
import re
import shlex
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from fedrun.cli.help import CLIENT, MODEL, OUTPUT, Group, command, section
from tests.docs.pages import ROOT
from tests.docs.test_commands import OURS

LINES = 24  # of a usual terminal; one is for the next prompt


def groups() -> Iterator[tuple[str, Group]]:
    for name, program in OURS.items():
        assert isinstance(program, Group)
        yield name, program
        for word, inner in program.commands.items():
            if isinstance(inner, click.Group):
                assert isinstance(inner, Group)
                yield f"{name} {word}", inner


@pytest.mark.parametrize(("name", "group"), [*groups()])
def test_a_top_page_fits_on_a_terminal_and_says_where_to_read_on(
    name: str, group: Group
) -> None:
    context = click.Context(group, info_name=name, terminal_width=80)
    lines = group.get_help(context).splitlines()
    assert len(lines) < LINES
    assert max(map(len, lines)) <= 80
    example, page = lines[-2:]
    typed = shlex.split(example.removeprefix("  Example: "))
    words = name.split()
    assert typed[: len(words)] == words
    inner = group.commands[typed[len(words)]]
    inner.make_context(inner.name, typed[len(words) + 1 :])  # reads, and runs nothing
    assert (ROOT / page.removeprefix("  Documentation: ")).is_file()


def test_commands_are_in_the_order_of_use() -> None:
    shown = CliRunner().invoke(OURS["fedserver"], ["--help"]).output
    words = ("check", "run", "status", "export")
    order = [shown.index(f"\n  {word} ") for word in words]
    assert order == sorted(order)
    assert re.match(r"Usage: \w+ \[--version\] \[--?h\w*\] COMMAND \[ARGS\]", shown)


def test_sections_have_an_order_and_help_ends_the_last() -> None:
    @command()
    @click.argument("what")
    @section(OUTPUT, click.option("-o", help="There."))
    @section(CLIENT, click.option("--state", help="Its folder."))
    @click.option("--plain", help="Of no section.")
    @section(MODEL, click.option("--app", help="The app."), click.option("--data"))
    def act(what: str, **_: str) -> None:
        """Act."""

    shown = CliRunner().invoke(act, ["--help"]).output
    assert re.findall(r"^(\S.*):$", shown, re.MULTILINE) == [
        "Options", "Model and data", "Client", "Output",
    ]  # fmt: skip
    assert re.findall(r"^  (-\S*)", shown, re.MULTILINE) == [
        "--plain", "--app", "--data", "--state", "-o", "--help",
    ]  # fmt: skip
    columns = {line.index(text) for line in shown.splitlines() for text in (
        "Of no", "The app", "Its folder", "There", "Show this",
    ) if text in line}  # fmt: skip
    assert len(columns) == 1


def test_a_command_without_options_of_its_own_explains_help() -> None:
    @command()
    def act() -> None:
        """Act."""

    assert "Options:\n  --help" in CliRunner().invoke(act, ["--help"]).output


def leaves(name: str, group: click.Group) -> Iterator[tuple[str, click.Command]]:
    for word, inner in group.commands.items():
        if isinstance(inner, click.Group):
            yield from leaves(f"{name} {word}", inner)
        else:
            yield f"{name} {word}", inner


# Options of programs that mean the same wherever they are.
SHARED = {
    "--app", "--ca", "--certificate", "--data", "--flower", "--json", "--key",
    "--methods", "--node-config", "--out", "--plaintext", "--run-config", "--set",
    "--verbose",
}  # fmt: skip


def test_a_word_that_commands_share_takes_the_same_kind_of_value_everywhere() -> None:
    kinds = defaultdict[str, set[tuple[str, object, bool]]](set)
    for program in OURS.values():
        assert isinstance(program, click.Group)
        for _, inner in leaves("", program):
            for option in inner.params:
                if not isinstance(option, click.Option):
                    continue
                for word in SHARED.intersection(option.opts):
                    kind = option.type.name, option.multiple, option.is_flag
                    kinds[word].add(kind)
                assert ("-o" in option.opts) == ("--out" in option.opts)
                assert ("-v" in option.opts) == ("--verbose" in option.opts)
    assert kinds.keys() == SHARED
    assert {word for word, found in kinds.items() if len(found) > 1} == set()


SHELLS = ("bash", "zsh", "fish")


@pytest.mark.parametrize("program", OURS)
@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes_what_is_typed(program: str, shell: str) -> None:
    variable = f"_{program.upper()}_COMPLETE"

    def complete(how: str, **more: str) -> str:
        environment = {**os.environ, variable: f"{shell}_{how}", **more}
        code = (
            f"import sys; sys.argv = ['{program}']; "
            f"from {program}.__main__ import main; main()"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.stderr == ""
        return done.stdout

    script = complete("source")
    assert variable in script
    subcommands = OURS[program].commands
    first = next(iter(subcommands))
    typed = f"{program} {first[:-1]}"
    words = {"COMP_WORDS": typed, "COMP_CWORD": "1" if shell != "fish" else first[:-1]}
    assert first in complete("complete", **words)


@pytest.mark.parametrize(
    ("kind", "word"), [(click.IntRange(1), "N"), (float, "NUMBER")]
)
def test_a_number_in_a_help_text_does_not_look_like_two(
    kind: object, word: str
) -> None:
    @command()
    @click.option("--seeds", type=kind, help="How often.")
    @click.option("--first", type=kind, metavar="SEED", help="Where to begin.")
    def act(**_: str) -> None:
        """Act."""

    shown = CliRunner().invoke(act, ["--help"]).output
    assert re.findall("--seeds (.*?)  +", shown) == [word]
    assert re.findall("--first (.*?)  +", shown) == ["SEED"]
