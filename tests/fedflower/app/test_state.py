"""The state of a Flower client on disk."""

import json
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcore.trees import Arrays, load_tree, save_tree
from fedflower.app.state import load_records, save_records

with suppress(ImportError):  # then the tests are skipped
    from flwr import app as flwr
pytestmark = pytest.mark.needs("flwr")
numbers = st.one_of(st.integers(-(2**62), 2**62), st.floats(allow_nan=False))
scalars = st.one_of(numbers, st.booleans(), st.text(), st.binary())
lists = st.one_of(
    *(
        st.lists(kind, max_size=3)
        for kind in (st.integers(0, 9), st.text(), st.binary())
    )
)


def saved_and_loaded(records: Any) -> Any:
    """What comes back from a client's disk, where numbers travel as JSON."""
    arrays: Arrays = {}
    saved = json.dumps(save_tree(save_records(records), "kept", arrays))
    return load_records(load_tree(None, json.loads(saved), arrays))


@given(st.dictionaries(st.text(), st.one_of(scalars, lists), max_size=4))
def test_a_config_record_comes_back_equal(values: dict[str, Any]) -> None:
    records = flwr.RecordDict({"mine": flwr.ConfigRecord(values)})
    back = dict(saved_and_loaded(records)["mine"])
    assert back == values
    assert list(map(type, back.values())) == list(map(type, values.values()))


@given(st.dictionaries(st.text(), numbers, max_size=4))
def test_a_metric_record_comes_back_equal(values: dict[str, Any]) -> None:
    records = flwr.RecordDict({"mine": flwr.MetricRecord(values)})
    assert dict(saved_and_loaded(records)["mine"]) == values


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "bool", "float16"])
def test_an_array_record_comes_back_bit_for_bit(dtype: str) -> None:
    array = flwr.Array(np.arange(6).reshape(2, 3).astype(dtype))
    records = flwr.RecordDict({"layer": flwr.ArrayRecord({"a/b": array})})
    back = saved_and_loaded(records)["layer"]["a/b"]
    assert (back.dtype, back.shape, back.data) == (dtype, (2, 3), array.data)


def test_an_empty_state_comes_back_empty() -> None:
    assert len(saved_and_loaded(flwr.RecordDict())) == 0
