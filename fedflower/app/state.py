"""Converts a client's ``Context.state`` to arrays, numbers and texts, and back.

Bytes become arrays of uint8, and lists become tuples, each after a word that marks the
conversion.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedcore.errors import WorkloadError
from fedcore.typing import State
from fedflower.app.library import flwr

RecordDict = Any  # of flwr
_BYTES, _LIST = "bytes", "list"


def save_records(records: RecordDict) -> dict[str, State]:
    """Returns a RecordDict as a tree that :mod:`fedcore.trees` can save.

    Raises:
        WorkloadError: it holds a record of an unknown kind.
    """
    app = flwr("flwr.app")
    kinds = {
        "arrays": app.ArrayRecord,
        "config": app.ConfigRecord,
        "metrics": app.MetricRecord,
    }
    saved: dict[str, State] = {}
    for name, record in records.items():
        kind = next((k for k, cls in kinds.items() if isinstance(record, cls)), None)
        if kind is None:
            raise WorkloadError(
                f"Context.state[{name!r}] is {type(record).__name__}; expected an "
                "ArrayRecord, a ConfigRecord or a MetricRecord"
            )
        save = _save_array if kind == "arrays" else _save_value
        saved[name] = kind, {key: save(value) for key, value in record.items()}
    return saved


def load_records(saved: Mapping[str, State]) -> RecordDict:
    """Returns the RecordDict that :func:`save_records` saved."""
    app = flwr("flwr.app")
    found = app.RecordDict()
    for name, (kind, items) in saved.items():
        if kind == "arrays":
            arrays = {key: _load_array(app, value) for key, value in items.items()}
            found[name] = app.ArrayRecord(arrays)
            continue
        values = {key: _load_value(value) for key, value in items.items()}
        cls = app.ConfigRecord if kind == "config" else app.MetricRecord
        found[name] = cls(values)
    return found


def _save_array(array: Any) -> State:
    return array.dtype, tuple(array.shape), array.stype, _as_array(array.data)


def _load_array(app: Any, saved: State) -> Any:
    dtype, shape, stype, data = saved
    return app.Array(dtype, tuple(shape), stype, data.tobytes())


def _save_value(value: Any) -> State:
    if isinstance(value, bytes):
        return _BYTES, _as_array(value)
    if isinstance(value, list):
        return _LIST, tuple(map(_save_value, value))
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    raise WorkloadError(f"Context.state holds {type(value).__name__}")


def _load_value(saved: State) -> Any:
    if not isinstance(saved, tuple):
        return saved
    kind, value = saved
    return value.tobytes() if kind == _BYTES else list(map(_load_value, value))


def _as_array(data: bytes) -> Any:
    return np.frombuffer(data, np.uint8).copy()
