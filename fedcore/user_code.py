"""Calls of the user's code: what they raise, and what is told of it."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from fedcore.errors import LatecomerError, UserCodeError
from fedcore.typing import Seconds

MOST_FAILURES = 5  # of the user's code in a row; then a client gives up
AFTER_FAILURE: Seconds = 2.0  # to wait; doubled with each failure in a row
LONGEST_WHY = 200  # characters of the reason why samples are left out
LONG_TEXT = 2000  # characters of a traceback that are kept: its end says most


@contextmanager
def user_code(what: str) -> Iterator[None]:
    """Turns what the user's code raises in the block into a ``UserCodeError``.

    Args:
        what: names the code, at the beginning of the message.

    Raises:
        UserCodeError: the code raised. The platform's own errors pass unchanged.
    """
    try:
        yield
    except LatecomerError:
        raise
    except Exception as error:
        raise UserCodeError(f"{what} raised {type(error).__name__}: {error}") from error


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
    trace: str
    """Where it was raised, as text: a traceback does not travel. Empty for a sentence
    of the platform that has no cause."""

    @classmethod
    def of(cls, error: Exception) -> "Failure":
        """Returns what can be told of an error."""
        kind = type(error) if isinstance(error, LatecomerError) else LatecomerError
        words = str(error)
        if kind is LatecomerError:
            words = f"{type(error).__name__}: {error}"
        if isinstance(error, LatecomerError) and error.__cause__ is None:
            return cls(kind, words, "")
        lines = traceback.format_exception(error.__cause__ or error)
        return cls(kind, words, "".join(lines))

    def error(self, whose: str = "") -> LatecomerError:
        """Returns the same error; its cause shows where it was raised.

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
