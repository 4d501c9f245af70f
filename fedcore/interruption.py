"""Interruption by a person, apart from a KeyboardInterrupt of the user's code."""

from typing import NoReturn


class Interruption(KeyboardInterrupt):
    """A person ends this process, by Ctrl-C or by a signal; raised by our handlers."""


def interrupt(number: int, frame: object) -> NoReturn:
    """Handles a signal by which a person ends this process."""
    raise Interruption
