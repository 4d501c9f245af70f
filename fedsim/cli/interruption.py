"""The hint after Ctrl-C: one command that continues the simulation."""

import os
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import click

from fedcore.interruption import Interruption
from fedrun.cli.stoppable import ENDING


class Hint:
    """The command to type after an interruption, and what it will do."""

    def __init__(self, words: Sequence[str]) -> None:
        """``words`` are those of the command that was typed."""
        self.has_begun = False
        self.say("interrupted before the run began; to begin again", words)

    def say(self, what: str, words: Sequence[str]) -> None:
        """Replaces the hint: what the command does, and its words."""
        self._what, self._words = what, words

    def __str__(self) -> str:
        """The hint; its command can be pasted into a shell."""
        return f"{self._what}: {shlex.join(self._words)}"


@contextmanager
def hint_after_interruption(words: Sequence[str]) -> Iterator[Hint]:
    """Ends the command with status 0 on Ctrl-C in the block, and prints the hint.

    The signals of ``ENDING`` do the same.

    Until the run has begun, the process ends at once. An exception would pass through
    the imports of libraries, which turn it into errors of their own.
    """
    hint, heard = Hint(words), []

    def hear(number: int, frame: FrameType | None) -> None:
        heard.append(number)
        if hint.has_begun:
            raise Interruption
        click.echo(str(hint), err=True)
        os._exit(0)

    before = {one: signal.getsignal(one) for one in (signal.SIGINT, *ENDING)}
    heeded = [one for one, handler in before.items() if handler is not signal.SIG_IGN]
    for one in heeded:  # a shell's & ignores Ctrl-C
        signal.signal(one, hear)
    try:
        yield hint
    except BaseException as error:
        if not heard and not isinstance(error, KeyboardInterrupt):
            raise
        click.echo(str(hint), err=True)
        sys.exit(0)
    finally:
        for one in heeded:
            signal.signal(one, before[one])
