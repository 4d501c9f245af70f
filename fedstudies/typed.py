"""Reads what was typed: lists, and whole numbers with commas between them."""

from collections.abc import Callable
from typing import Any

from fedcore.errors import ConfigError
from fedcore.text import brief


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
    option: str, text: str, expected: str, *, least: int = 1, most: int = 2**31 - 1
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


def counts(expected: str, most: int) -> Callable[[str, Any], tuple[int, ...]]:
    """Returns a reader of whole numbers from 1 on, for an option.

    Args:
        expected: what could be given, in words.
        most: the largest number that is allowed.
    """
    return lambda option, text: tuple(whole_numbers(option, text, expected, most=most))
