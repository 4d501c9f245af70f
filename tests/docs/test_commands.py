"""Commands that README and docs name exist, with the arguments that they show."""

import re
import shlex
from collections.abc import Iterator
from importlib.util import find_spec

import click
import pytest

import fedclient.cli
import fedserver.cli
import fedsim.cli
from tests.docs.pages import PAGES, ROOT, Block, all_blocks, prose

OURS = {
    "fedserver": fedserver.cli.main,
    "fedclient": fedclient.cli.main,
    "fedsim": fedsim.cli.main,
}
# Programs of the system; what they do is theirs.
OTHERS = {"cd", "cp", "scp", "git", "pip", "python3", ".", "kill", "docker", "podman"}
OTHERS.add("openssl")
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
_SPAN = re.compile(r"`((?:fedserver|fedclient|fedsim|make|python -m)[ \n][^`]+)`")


def _commands(block: Block) -> Iterator[list[str]]:
    """Of a console those lines that a person typed, of a script all."""
    text = re.sub(r"\\\n\s*(> )?", "", block.text)
    for line in text.splitlines():
        if block.language == "console" and not line.startswith("$ "):
            continue
        typed = shlex.split(line.removeprefix("$ "), comments=True)
        while "&&" in typed:
            at = typed.index("&&")
            yield typed[:at]
            typed = typed[at + 1 :]
        if typed:
            yield [word for word in typed if word != "&"]


CASES = [
    pytest.param(typed, id=f"{block}-{' '.join(typed)[:40]}")
    for block in all_blocks("console", "sh")
    for typed in _commands(block)
]


def _resolve(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that the first words name, and what comes behind it."""
    command: click.Command = OURS[words[0]]
    rest = words[1:]
    while isinstance(command, click.Group) and rest:
        found = command.commands.get(rest[0])
        assert found is not None, f"{words}: no command {rest[0]!r}"
        command, rest = found, rest[1:]
    return command, rest


def _check_others(words: list[str]) -> None:
    if words[0] == "make":
        targets = [word for word in words[1:] if "=" not in word]
        assert set(targets) <= TARGETS, words
    elif words[:2] in (["python", "-m"], ["python3", "-m"]) and words[2] != "venv":
        assert find_spec(words[2]) is not None, words
    else:
        assert words[0] in OTHERS, f"{words}: an unknown program"


def test_there_are_commands_to_test() -> None:
    assert len(CASES) > 15
    assert {"test", "check", "docs", "demo"} <= TARGETS


@pytest.mark.parametrize("words", CASES)
def test_a_command_in_a_block_is_complete(words: list[str]) -> None:
    if words[0] not in OURS:
        _check_others(words)
        return
    command, rest = _resolve(words)
    assert not isinstance(command, click.Group), words
    command.make_context(words[0], list(rest))  # reads the arguments, runs nothing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_command_in_the_text_exists(page: object) -> None:
    for span in _SPAN.findall(prose(page)):  # type: ignore[arg-type]
        words = shlex.split(span)
        if words[0] not in OURS:
            _check_others(words)
            continue
        command, rest = _resolve(words)
        known = {name for option in command.params for name in option.opts}
        given = {word for word in rest if word.startswith("-")}
        assert given <= known, f"{span}: unknown {given - known}"


@pytest.mark.parametrize("name", OURS)
def test_every_command_is_in_the_docs_and_has_help(name: str) -> None:
    written = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for words, command in _leaves([name], OURS[name]):
        assert " ".join(words) in written, f"{words} is not in the docs"
        context = click.Context(command, info_name=words[-1])
        assert command.help
        assert "Usage:" in command.get_help(context)


def _leaves(
    words: list[str], command: click.Command
) -> Iterator[tuple[list[str], click.Command]]:
    if not isinstance(command, click.Group):
        yield words, command
        return
    for name, inner in command.commands.items():
        yield from _leaves([*words, name], inner)
