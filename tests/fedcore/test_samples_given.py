"""What users return as data: taken as it is meant, or refused by a sentence."""

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from fedcore.errors import WorkloadError
from fedcore.pool import Pool
from fedcore.samples import Subset, as_samples

X = np.arange(8, dtype=np.float32).reshape(4, 2)
Y = np.array([0, 1, 1, 0])
ALL = np.arange(4)
KINDS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?")


def given(data: Any) -> tuple[Any, Any]:
    return as_samples(data, "train_data").batch(ALL)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["pair", "subset", "data set"])
def test_labels_of_any_kind_arrive_as_the_same_numbers(kind: str, form: str) -> None:
    y = Y.astype(kind)
    data: Any = {
        "pair": (X, y),
        "subset": Subset(X, y, ALL),
        "data set": list(zip(X, y, strict=True)),
    }[form]
    samples = as_samples(data, "train_data")
    x, labels = samples.batch(ALL)
    assert labels.dtype == np.int64
    assert labels.tolist() == Y.tolist()
    assert x.tolist() == X.tolist()
    if form != "data set":
        counts = samples.label_counts(ALL)
        assert counts is not None
        assert counts.tolist() == [2, 2]


def test_lists_are_arrays() -> None:
    for data in ((X.tolist(), Y.tolist()), [X, Y], (X, [0, True, 1, 0])):
        x, y = given(data)
        assert (x.tolist(), y.tolist()) == (X.tolist(), Y.tolist())


def test_targets_that_are_no_whole_numbers_stay_as_they_are() -> None:
    for y in (Y.astype(np.float32), np.array(list("abca"))):
        _, found = given((X, y))
        assert found.dtype == y.dtype


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (X, "returned a ndarray; expected (x, y)"),
        ((X, Y, Y), "returned a tuple of 3; expected (x, y)"),
        (
            {"x": X, "y": Y},
            "returned a dict of x, y, which does not say what the targets are; "
            "expected (x, y), where x may be a dict of arrays",
        ),
        ((X, {"label": Y}), "returned a dict of label as targets; expected an array"),
        ((X[0, 0], Y[0]), "returned targets without rows: np.int64(0)"),
        (
            ([[1, 2], [3]], [0, 1]),
            "returned a ragged list: its items differ in length; pad them",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(data: Any, sentence: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        as_samples(data, "train_data")
    assert str(caught.value) == f"train_data {sentence}"


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ({"image": 1, "label": 0}, "a dict of image, label"),
        (3, "a int"),
        ((1,), "of 1"),
    ],
)
def test_a_data_set_must_yield_pairs(item: Any, words: str) -> None:
    with pytest.raises(WorkloadError, match=rf"^a sample of .*{words}; expected \(x"):
        given([item, item, item, item])


def test_clients_whose_numbers_differ_in_width_do_not_lose_any() -> None:
    pool = Pool()
    pool.add(0, as_samples((X, Y.astype(np.int8)), "train_data"))
    pool.add(1, as_samples((X / 8, Y + 1000), "train_data"))
    pool.add(2, as_samples((X.astype(np.float64) / 3, Y), "train_data"))
    rows = np.arange(len(Y))
    x, y = pool.samples_of(1).batch(rows)
    assert x.tolist() == (X / 8).tolist()
    assert y.tolist() == (Y + 1000).tolist()
    x, _ = pool.samples_of(2).batch(rows)
    assert x.tolist() == (X.astype(float) / 3).tolist()


def test_a_loader_is_refused_by_name() -> None:
    data = pytest.importorskip("torch.utils.data")
    with pytest.raises(WorkloadError, match=r"a DataLoader, .* \(loader.dataset\)"):
        as_samples(data.DataLoader(list(zip(X, Y, strict=True))), "train_data")


def test_words_are_no_tensors() -> None:
    pytest.importorskip("torch")
    from fedtorch.tensors import to_targets, to_tensor

    with pytest.raises(WorkloadError, match="the data are words such as 'a'"):
        to_targets(np.array(list("ab")))
    with pytest.raises(WorkloadError, match="the data are of type object such as None"):
        to_tensor(np.array([None], object))
    for kind in KINDS:
        assert to_targets(Y.astype(kind)).tolist() == Y.tolist()


# ------------------------------------------------------------------------ data frames


@pytest.mark.needs("pandas")
def test_data_frames_of_numbers_are_taken() -> None:
    pd = import_module("pandas")

    frame = pd.DataFrame(X, columns=["a", "b"], index=[7, 8, 9, 9])
    series = pd.Series(Y, index=frame.index)
    for targets in (
        series,
        series.to_frame("label"),
        series.astype("category"),
        series.astype("Int64"),
        series.astype(bool),
        Y,
    ):
        x, y = given((frame, targets))
        assert x.dtype == np.float32
        assert (x.tolist(), y.tolist()) == (X.tolist(), Y.tolist())
    mixed = frame.assign(c=frame.a > 2, d=frame.b.astype("Int64"))
    assert given((mixed, Y))[0].tolist() == [
        [*row, float(row[0] > 2), row[1]] for row in X.tolist()
    ]
    twice = pd.concat([frame, frame], axis=1)  # names are there twice
    assert given((twice, Y))[0].shape == (4, 4)
    both = given(({"left": frame, "right": X}, Y))[0]
    assert both["left"].tolist() == both["right"].tolist()


@pytest.mark.needs("pandas")
def test_data_frames_that_cannot_be_meant_are_refused() -> None:
    pd = import_module("pandas")

    frame = pd.DataFrame(X, columns=["a", "b"])
    wrong: dict[str, Any] = {
        "returned a DataFrame alone, which does not say what the targets are": frame,
        "whose column 'a' is not numeric: red": (frame.assign(a="red"), Y),
        "a column 'b' without a finite value in row 2": (
            frame.assign(b=frame.b.where(frame.b != 5)),
            Y,
        ),
        "a column 'label' without a finite value in row 1": (
            frame,
            pd.Series([0, None, 1, 0], name="label", dtype="Int64"),
        ),
        "returned 3 inputs and 4 targets": (frame[:3], Y),
        "a data frame without columns": (frame[[]], Y),
    }
    for sentence, data in wrong.items():
        with pytest.raises(WorkloadError) as caught:
            as_samples(data, "train_data")
        assert sentence in str(caught.value)
    with pytest.raises(WorkloadError, match=r"got DataFrame; give frame.to_numpy"):
        Subset(frame, Y, ALL)
