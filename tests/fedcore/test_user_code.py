"""What the user's code raises, and what a person does."""

import signal
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from fedcore.errors import ConfigError, UserCodeError
from fedcore.interruption import Interruption, interrupt
from fedcore.user_code import user_code


class OwnError(BaseException):
    """An error of a library that no handler of Exception catches."""


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
    ],
)
def test_whatever_the_users_code_raises_is_its_error(error: Any, words: str) -> None:
    with pytest.raises(UserCodeError, match=words) as caught, user_code("training"):
        raise error
    assert caught.value.__cause__ is error


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

    rows = lazily()
    next(rows)
    rows.close()


def test_a_name_that_costs_something_is_made_when_it_is_needed() -> None:
    with user_code(lambda: str(1 / 0)):
        pass
    with pytest.raises(UserCodeError, match="row 7 raised"), user_code(lambda: "row 7"):
        raise OSError("truncated")
