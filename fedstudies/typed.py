"""Reads what was typed: lists, and whole numbers with commas between them."""

from collections.abc import Sequence

from fedcore.errors import ConfigError
from fedcore.text import brief
from fedstudies.frame import Option

MOST = 2**31 - 1


def split(text: str) -> list[str]:
    """Splits a text at its commas, except for those inside brackets and braces."""
    parts, depth = [""], 0
    for char in text:
        depth += (char in "[{") - (char in "]}")
        if char == "," and not depth:
            parts.append("")
        else:
            parts[-1] += char
    return parts


def whole_numbers(
    option: str, text: str, expected: str, *, least: int = 1, most: int = MOST
) -> list[int]:
    """Reads whole numbers with commas between them.

    Args:
        option: of the command line, for errors.
        text: what was given.
        expected: what could have been given, in words.
        least: the smallest number that is allowed.
        most: the largest.

    Raises:
        ConfigError: a part is no such number.
    """
    parts = [part.strip() for part in text.split(",")]
    digits = len(str(most))  # longer ones need not be read
    if not all(
        part.isdecimal() and len(part) <= digits and least <= int(part) <= most
        for part in parts
    ):
        raise ConfigError(f"{option} {brief(text)}: expected {expected}")
    return [int(part) for part in parts]


def numbers(words: str, example: str, *, least: int = 1, most: int = MOST) -> Option:
    """Returns how a list of whole numbers is given: with commas between them.

    Args:
        words: which numbers are meant, for errors, such as ``numbers of clients``.
        example: what could be given.
        least: the smallest number that is allowed.
        most: the largest.
    """
    expected = f"{words}, such as {example}"

    def read(option: str, text: str) -> Sequence[int]:
        return whole_numbers(option, text, expected, least=least, most=most)

    return Option("N,N", read=read, wanted=f"a list of {words}")
