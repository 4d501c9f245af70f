"""Calls of the user's code: what they raise, and what is told of it.

The user's code may raise anything, such as the SystemExit of ``sys.exit``. None of it
ends more than the block that calls it, but for what a person does to end the process.
"""

import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from fedcore.errors import LatecomerError, UserCodeError
from fedcore.interruption import Interruption
from fedcore.typing import Seconds

MOST_FAILURES = 5  # of the user's code in a row; then a client gives up
AFTER_FAILURE: Seconds = 2.0  # to wait; doubled with each failure in a row
LONGEST_WHY = 200  # characters of the reason why samples are left out
LONG_TEXT = 2000  # characters of a traceback that are kept: its end says most


@contextmanager
def user_code(what: str | Callable[[], str]) -> Iterator[None]:
    """Turns what the user's code raises in the block into a ``UserCodeError``.

    Args:
        what: names the code, at the beginning of the message; or a function that
            does, called only then.

    Raises:
        UserCodeError: the code raised. The platform's own errors pass unchanged.
        KeyboardInterrupt: a person interrupts the process.
    """
    try:
        yield
    except LatecomerError:
        raise
    except BaseException as error:
        require_users(error)
        name = what if isinstance(what, str) else what()
        raise UserCodeError(f"{name} {said_by(error)}") from error


def require_users(error: BaseException) -> None:
    """Checks that an error comes from the user's code, and not from a person's Ctrl-C.

    A KeyboardInterrupt under Python's own handler may be Ctrl-C; where a handler of
    ours is in force, Ctrl-C is an :class:`Interruption`.

    Raises:
        Interruption: a library made the error of one, as Lightning calls ``sys.exit``.
        BaseException: the error, if it only passes through the user's code.
    """
    if isinstance(error, GeneratorExit | Interruption):
        raise error
    if isinstance(error, KeyboardInterrupt):
        handler = signal.getsignal(signal.SIGINT)
        if handler is signal.default_int_handler:
            raise error
    seen, before = {id(error)}, error.__cause__ or error.__context__
    while before is not None and id(before) not in seen:
        if isinstance(before, Interruption):
            raise before
        seen.add(id(before))
        before = before.__cause__ or before.__context__


def said_by(error: BaseException) -> str:
    """Returns what the user's code did, in words that follow its name."""
    if isinstance(error, SystemExit):
        status = "" if error.code is None else repr(error.code)
        return f"called sys.exit({status}), which would end the process"
    if isinstance(error, KeyboardInterrupt):
        return "raised KeyboardInterrupt, without a Ctrl-C"
    return f"raised {type(error).__name__}: {error}"


def out_of_memory(error: BaseException | None) -> bool:
    """Whether an error, or what caused it, is a lack of memory.

    Torch has errors of its own for that, by the device.
    """
    while error is not None:
        if (
            isinstance(error, MemoryError)
            or type(error).__name__ == "OutOfMemoryError"
            or (isinstance(error, RuntimeError) and "allocate memory" in str(error))
        ):
            return True
        error = error.__cause__
    return False


def last_words(error: LatecomerError) -> str:
    """The end of the traceback of what the user's code raised.

    Of an error that has no cause, its message.
    """
    if error.__cause__ is None:
        return str(error)
    return "".join(traceback.format_exception(error.__cause__))[-LONG_TEXT:]


class Failure(NamedTuple):
    """An error as it is told to another process, or later."""

    kind: type[LatecomerError]
    words: str
    trace: str = ""
    """Where it was raised, as text: a traceback does not travel. Empty: the words of
    one of our own errors say all."""

    @classmethod
    def of(cls, error: BaseException) -> "Failure":
        """Returns what can be told of an error."""
        kind = type(error) if isinstance(error, LatecomerError) else LatecomerError
        words = str(error)
        if kind is LatecomerError:
            words = f"{type(error).__name__}: {error}"
        elif error.__cause__ is None:
            return cls(kind, words)
        lines = traceback.format_exception(error.__cause__ or error)
        return cls(kind, words, "".join(lines))

    def error(self, whose: str = "") -> LatecomerError:
        """Returns the same error; its cause, if it has one, shows where it was raised.

        Args:
            whose: who tells it, at the beginning of its message.
        """
        error = self.kind(f"{whose}: {self.words}" if whose else self.words)
        if self.trace:
            error.__cause__ = RemoteTraceback(self.trace)
        return error


class RemoteTraceback(Exception):  # noqa: N818 -- the cause of an error
    """Shows a traceback that was told as text."""

    def __init__(self, trace: str) -> None:
        super().__init__(f"\n{trace}")
