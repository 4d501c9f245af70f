"""One sentence for an error, and the status that says whose fault it was."""

import errno
import io
import logging
import os
import re
import sys
from collections.abc import Iterator

import pytest
from rich.console import Console
from rich.live import Live

from fedcore import errors
from fedcore.errors import LatecomerError
from fedrun.cli.command import in_sentences, log_to_stderr, say
from fedrun.cli.exit_codes import exit_code

STATUSES = {
    "LatecomerError": os.EX_SOFTWARE,
    "ConfigError": os.EX_CONFIG,
    "WorkloadError": os.EX_DATAERR,
    "UserCodeError": os.EX_SOFTWARE,
    "ModelError": os.EX_DATAERR,
    "NotDecodableError": os.EX_SOFTWARE,
    "NotStackableError": os.EX_DATAERR,
    "SpecMismatchError": os.EX_DATAERR,
    "StoppedError": os.EX_SOFTWARE,
    "PayloadError": os.EX_DATAERR,
    "ProtocolError": os.EX_PROTOCOL,
    "RefusedError": os.EX_NOPERM,
    "UnavailableError": os.EX_UNAVAILABLE,
    "OtherRunError": os.EX_UNAVAILABLE,
    "StateError": os.EX_IOERR,
    "DivergedError": os.EX_SOFTWARE,
    "HandlingError": os.EX_SOFTWARE,
    "JournalError": os.EX_IOERR,
    "CorruptJournalError": os.EX_IOERR,
    "JournalVersionError": os.EX_IOERR,
    "DiskError": os.EX_IOERR,
}


def below(error: type[LatecomerError]) -> Iterator[type[LatecomerError]]:
    """An error and all of its kinds in the public tree."""
    yield error
    for kind in error.__subclasses__():
        if kind.__module__ == errors.__name__:
            yield from below(kind)


def test_every_error_has_its_status() -> None:
    found = {kind.__name__: exit_code(kind("x")) for kind in below(LatecomerError)}
    assert found == STATUSES


@in_sentences
def command(error: BaseException | None) -> str:
    if error is not None:
        raise error
    return "done"


def ended(error: BaseException) -> int:
    with pytest.raises(SystemExit) as caught:
        command(error)
    assert isinstance(caught.value.code, int)
    return caught.value.code


def test_a_command_without_an_error_returns() -> None:
    assert command(None) == "done"


def test_each_line_of_an_error_is_a_line_on_stderr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ended(errors.ConfigError("one\ntwo")) == os.EX_CONFIG
    assert tuple(capsys.readouterr()) == ("", "error: one\nerror: two\n")


def test_output_that_finds_no_room_is_a_sentence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ended(OSError(errno.ENOSPC, "No space left on device")) == os.EX_IOERR
    assert capsys.readouterr().err == "error: the output: No space left on device\n"


def test_of_the_users_code_the_traceback_is_shown_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    error = errors.UserCodeError("training raised")
    error.__cause__ = KeyError("where")
    assert ended(error) == os.EX_SOFTWARE
    said = capsys.readouterr().err
    assert "KeyError: 'where'" in said
    assert said.endswith("\nerror: training raised\n")


def test_a_file_that_cannot_be_used_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ended(PermissionError(13, "Permission denied", "a.csv")) == os.EX_IOERR
    assert ended(OSError(21, "Is a directory", "tmp", None, "b")) == os.EX_IOERR
    assert capsys.readouterr().err == (
        "error: a.csv: Permission denied\nerror: b: Is a directory\n"
    )


@pytest.mark.parametrize("error", [ValueError("a bug"), OSError("of no file")])
def test_what_nobody_expected_is_not_hidden(error: Exception) -> None:
    with pytest.raises(type(error), match=str(error)):
        command(error)


def test_an_interruption_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(KeyboardInterrupt()) == 1
    said = "interrupted; the command has not finished\n"
    assert tuple(capsys.readouterr()) == ("", said)


class Screen(io.StringIO):
    """A stream that is a terminal or a file."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    def lines(self) -> list[str]:
        text = re.sub("\x1b\\[[0-9;?]*[a-zA-Z]", "", self.getvalue())
        return [line.rstrip("\r ") for line in re.split("[\r\n]+", text)]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_warning_does_not_run_into_what_is_drawn(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors, drawn = Screen(is_terminal=is_terminal), Screen(is_terminal=True)
    monkeypatch.setattr(sys, "stderr", errors)
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    log_to_stderr(verbose=False)
    console = Console(file=errors if is_terminal else drawn, force_terminal=True)
    with Live("a bar", console=console, auto_refresh=False) as live:
        live.refresh()
        logging.getLogger("fedsim").warning("the loss is high")
    logging.getLogger("fedsim").warning("afterwards")
    lines = errors.lines()
    assert "WARNING fedsim: the loss is high" in lines
    assert "WARNING fedsim: afterwards" in lines
    assert ("a bar" in lines) == is_terminal


SENTENCES = "take it: 6.9 times\n  fewer bytes, in /a/path/that-is-longer-than-a-line"


@pytest.mark.parametrize("is_terminal", [True, False])
def test_sentences_end_between_words_on_a_terminal_only(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = Screen(is_terminal=is_terminal)
    monkeypatch.setattr(sys, "stdout", output)
    monkeypatch.setenv("COLUMNS", "14")
    say(SENTENCES)
    folded = (
        "take it: 6.9\ntimes\n  fewer bytes,\n  in\n"
        "  /a/path/that-is-longer-than-a-line"
    )
    assert output.getvalue() == f"{folded if is_terminal else SENTENCES}\n"
