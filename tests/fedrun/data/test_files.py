"""A device's own files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcore.errors import WorkloadError
from fedcore.workload import Client
from fedrun.data import client_file, load, load_column


def csv(folder: Path, text: str) -> Path:
    path = folder / "data.csv"
    path.write_text(text)
    return path


def npz(folder: Path, **arrays: Any) -> Path:
    path = folder / "data.npz"
    np.savez(path, **arrays)
    return path


def test_a_csv_is_its_columns_and_the_target(tmp_path: Path) -> None:
    path = csv(tmp_path, "height,label,weight\n1.5,1,3\n2.5,0,4\n")
    x, y = load(path, target="label")
    assert (x.dtype, x.tolist()) == (np.float32, [[1.5, 3], [2.5, 4]])
    assert (y.dtype.kind, y.tolist()) == ("i", [1, 0])
    assert load_column(str(path), "weight").tolist() == [3, 4]


def test_an_npz_is_x_and_the_target(tmp_path: Path) -> None:
    path = npz(tmp_path, x=np.ones((2, 3, 3)), y=[0, 1], label=[5, 6])
    x, y = load(path)
    assert (x.shape, y.tolist()) == ((2, 3, 3), [0, 1])
    assert load(path, target="label")[1].tolist() == [5, 6]


def test_a_file_of_one_row_is_a_client_with_one_sample(tmp_path: Path) -> None:
    x, y = load(csv(tmp_path, "a,y\n1,2\n"))
    assert (x.tolist(), y.tolist()) == ([[1.0]], [2])


def test_targets_may_be_words_and_inputs_may_not(tmp_path: Path) -> None:
    path = csv(tmp_path, "a,y\n1,cat\n2,dog\n")
    assert load(path)[1].tolist() == ["cat", "dog"]
    with pytest.raises(WorkloadError, match=r"data\.csv: column 'y' is not numeric"):
        load(path, target="a")


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("data.csv", None, "no such file"),
        ("data.npz", None, "no such file"),
        ("data.txt", b"a,y\n1,2\n", "a file that ends in .npz, .csv or .parquet"),
        ("data.csv", b"", "cannot be read: it is empty"),
        ("data.csv", b"\n\n", "cannot be read: it is empty"),
        ("data.csv", b"\xff\xfe\x00", "cannot be read: 'utf-8' codec"),
        (
            "data.csv",
            b"a,y\n1,2\n1,2,3\n",
            "line 3 has 3 values; the first line names 2",
        ),
        ("data.csv", b"a,y\n1,2\n\n1\n", "line 4 has 1 values"),
        ("data.csv", b"a,a,y\n1,2,3\n", "two columns are named 'a'"),
        ("data.csv", b",a,y\n1,2,3\n", "column 1 has no name in line 1"),
        ("data.csv", b"a,y\n", "there are no rows in 'y'"),
        ("data.csv", b"a,y\n1,1\nnan,1\n", "column 'a' is not finite in line 3"),
        ("data.csv", b"a,y\n1,0.5\n1,-inf\n", "column 'y' is not finite in line 3"),
        ("data.csv", b"a,y\n1,1\n2,1\nNA,1\n", "is not numeric: 'NA' in line 4"),
        ("data.csv", b'a,y\n"1,1\n', "cannot be read: line 2"),
        ("data.csv", b"a,b\n1,2\n", "no column 'y'; it has a, b"),
        ("data.csv", b"y\n1\n2\n", "no column beside 'y'"),
        ("data.csv", b"a,y\n1,1\n2,\n", "column 'y' has no value in line 3"),
        ("data.csv", b"a,y\n,1\n2,2\n", "column 'a' has no value in line 2"),
        ("data.npz", b"", "cannot be read: "),
        ("data.npz", b"PK\x03\x04junk", "cannot be read: "),
        ("data.npz", b"junk", "cannot be read: "),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_the_reason(
    name: str, content: bytes | None, sentence: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(WorkloadError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_names_and_values_of_a_csv_are_taken_as_they_are_written(
    tmp_path: Path,
) -> None:
    path = csv(tmp_path, 'heart rate, the "y"\n\n60,"cat, black"\n"61","dog"\n')
    x, y = load(path, target='the "y"')
    assert (x.tolist(), y.tolist()) == ([[60], [61]], ["cat, black", "dog"])


def test_inputs_may_be_named(tmp_path: Path) -> None:
    path = csv(tmp_path, "who,a,b,y\nann,1,2,0\nbob,3,4,1\n")
    x, _ = load(path, inputs=["b", "a"])
    assert x.tolist() == [[2, 1], [4, 3]]
    archive = npz(tmp_path, a=[[1.0], [2.0]], b=[3, 4], y=[0, 1])
    x, y = load(archive, inputs=["b"])
    assert (list(x), x["b"].tolist(), y.tolist()) == (["b"], [3, 4], [0, 1])


def test_an_npz_has_as_many_inputs_as_targets(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="'x' has 3 rows, 'y' has 2"):
        load(npz(tmp_path, x=[1, 2, 3], y=[0, 1]))
    with pytest.raises(WorkloadError, match="there are no rows in 'y'"):
        load(npz(tmp_path, x=[1, 2, 3], y=0))


def test_an_npz_without_inputs_says_what_it_has(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="no column 'x'; it has images, y"):
        load(npz(tmp_path, images=[1], y=[1]))


def test_a_gap_in_another_column_does_not_matter(tmp_path: Path) -> None:
    path = csv(tmp_path, "a,writer\n,ann\n2,bob\n")
    assert load_column(path, "writer").tolist() == ["ann", "bob"]


@given(st.binary(max_size=60), st.sampled_from(["x.csv", "x.npz"]))
def test_any_bytes_are_data_or_a_workload_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, name: str
) -> None:
    path = tmp_path_factory.mktemp("data") / name
    path.write_bytes(content)
    try:
        x, y = load(path)
    except WorkloadError:
        return
    assert len(x) == len(y)


def test_a_client_has_the_file_of_its_name_or_else_of_its_place(tmp_path: Path) -> None:
    for name in ("ann.npz", "bob.csv", "notes.txt"):
        (tmp_path / name).touch()
    assert client_file(tmp_path, Client("bob", 0, 2)).name == "bob.csv"
    assert client_file(str(tmp_path), Client("carl", 1, 2)).name == "bob.csv"
    assert client_file(tmp_path, Client("carl", 0, 2)).name == "ann.npz"
    with pytest.raises(
        WorkloadError, match=r"nothing for client 'carl'; found ann\.npz, bob\.csv"
    ):
        client_file(tmp_path, Client("carl", 2, 3))


def test_an_empty_folder_has_nothing_for_anyone(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match=r"found no \.npz, \.csv or \.parquet file"):
        client_file(tmp_path, Client("ann"))
