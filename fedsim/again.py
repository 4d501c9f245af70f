"""What a simulation says that was interrupted: one command that goes on."""

import os
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import click


class Again:
    """The command to type after an interruption, and what it will do."""

    def __init__(self, words: Sequence[str]) -> None:
        """``words`` were typed; nothing was done yet."""
        self.has_begun = False
        self.say("interrupted before the run began; to begin again", words)

    def say(self, what: str, words: Sequence[str]) -> None:
        """Another command from here on."""
        self._what, self._words = what, words

    def __str__(self) -> str:
        """It can be pasted into a shell as it is."""
        return f"{self._what}: {shlex.join(self._words)}"


@contextmanager
def going_on(words: Sequence[str]) -> Iterator[Again]:
    """Ctrl-C in this block ends the command with status 0, and says how to go on.

    Until the run has begun there is nothing to tidy up, and an exception would pass
    through the imports of libraries, which make errors of their own of it: the process
    ends at once.
    """
    again, heard = Again(words), []

    def hear(number: int, frame: FrameType | None) -> None:
        heard.append(number)
        if again.has_begun:
            raise KeyboardInterrupt
        click.echo(str(again), err=True)
        os._exit(0)

    listens = callable(signal.getsignal(signal.SIGINT))  # not so behind a shell's &
    before = signal.signal(signal.SIGINT, hear) if listens else None
    try:
        yield again
    except BaseException as error:
        if not heard and not isinstance(error, KeyboardInterrupt):
            raise
        click.echo(str(again), err=True)
        sys.exit(0)
    finally:
        if listens:
            signal.signal(signal.SIGINT, before)
