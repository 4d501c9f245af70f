"""Reads columns of a table by name, from CSV and Parquet."""

import csv
import re
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fedcore.errors import WorkloadError
from fedcore.samples.frames import is_numeric
from fedrun.optional import require

Column = npt.NDArray[Any]
_UNNAMED_INDEX = re.compile(r"__index_level_\d+__")  # as pandas calls it


class Table(Protocol):
    """A table whose columns are read by name."""

    names: list[str]
    index: frozenset[str]
    """Columns that number the rows; they are inputs only if they are named."""

    def column(self, name: str) -> Column:
        """Returns the values of a column, one for each row; none is missing."""

    def place(self, row: int) -> str:
        """Returns the place of a row in the file, in words."""


class CSVTable:
    """A table as text, with the names of its columns in the first line.

    Values between quotes may hold commas and line breaks. Empty lines do not count.
    """

    index: frozenset[str] = frozenset()

    def __init__(self, path: Path) -> None:
        """Reads the file.

        Raises:
            WorkloadError: a line has more or fewer values than the first.
            ValueError: it is empty, or no text.
        """
        self.path = path
        self._lines: list[int] = []  # where each row ends
        rows: list[list[str]] = []
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            try:
                header = next((row for row in reader if row), None)
                if header is None:
                    raise ValueError("it is empty")
                self.names = [name.strip() for name in header]
                self._check_names()
                for row in reader:
                    if not row:
                        continue
                    if len(row) != len(header):
                        raise WorkloadError(
                            f"{path}: line {reader.line_num} has {len(row)} values; "
                            f"the first line names {len(header)} columns"
                        )
                    rows.append(row)
                    self._lines.append(reader.line_num)
            except csv.Error as error:
                raise ValueError(f"line {reader.line_num}: {error}") from error
        columns = zip(*rows, strict=True) if rows else ((),) * len(header)
        self._texts = dict(zip(self.names, columns, strict=True))

    def _check_names(self) -> None:
        if "" in self.names:
            place = self.names.index("") + 1
            raise WorkloadError(f"{self.path}: column {place} has no name in line 1")
        for name in self.names:
            if self.names.count(name) > 1:
                raise WorkloadError(f"{self.path}: two columns are named {name!r}")

    def column(self, name: str) -> Column:
        """Returns a column as whole numbers, or else numbers, or else words.

        Raises:
            WorkloadError: a value is missing, or a number is not finite.
        """
        texts = [text.strip() for text in self._texts[name]]
        if "" in texts:
            raise WorkloadError(
                f"{self.path}: column {name!r} has no value in "
                f"{self.place(texts.index(''))}"
            )
        words = np.array(texts, np.str_)
        for kind in (np.int64, np.float64):
            try:
                numbers: Column = words.astype(kind)
            except (ValueError, OverflowError):
                continue
            return _finite(numbers, name, self)
        return words

    def place(self, row: int) -> str:
        """Returns the line on which the row ends, in words."""
        return f"line {self._lines[row]}"


class ParquetTable:
    """A Parquet file; only the columns that are asked for are read.

    pandas writes the index of a data frame as a column, which numbers the rows and is
    no input.
    """

    def __init__(self, path: Path) -> None:
        """Reads the schema.

        Raises:
            ConfigError: pyarrow is not installed.
        """
        self.path = path
        self._parquet = require("pyarrow.parquet", "frames", f"{path}: Parquet")
        schema = self._parquet.read_schema(path)
        self.names = list(schema.names)
        about = schema.pandas_metadata or {}
        index = {n for n in about.get("index_columns", ()) if isinstance(n, str)}
        unnamed = {n for n in self.names if _UNNAMED_INDEX.fullmatch(n)}
        self.index = frozenset(index | unnamed)

    def column(self, name: str) -> Column:
        """Returns a column: numbers or words (N,), or lists of equal length (N, L).

        Raises:
            WorkloadError: a value is missing, a number is not finite, or lists differ
                in length.
        """
        table = self._parquet.read_table(self.path, columns=[name])
        column = table.column(name).combine_chunks()
        return _finite(self._values(column, name), name, self)

    def place(self, row: int) -> str:
        """Returns the row's number in words; the first is row 1."""
        return f"row {row + 1}"

    def _values(self, column: Any, name: str) -> Column:
        if column.null_count:
            empty = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))
            raise WorkloadError(
                f"{self.path}: column {name!r} has no value in {self.place(empty[0])}"
            )
        if hasattr(column, "value_lengths"):
            return self._of_lists(column, name)
        values = np.asarray(column.to_numpy(zero_copy_only=False))
        if values.dtype != object:
            return values
        if not all(isinstance(value, str) for value in values):
            raise WorkloadError(
                f"{self.path}: column {name!r} is of type {column.type}; allowed are "
                "numbers, words and lists of them"
            )
        return values.astype(np.str_)

    def _of_lists(self, column: Any, name: str) -> Column:
        lengths = np.asarray(column.value_lengths())
        odd = np.flatnonzero(lengths != lengths[:1])
        if len(odd):
            raise WorkloadError(
                f"{self.path}: column {name!r} is ragged: {lengths[odd[0]]} values in "
                f"{self.place(odd[0])}, {lengths[0]} in {self.place(0)}"
            )
        inner = self._values(column.flatten(), name)
        return inner.reshape(len(column), *lengths[:1], *inner.shape[1:])


def _finite(values: Column, name: str, table: CSVTable | ParquetTable) -> Column:
    if values.dtype.kind == "f" and len(values):
        odd = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))
        if len(odd):
            raise WorkloadError(
                f"{table.path}: column {name!r} is not finite in "
                f"{table.place(odd[0])}; allowed are finite numbers"
            )
    return values


def check_numeric(column: Column, name: str, table: Table, path: str | Path) -> None:
    """Raises WorkloadError if a column does not hold numbers; names the first word."""
    if np.issubdtype(column.dtype, np.number):
        return
    flat = column.reshape(-1).tolist()
    row = next((row for row, value in enumerate(flat) if not is_numeric(value)), 0)
    raise WorkloadError(
        f"{path}: column {name!r} is not numeric: {flat[row]!r} in "
        f"{table.place(row * len(column) // len(flat))}; inputs are numbers"
    )
