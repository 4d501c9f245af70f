"""An error that is told elsewhere: in another process, or later."""

import traceback
from typing import NamedTuple

from fedcore.errors import LatecomerError


class Failure(NamedTuple):
    """What computing ended with, instead of a result."""

    kind: type[LatecomerError]
    words: str
    trace: str
    """Where it was raised, as text: a traceback does not travel."""

    @classmethod
    def of(cls, error: Exception) -> "Failure":
        """As it can be told to another process."""
        kind = type(error) if isinstance(error, LatecomerError) else LatecomerError
        words = str(error)
        if kind is LatecomerError:
            words = f"{type(error).__name__}: {error}"
        lines = traceback.format_exception(error.__cause__ or error)
        return cls(kind, words, "".join(lines))

    def error(self) -> LatecomerError:
        """The same error; its cause shows where it was raised."""
        error = self.kind(self.words)
        error.__cause__ = RemoteTraceback(self.trace)
        return error


class RemoteTraceback(Exception):  # noqa: N818 -- the cause of an error
    """Shows a traceback that was told as text."""

    def __init__(self, trace: str) -> None:
        super().__init__(f"\n{trace}")
