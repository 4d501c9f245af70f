"""Tables as files: CSV always, Parquet where pyarrow is installed."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedrun.optional import installed, needed

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
    with written[0].open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))
    if installed("pyarrow") and table:
        written.append(path.with_name(f"{path.name}.parquet"))
        arrow = needed("pyarrow", "frames", "Parquet")
        parquet = needed("pyarrow.parquet", "frames", "Parquet")
        parquet.write_table(arrow.table(dict(table)), written[1])
    return written


def formats() -> str:
    """What :func:`write_columns` writes, in words."""
    return "CSV and Parquet" if installed("pyarrow") else FORMATS
