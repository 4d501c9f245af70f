"""What the user's code raises, and what a person does."""

import pickle
import signal
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from fedcore.errors import ConfigError, UserCodeError
from fedcore.interruption import Interruption, interrupt
from fedcore.user_code import (
    Failure,
    can_be_shown,
    describe_error,
    last_words,
    out_of_memory,
    user_code,
)


class OwnError(BaseException):
    """An error of a library that no handler of Exception catches."""


class Mute(Exception):  # noqa: N818 -- as people name theirs
    """An error that cannot be shown."""

    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


class MuteOfMemory(RuntimeError):  # noqa: N818
    """An error whose message ends the process."""

    def __str__(self) -> str:
        raise SystemExit(9)


class False_(Exception):  # noqa: N801, N818
    """An error that is false as a truth, as one with a length of nothing is."""

    def __len__(self) -> int:
        return 0


@pytest.fixture
def _listening() -> Iterator[None]:
    """A handler of ours is in force, as in a command."""
    before = signal.signal(signal.SIGINT, interrupt)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_listening")
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("no"), "training raised ValueError: no"),
        (SystemExit(3), r"training called sys\.exit\(3\), which would end"),
        (SystemExit("usage"), r"training called sys\.exit\('usage'\)"),
        (SystemExit(), r"training called sys\.exit\(\)"),
        (KeyboardInterrupt(), "training raised KeyboardInterrupt, without a Ctrl-C"),
        (OwnError("odd"), "training raised OwnError: odd"),
        (StopIteration(), "training raised StopIteration"),
        (GeneratorExit(), "training raised GeneratorExit"),
        (Mute(), r"training raised Mute: \(its message cannot be shown: ValueError\)"),
        (MuteOfMemory(), "training raised MuteOfMemory: .* shown: SystemExit"),
        (SystemExit(Mute()), r"training called sys\.exit\(\(its message cannot be"),
        (False_("no"), "training raised False_: no"),
    ],
)
def test_whatever_the_users_code_raises_is_its_error(error: Any, words: str) -> None:
    with pytest.raises(UserCodeError, match=words) as caught, user_code("training"):
        raise error
    assert type(error).__name__ in Failure.of(error).error().args[0]
    assert caught.value.__cause__ is error
    told = pickle.loads(pickle.dumps(Failure.of(caught.value)))  # noqa: S301 -- ours
    assert str(told.error()) == str(caught.value)
    assert type(error).__name__ in last_words(caught.value)
    assert type(error).__name__ in last_words(told.error())
    assert not out_of_memory(caught.value)


def test_the_platforms_own_errors_pass() -> None:
    with pytest.raises(ConfigError), user_code("training"):
        raise ConfigError("a field")


@pytest.mark.usefixtures("_listening")
@pytest.mark.parametrize("error", [None, SystemExit(1), RuntimeError("a worker died")])
def test_ctrl_c_stays_one_whatever_a_library_makes_of_it(error: Any) -> None:
    def library() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            if error is None:
                raise
            raise error  # noqa: B904 -- as libraries do

    with pytest.raises(Interruption), user_code("training"):
        library()


def test_a_keyboard_interrupt_under_pythons_own_handler_may_be_ctrl_c() -> None:
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt), user_code("training"):
        raise KeyboardInterrupt


def test_a_generator_that_is_closed_inside_is_no_error() -> None:
    def lazily() -> Generator[int]:
        with user_code("reading"):
            yield 1
            yield 2

    def outer() -> Generator[int]:
        with user_code("all"):
            yield from lazily()

    for rows in (lazily(), outer()):
        next(rows)
        rows.close()


def test_a_generator_exit_that_a_function_raises_in_a_generator_is_an_error() -> None:
    def function() -> int:
        raise GeneratorExit

    def lazily() -> Generator[int]:
        with user_code("reading"):
            yield function()

    with pytest.raises(UserCodeError, match="reading raised GeneratorExit"):
        next(lazily())


@pytest.mark.usefixtures("_listening")
def test_ctrl_c_while_a_message_is_made_stays_one() -> None:
    class Slow(Exception):  # noqa: N818
        def __str__(self) -> str:
            signal.raise_signal(signal.SIGINT)
            return "late"

    with pytest.raises(Interruption), user_code("training"):
        raise Slow


def test_a_name_that_costs_something_is_made_when_it_is_needed() -> None:
    with user_code(lambda: str(1 / 0)):
        pass
    with pytest.raises(UserCodeError, match="row 7 raised"), user_code(lambda: "row 7"):
        raise OSError("truncated")


def test_errors_that_cause_each_other_come_to_an_end() -> None:
    error, one, other = ValueError("first"), ValueError("one"), KeyError("other")
    error.__cause__, one.__cause__, other.__cause__ = one, other, one
    with pytest.raises(UserCodeError, match="ValueError: first"), user_code("training"):
        raise error


def test_a_message_keeps_its_lines() -> None:
    assert describe_error(ValueError("one\ntwo")) == "ValueError: one\ntwo"


def test_a_message_that_cannot_be_made_is_no_error_of_ours() -> None:
    class Interrupted(Exception):  # noqa: N818
        def __str__(self) -> str:
            raise Interruption

    assert can_be_shown(ValueError("one"))
    assert not can_be_shown(Mute())
    with pytest.raises(Interruption):
        can_be_shown(Interrupted())


class OutOfMemoryError(RuntimeError):
    """As torch calls that of a device."""


def caused(error: Exception, by: Exception) -> Exception:
    """An error with its cause."""
    error.__cause__ = by
    return error


@pytest.mark.parametrize(
    ("error", "lacks"),
    [
        (MemoryError(), True),
        (OutOfMemoryError("CUDA"), True),
        (RuntimeError("can't allocate memory: you tried 4 bytes"), True),
        (caused(ValueError("step"), MemoryError()), True),
        (RuntimeError("shapes differ"), False),
        (ValueError("can't allocate memory"), False),
        (None, False),
    ],
)
def test_a_lack_of_memory_is_known(error: Exception | None, lacks: bool) -> None:
    assert out_of_memory(error) is lacks
