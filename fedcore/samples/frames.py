"""Makes arrays of lists, and of data frames and their columns."""

from typing import Any

import numpy as np

from fedcore.errors import WorkloadError


def as_array(data: Any, whose: str) -> Any:
    """Lists and columns of data frames as arrays; anything else unchanged.

    Args:
        data: what the user's code returned.
        whose: begins a message, such as "train_data returned".

    Raises:
        WorkloadError: a list is ragged, or a column lacks values.
    """
    if isinstance(data, np.ndarray):
        return data
    if isinstance(data, list):
        try:
            return np.asarray(data)
        except ValueError as error:
            raise WorkloadError(
                f"{whose} a ragged list: its items differ in length; pad them"
            ) from error
    if hasattr(data, "to_numpy"):
        return _column_array(data, whose, getattr(data, "name", None))
    return data


def frame_array(frame: Any, whose: str) -> Any:
    """Returns a data frame of numbers as a float32 array (N, F).

    Raises:
        WorkloadError: a column holds something else than finite numbers.
    """
    names = list(frame.columns)
    columns = []
    for place, name in enumerate(names):
        column = _column_array(column_at(frame, place), whose, name)
        if column.dtype.kind not in "iufb":
            raise WorkloadError(
                f"{whose} a data frame whose column {name!r} is not numeric: "
                f"{column[0]!s}; inputs are numbers"
            )
        columns.append(column.astype(np.float32))
    if not columns:
        raise WorkloadError(f"{whose} a data frame without columns")
    return np.stack(columns, axis=1)


def column_at(frame: Any, place: int) -> Any:
    """Returns a column by its place, since two columns may have one name."""
    if hasattr(frame, "iloc"):
        return frame.iloc[:, place]
    return frame[frame.columns[place]]


def _column_array(column: Any, whose: str, name: Any) -> Any:
    """Returns a column as whole numbers, other numbers or words."""
    found = np.asarray(column.to_numpy())
    where = f"{whose} a column" if name is None else f"{whose} a column {name!r}"
    if found.dtype == object:  # nullable numbers, decimals, categories, words
        missing = [
            i for i, value in enumerate(found) if value is None or value != value
        ]
        if missing:
            raise WorkloadError(f"{where} without a finite value in row {missing[0]}")
        if all(isinstance(value, str) for value in found):
            return found.astype(np.str_)
        try:
            numbers = found.astype(np.float64)
        except (TypeError, ValueError) as error:
            odd = next(value for value in found if not is_numeric(value))
            raise WorkloadError(f"{where} that is not numeric: {odd!r}") from error
        whole = numbers.astype(np.int64)
        return whole if (whole == numbers).all() else numbers
    if found.dtype.kind == "f":
        odd_rows = np.flatnonzero(~np.isfinite(found))
        if len(odd_rows):
            raise WorkloadError(f"{where} without a finite value in row {odd_rows[0]}")
    return found


def is_numeric(value: Any) -> bool:
    """Returns whether a value is a number, or text that reads as one."""
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
