"""Data of one client as rows."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcore.errors import UserCodeError, WorkloadError
from fedcore.rng import Key
from fedcore.samples import (
    ArraySamples,
    IndexedSamples,
    Reading,
    Subset,
    as_samples,
    targets_of,
)
from fedcore.training import Trainer
from tests.fedcore.workloads import X as LINE_X
from tests.fedcore.workloads import Y as LINE_Y
from tests.fedcore.workloads import algorithm, line, with_own_loop

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
    with pytest.raises(WorkloadError, match=r"expected \(x, y\), Subset"):
        as_samples(data, "train_data")


# ------------------------------------------------------------------------- subsets


def test_a_subset_is_its_rows_of_arrays_that_are_not_copied() -> None:
    subset = Subset(X, Y, np.array([3, 1, 2]))
    assert as_samples(subset, "train_data") is subset
    assert subset.x is X
    assert subset.y is Y
    assert len(subset) == 3
    x, y = subset.batch(np.array([0, 2]))
    assert (x.tolist(), y.tolist()) == ([[6, 7], [4, 5]], [1, 2])
    counts = subset.label_counts(np.array([1, 2, 2]))
    assert counts is not None
    assert counts.tolist() == [0, 0, 3]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=9), st.data())
def test_a_subset_is_like_the_arrays_of_its_rows(
    rows: list[int], data: st.DataObject
) -> None:
    subset = as_samples(Subset(X, Y, np.array(rows)), "train_data")
    copied = as_samples((X[rows], Y[rows]), "train_data")
    some = np.array(data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1)))
    assert len(subset) == len(copied)
    for found, expected in zip(subset.batch(some), copied.batch(some), strict=True):
        assert found.tolist() == expected.tolist()
    found, expected = subset.label_counts(some), copied.label_counts(some)
    assert found is not None
    assert expected is not None
    assert found.tolist() == expected.tolist()


def test_a_subset_unpacks_as_arrays_of_its_own() -> None:
    x, y = Subset({"a": X}, Y, np.array([3, 1]))
    assert (x["a"].tolist(), y.tolist()) == ([[6, 7], [2, 3]], [1, 2])
    x["a"][:] = 0
    assert X[3].tolist() == [6, 7]


@pytest.mark.parametrize(
    "rows", [[1, 3], range(1, 4, 2), np.array([False, True, False, True])]
)
def test_rows_may_be_a_list_a_range_or_a_mask(rows: Any) -> None:
    subset = Subset(X, Y, rows)
    assert subset.rows.dtype == np.int64
    assert subset.rows.tolist() == [1, 3]


@pytest.mark.parametrize("dtype", ["u1", "i2", "i8", "u8"])
def test_rows_may_be_whole_numbers_of_any_width(dtype: str) -> None:
    subset = Subset(X, Y, np.array([3, 0, 1], dtype))
    assert subset.rows.dtype == np.int64
    assert subset.rows.tolist() == [3, 0, 1]


def test_a_subset_of_a_file_that_is_mapped_reads_only_its_rows(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    subset = Subset(mapped, Y, ROWS)
    assert subset.x is mapped
    x, _ = subset.batch(np.array([0]))
    assert x.tolist() == [[6, 7]]
    assert type(x) is np.ndarray
    assert x.flags.writeable


def test_an_empty_subset_is_refused_by_the_name_of_its_function() -> None:
    with pytest.raises(WorkloadError, match="train_data of ann returned no samples"):
        as_samples(Subset(X, Y, np.array([], np.int64)), "train_data of ann")


@pytest.mark.parametrize(
    ("x", "rows", "sentence"),
    [
        (X, [4], "the rows of a Subset are 0 to 3; got 4 to 4"),
        (X, [-1, 2], "the rows of a Subset are 0 to 3; got -1 to 2"),
        (X, [0.5], "vector of whole numbers, or a mask of all 4; got float64"),
        (X, [[0]], r"got int64 of shape \(1, 1\)"),
        (X, [True], r"a mask of all 4; got bool of shape \(1,\)"),
        (X[:3], [0], "a Subset got 3 inputs and 4 targets"),
        ({"a": X, "b": X[:3]}, [0], r"a Subset got inputs of \[3, 4\] rows"),
        ([[1], [2], [3], [4]], [0], "of arrays with a row for each sample.*got list"),
    ],
)
def test_rows_that_are_not_there_are_refused_with_a_sentence(
    x: Any, rows: Any, sentence: str
) -> None:
    with pytest.raises(WorkloadError, match=sentence):
        Subset(x, Y, rows)


def test_targets_are_found_in_pairs_and_subsets() -> None:
    assert targets_of((X, Y)) is Y
    assert targets_of(Subset(X, Y, ROWS)).tolist() == [1, 2]
    assert targets_of(Pairs()) is None


@pytest.mark.parametrize("workload", [line(), with_own_loop()])
def test_a_client_learns_the_same_from_a_subset_as_from_a_copy(workload: Any) -> None:
    settings = {"kind": "local_sgd", "lr": 0.1, "steps": 4, "batch": 2}
    trainer = Trainer(workload, algorithm(workload, client=settings))
    public_D, rows = np.array([0.5, 1.0], np.float32), np.array([4, 0, 2])
    given = (LINE_X[rows], LINE_Y[rows]), Subset(LINE_X, LINE_Y, rows)
    copied, shared = (trainer.train(public_D, data, Key.root(0)) for data in given)
    assert copied.delta_D.tobytes() == shared.delta_D.tobytes()
    assert (copied.samples, copied.steps) == (shared.samples, shared.steps)


# ------------------------------------------------------------------------ data sets


def summed(samples: list[Any]) -> tuple[Any, Any]:
    """A batch of the sums of samples, however long they are."""
    return np.array([[np.sum(x)] for x, _ in samples]), np.array(
        [y for _, y in samples]
    )


@pytest.mark.parametrize(
    "data",
    [
        [([1, 2, 3], 0), ([4], 1), ([5, 6], 1)],
        (np.array([6, 4, 11]), np.array([0, 1, 1])),
        Subset(np.array([9, 6, 4, 11]), np.array([7, 0, 1, 1]), np.arange(1, 4)),
    ],
)
def test_batches_are_made_by_the_users_collate_whatever_the_data_are(data: Any) -> None:
    samples = as_samples(data, "train_data", summed)
    assert len(samples) == 3
    x, y = samples.batch(np.array([2, 0]))
    assert (x.tolist(), y.tolist()) == ([[11], [6]], [1, 0])


@pytest.mark.parametrize(
    ("collate", "told"),
    [
        (lambda samples: 3, "collate returned a int; expected (x, y)"),
        (lambda samples: (1, 2, 3), "collate returned a tuple of 3; expected (x, y)"),
        (lambda samples: samples.sorted(), "collate raised AttributeError: 'list'"),
    ],
)
def test_a_collate_that_is_no_use_is_named(collate: Any, told: str) -> None:
    samples = as_samples([(1, 2)] * 3, "train_data", collate)
    with pytest.raises(UserCodeError) as caught:
        samples.batch(np.arange(2))
    assert str(caught.value).startswith(told)


@pytest.mark.parametrize(
    ("first", "other", "forms"),
    [
        ((X[0], 1), (X[0, :1], 1), "x (2,), y (); x (1,), y ()"),
        (([1, 2], 1), ([1], 1), "x (2,), y (); x (1,), y ()"),
        (
            ((X, Y), 1),
            ((X, Y[:1]), 1),
            "x ((4, 2), (4,)), y (); x ((4, 2), (1,)), y ()",
        ),
        (({"a": X}, X), ({"a": X}, Y), "x {'a': (4, 2)}, y (4, 2); x {'a': (4, 2)}, y"),
    ],
)
def test_samples_of_two_shapes_want_a_collate(
    first: Any, other: Any, forms: str
) -> None:
    samples = as_samples([first, first, other], "train_data")
    assert samples.batch(np.arange(2))  # of one shape
    with pytest.raises(UserCodeError, match="give collate=") as caught:
        samples.batch(np.arange(3))
    assert f"list differ in shape ({forms}" in str(caught.value)


def test_labels_are_counted_among_what_was_read() -> None:
    steps = [[(Reread(), np.array([0, 1]))], [(Reread(), np.array([1, 2]))]]
    reading = Reading(steps)
    for step in (0, 1, 0, 1):  # as a method that trains two models on each batch
        [(x, _)] = reading.of(step)
        assert x.tolist() == steps[step][0][1].tolist()
    counts = reading.labels.of(0)
    assert counts is not None
    assert counts.tolist() == [1, 2, 1]


class Reread:
    """Samples that are their own labels."""

    def __len__(self) -> int:
        return 3

    def batch(self, rows: Any) -> tuple[Any, Any]:
        return rows, rows

    def label_counts(self, rows: Any) -> None:
        return None
