"""Writes tables to files: CSV, and Parquet if pyarrow is installed."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedrun.optional import is_installed, require
from fedrun.plain_files import replacing

COMPUTED = ("=", "+", "-", "@", "\t", "\r")  # how formulas of spreadsheets begin
FORMATS = "CSV; with pyarrow, pip install 'latecomer[frames]', Parquet as well"


def write_columns(table: Mapping[str, Sequence[Any]], path: Path) -> list[Path]:
    """Writes a table of equally long columns as ``path.csv`` and ``path.parquet``.

    Args:
        table: columns by name; None is an empty cell.
        path: of the files, without the ending.

    Returns:
        The files that were written.
    """
    written = [path.with_name(f"{path.name}.csv")]
    with (
        replacing(written[0]) as temporary,
        temporary.open("w", newline="", encoding="utf-8") as file,
    ):
        writer = csv.writer(file)
        writer.writerow(map(cell, table))
        for row in zip(*table.values(), strict=True):
            writer.writerow(map(cell, row))
    if is_installed("pyarrow") and table:
        written.append(path.with_name(f"{path.name}.parquet"))
        arrow = require("pyarrow", "frames", "Parquet")
        parquet = require("pyarrow.parquet", "frames", "Parquet")
        with replacing(written[1]) as temporary:
            parquet.write_table(arrow.table(dict(table)), temporary)
    return written


def cell(value: Any) -> Any:
    """Returns a cell of a CSV file; a text that looks like a formula gets a quote."""
    if isinstance(value, str) and value.startswith(COMPUTED):
        return f"'{value}"
    return value


def text_of(cell: str) -> str:
    """Reads the text that :func:`cell` wrote."""
    return cell[1:] if cell[:1] == "'" and cell[1:].startswith(COMPUTED) else cell


def formats() -> str:
    """Returns names the formats that :func:`write_columns` writes."""
    return "CSV and Parquet" if is_installed("pyarrow") else FORMATS
