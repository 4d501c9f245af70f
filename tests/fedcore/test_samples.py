"""Data of one client as rows."""

from typing import Any

import numpy as np
import pytest

from fedcore.errors import WorkloadError
from fedcore.samples import (
    MOST_CLASSES,
    ArraySamples,
    IndexedSamples,
    as_samples,
    count_labels,
)

X = np.arange(8.0).reshape(4, 2)
Y = np.array([0, 2, 2, 1])
ROWS = np.array([3, 1])


class Pairs:
    """A map-style data set."""

    targets = Y.tolist()

    def __len__(self) -> int:
        return len(Y)

    def __getitem__(self, row: int) -> tuple[Any, Any]:
        assert type(row) is int  # many data sets know no NumPy integers
        return X[row], Y[row]


def test_a_pair_of_arrays_is_cut_by_rows() -> None:
    samples = as_samples((X, Y), "train_data")
    assert isinstance(samples, ArraySamples)
    assert len(samples) == 4
    x, y = samples.batch(ROWS)
    assert x.tolist() == [[6, 7], [2, 3]]
    assert y.tolist() == [1, 2]


def test_inputs_may_be_several_arrays() -> None:
    for inputs in ({"a": X, "b": Y}, (X, Y)):
        x, _ = as_samples((inputs, Y), "train_data").batch(ROWS)
        parts = list(x.values()) if isinstance(x, dict) else list(x)
        assert parts[0].tolist() == [[6, 7], [2, 3]]
        assert parts[1].tolist() == [1, 2]
        assert type(x) is type(inputs)


def test_a_map_style_data_set_is_read_item_by_item() -> None:
    samples = as_samples(Pairs(), "train_data")
    assert isinstance(samples, IndexedSamples)
    assert len(samples) == 4
    x, y = samples.batch(ROWS)
    assert x.tolist() == [[6, 7], [2, 3]]
    assert y.tolist() == [1, 2]


@pytest.mark.parametrize("data", [(X, Y), Pairs()])
def test_labels_are_counted_among_the_rows_and_as_often_as_they_occur(
    data: Any,
) -> None:
    samples = as_samples(data, "train_data")
    counts = samples.label_counts(np.array([0, 1, 2, 2]))
    assert counts is not None
    assert counts.tolist() == [1, 0, 3]


@pytest.mark.parametrize(
    "targets",
    [
        None,
        np.array([0.5, 1.0]),
        np.array([[0], [1]]),
        np.array([-1, 1]),
        np.array(["a", "b"]),
        np.array([True, False]),
        np.array([1, MOST_CLASSES]),
    ],
)
def test_targets_that_are_no_labels_are_not_counted(targets: Any) -> None:
    assert count_labels(targets, np.array([0, 1])) is None


@pytest.mark.parametrize("dtype", ["u1", "i2", "u4", "i8", "u8"])
def test_labels_may_be_whole_numbers_of_any_width(dtype: str) -> None:
    counts = count_labels(np.array([1, 200], dtype.replace("i2", "u2")), np.arange(2))
    assert counts is not None
    assert counts.sum() == 2
    assert counts[200] == 1


def test_the_largest_label_that_a_server_takes_is_counted() -> None:
    counts = count_labels(np.array([MOST_CLASSES - 1]), np.array([0]))
    assert counts is not None
    assert len(counts) == MOST_CLASSES


@pytest.mark.parametrize("data", [(X[:0], Y[:0]), []])
def test_empty_data_is_refused_by_the_name_of_its_function(data: Any) -> None:
    with pytest.raises(WorkloadError, match="valid_data returned no samples"):
        as_samples(data, "valid_data")


@pytest.mark.parametrize("x", [X[:3], {"a": X, "b": X[:3]}, (X[:3], X)])
def test_inputs_and_targets_must_be_equally_many(x: Any) -> None:
    with pytest.raises(WorkloadError, match="returned 3 inputs and 4 targets"):
        as_samples((x, Y), "train_data")


@pytest.mark.parametrize("data", [None, 7, iter([1, 2])])
def test_anything_else_is_refused_by_its_type(data: Any) -> None:
    with pytest.raises(WorkloadError, match=r"expected \(x, y\) or a data set"):
        as_samples(data, "train_data")
