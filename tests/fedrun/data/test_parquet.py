"""Parquet, by pyarrow."""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcore.errors import ConfigError, WorkloadError
from fedrun.data import load, load_column

needs_pyarrow = pytest.mark.needs("pyarrow")


def parquet(folder: Path, **columns: Any) -> Path:
    arrow = import_module("pyarrow")
    path = folder / "data.parquet"
    import_module("pyarrow.parquet").write_table(arrow.table(columns), path)
    return path


@needs_pyarrow
def test_a_parquet_is_its_columns_and_the_target(tmp_path: Path) -> None:
    path = parquet(tmp_path, height=[1.5, 2.5], label=["cat", "dog"], weight=[3, 4])
    x, y = load(path, target="label")
    assert x.dtype == np.float32
    assert (x.tolist(), y.tolist()) == ([[1.5, 3], [2.5, 4]], ["cat", "dog"])
    assert load_column(path, "weight").tolist() == [3, 4]


@needs_pyarrow
@pytest.mark.parametrize("name", ["__index_level_0__", "when"])
def test_the_index_of_a_data_frame_is_no_input(name: str, tmp_path: Path) -> None:
    arrow = import_module("pyarrow")
    table = arrow.table({"a": [1.0, 2.0], "y": [0, 1], name: [700, 800]})
    # What pandas writes along; of an index that counts from 0 it is no column at all.
    told = json.dumps({"index_columns": [name, {"kind": "range"}], "columns": []})
    if name == "when":
        table = table.replace_schema_metadata({"pandas": told})
    path = tmp_path / "data.parquet"
    import_module("pyarrow.parquet").write_table(table, path)
    x, y = load(path)
    assert (x.tolist(), y.tolist()) == ([[1.0], [2.0]], [0, 1])
    assert load(path, inputs=[name])[0].tolist() == [[700.0], [800.0]]
    assert load_column(path, name).tolist() == [700, 800]


@pytest.mark.needs("pyarrow", "pandas")
def test_what_pandas_writes_is_read_without_its_index(tmp_path: Path) -> None:
    pandas = import_module("pandas")
    frame = pandas.DataFrame({"a": [1.0, 2.0, 3.0], "y": [0, 1, 0]})
    frame.iloc[[2, 0]].to_parquet(tmp_path / "data.parquet")
    x, y = load(tmp_path / "data.parquet")
    assert (x.tolist(), y.tolist()) == ([[3.0], [1.0]], [0, 0])


@needs_pyarrow
def test_lists_are_columns_and_keep_their_type_if_they_are_alone(
    tmp_path: Path,
) -> None:
    tokens = [[1, 2, 3], [4, 5, 6]]
    x, _ = load(parquet(tmp_path, tokens=tokens, y=[0, 1]))
    assert x.dtype == np.int64
    assert x.tolist() == tokens
    x, _ = load(parquet(tmp_path, tokens=tokens, a=[7.0, 8.0], y=[0, 1]))
    assert x.dtype == np.float32
    assert x.tolist() == [[1, 2, 3, 7], [4, 5, 6, 8]]
    images = np.arange(12).reshape(2, 3, 2).tolist()
    x, _ = load(parquet(tmp_path, images=images, y=[0, 1]))
    assert x.tolist() == images


@needs_pyarrow
@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"a": [1.0, None]}, "column 'a' has no value in row 2"),
        ({"a": [1.0, float("nan")]}, "column 'a' is not finite in row 2"),
        ({"a": [[1.0], [float("inf")]]}, "column 'a' is not finite in row 2"),
        ({"a": [[1], [2, 3]]}, "column 'a' is ragged: 2 values in row 2, 1 in row 1"),
        ({"a": [[1], None]}, "column 'a' has no value in row 2"),
        ({"a": ["1", "cat"]}, "column 'a' is not numeric: 'cat' in row 2"),
        ({"a": [{"b": 1}, {"b": 2}]}, "allowed are numbers, words and lists of them"),
        ({"b": [1, 2]}, "no column 'a'; it has b, y"),
    ],
)
def test_a_column_that_cannot_be_used_is_named_with_the_place(
    columns: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    path = parquet(tmp_path, **columns, y=[0, 1])
    with pytest.raises(WorkloadError) as caught:
        load(path, inputs=["a"])
    assert str(caught.value).startswith(f"{path}: ")
    assert sentence in str(caught.value)


@needs_pyarrow
def test_a_parquet_without_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="there are no rows in 'y'"):
        load(parquet(tmp_path, a=[], y=[]))


@needs_pyarrow
def test_what_is_no_parquet_is_told(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    path.write_bytes(b"junk")
    with pytest.raises(WorkloadError, match=r"data\.parquet: cannot be read: "):
        load(path)


def test_without_pyarrow_a_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "data.parquet"
    path.touch()
    monkeypatch.setattr("fedrun.optional.is_installed", lambda module: False)
    monkeypatch.delitem(sys.modules, "pyarrow", raising=False)
    with pytest.raises(
        ConfigError, match=r"Parquet needs the package pyarrow: .*latecomer\[frames\]"
    ):
        load(path)
