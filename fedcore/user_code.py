"""Calls of the user's code: what they raise, and what is told of it.

The user's code may raise anything, such as the SystemExit of ``sys.exit``. None of it
ends more than the block that calls it, but for what a person does to end the process.
"""

import inspect
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from fedcore.errors import LatecomerError, UserCodeError
from fedcore.interruption import Interruption
from fedcore.text import printable
from fedcore.typing import Seconds

MOST_FAILURES = 5  # of the user's code in a row; then a client gives up
AFTER_FAILURE: Seconds = 2.0  # to wait; doubled with each failure in a row
LONGEST_WHY = 200  # characters of the reason why samples are left out
LONG_TEXT = 2000  # characters of a traceback that are kept: its end says most
_WAITS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


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
        raise UserCodeError(f"{name} {describe_exit(error)}") from error


def require_users(error: BaseException) -> None:
    """Checks that an error comes from the user's code, and not from a person's Ctrl-C.

    A KeyboardInterrupt under Python's own handler may be Ctrl-C; where a handler of
    ours is in force, Ctrl-C is an :class:`Interruption`.

    Raises:
        Interruption: a library made the error of one, as Lightning calls ``sys.exit``.
        BaseException: the error, if it only passes through the user's code.
    """
    if isinstance(error, Interruption) or _closes_generator(error):
        raise error
    if isinstance(error, KeyboardInterrupt):
        handler = signal.getsignal(signal.SIGINT)
        if handler is signal.default_int_handler:
            raise error
    seen, before = {id(error)}, _reason_of(error)
    while before is not None and id(before) not in seen:
        if isinstance(before, Interruption):
            raise before
        seen.add(id(before))
        before = _reason_of(before)


def _reason_of(error: BaseException) -> BaseException | None:
    """Returns the error that an error was raised for, which may be false as a truth."""
    return error.__context__ if error.__cause__ is None else error.__cause__


def _closes_generator(error: BaseException) -> bool:
    """Returns whether the error closes a generator, and was not raised like others.

    ``close`` raises it where each generator waits at its ``yield``, and so in
    generators alone.
    """
    if not isinstance(error, GeneratorExit):
        return False
    trace = error.__traceback__
    while trace is not None:
        if not trace.tb_frame.f_code.co_flags & _WAITS:
            return False
        trace = trace.tb_next
    return True


def describe_exit(error: BaseException) -> str:
    """Returns what the user's code did, in words that follow its name."""
    if isinstance(error, SystemExit):
        status = "" if error.code is None else _text_of(error, _code_of)
        return f"called sys.exit({status}), which would end the process"
    if isinstance(error, KeyboardInterrupt):
        return "raised KeyboardInterrupt, without a Ctrl-C"
    return f"raised {describe_error(error)}"


def describe_error(error: BaseException) -> str:
    """Returns the type and the message of an error, whatever its ``__str__`` does.

    A name of a file that is no text is a message that no record could hold; it is
    escaped.
    """
    return f"{type(error).__name__}: {_text_of(error, str)}"


def can_be_shown(error: BaseException) -> bool:
    """Returns whether an error's message can be made."""
    try:
        str(error)
    except BaseException as raised:  # noqa: BLE001 -- of the user's as well
        require_users(raised)
        return False
    return True


def _code_of(error: BaseException) -> str:
    assert isinstance(error, SystemExit)
    return repr(error.code)


def _text_of(error: BaseException, said: Callable[[BaseException], str]) -> str:
    """Returns what a method of the user's says, or that it raises."""
    try:
        return printable(said(error), lines=True)
    except BaseException as raised:  # noqa: BLE001 -- of the user's as well
        require_users(raised)
        return f"(its message cannot be shown: {type(raised).__name__})"


def _trace_of(error: BaseException) -> str:
    """Returns the traceback of an error and of its causes as text."""
    try:
        return "".join(traceback.format_exception(error))
    except BaseException as raised:  # noqa: BLE001 -- of the user's as well
        require_users(raised)
        where = "".join(traceback.format_tb(error.__traceback__))
        return f"{where}{describe_error(error)}\n"


def out_of_memory(error: BaseException | None) -> bool:
    """Returns whether an error, or what caused it, is a lack of memory.

    Torch has errors of its own for that, by the device.
    """
    while error is not None:
        if (
            isinstance(error, MemoryError)
            or type(error).__name__ == "OutOfMemoryError"
            or (
                isinstance(error, RuntimeError)
                and "allocate memory" in _text_of(error, str)
            )
        ):
            return True
        error = error.__cause__
    return False


def last_words(error: LatecomerError) -> str:
    """Returns the end of the user's traceback as printable lines.

    Of an error that has no cause, its message.
    """
    if error.__cause__ is None:
        return printable(str(error), lines=True)
    return printable(_trace_of(error.__cause__), lines=True)[-LONG_TEXT:]


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
        cause = error.__cause__
        if kind is LatecomerError:
            words = describe_error(error)
        else:
            words = str(error)
            if cause is None:
                return cls(kind, words)
        return cls(kind, words, _trace_of(error if cause is None else cause))

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
