"""Writes a trace as CSV."""

import csv
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from fedcore.errors import ConfigError
from fedrun.plain_files import replacing
from fedsim.traces.format import COLUMNS, OF_CLIENT, ClientTrace
from fedview.results.columns import cell

DIGITS = 9  # digits after the decimal point: nanoseconds


def write_trace(path: Path, clients: Sequence[ClientTrace]) -> None:
    """Writes a trace for :func:`fedsim.traces.read_trace`.

    Args:
        path: the file to write.
        clients: the clients, in the order in which they are written.

    Raises:
        ConfigError: the file cannot be written.
    """
    try:
        with (
            replacing(path) as temporary,
            temporary.open("w", encoding="utf-8", newline="") as file,
        ):
            table = csv.writer(file, lineterminator="\n")
            table.writerow(COLUMNS)
            for client in clients:
                table.writerows(_rows(client))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error


def _rows(client: ClientTrace) -> Iterator[list[str]]:
    known = [_number(getattr(client, name)) for name in OF_CLIENT]
    for segment in client.segments:
        yield [
            cell(client.name),
            _number(segment.start),
            "" if math.isinf(segment.end) else _number(segment.end),
            segment.state,
            str(segment.steps) if segment.state == "task" else "",
            *known,
        ]
        known = [""] * len(OF_CLIENT)  # only in the first row


def _number(value: float | None) -> str:
    """Returns a number with nanoseconds; an empty text for None."""
    return "" if value is None else repr(round(value, DIGITS))
