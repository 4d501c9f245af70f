"""Data sets in a folder that the user points at."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcore.errors import WorkloadError
from fedcore.partitions import by_column
from fedrun.data import fashion_mnist, shoulder_smartwatch

LOADERS = [fashion_mnist, shoulder_smartwatch]
RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (6, 28, 28), np.uint8)
LABELS = np.array([0, 1, 2, 9, 9, 1], np.uint8)


def clothes(folder: Path) -> Path:
    np.savez(
        folder / "fashion_mnist.npz",
        x_train=PIXELS,
        y_train=LABELS,
        x_test=PIXELS[:2],
        y_test=LABELS[:2],
    )
    return folder


def exercises(folder: Path) -> Path:
    """Two people, two exercises, ten windows of each."""
    client = np.repeat([3, 7], 20)
    y = np.tile(np.repeat([0, 1], 10), 2)
    x = np.zeros((40, 100, 6), np.int16)
    x[:, :, :] = np.arange(40)[:, None, None]
    scale = np.full(6, 0.5, np.float32)
    np.savez(folder / "shoulder_smartwatch.npz", x=x, y=y, client=client, scale=scale)
    return folder


def test_images_are_scaled_and_shared(tmp_path: Path) -> None:
    x, y = fashion_mnist("train", folder=clothes(tmp_path))
    assert (x.shape, x.dtype.name) == ((6, 1, 28, 28), "float32")
    assert x.max() <= 1
    assert x[0, 0, 0, 0] == np.float32(PIXELS[0, 0, 0]) / np.float32(255)
    assert (y.dtype.name, y.tolist()) == ("int64", LABELS.tolist())
    again, _ = fashion_mnist("train", folder=str(tmp_path))
    assert again is x
    with pytest.raises(ValueError, match="read-only"):
        x[0] = 0
    assert len(fashion_mnist("test", folder=tmp_path)[1]) == 2


def test_the_authors_files_give_the_same_images(tmp_path: Path) -> None:
    (tmp_path / "npz").mkdir()
    expected = fashion_mnist("test", folder=clothes(tmp_path / "npz"))
    for name, header, array in (
        ("images-idx3", 16, PIXELS[:2]),
        ("labels-idx1", 8, LABELS[:2]),
    ):
        with gzip.open(tmp_path / f"t10k-{name}-ubyte.gz", "wb") as file:
            file.write(bytes(header) + array.tobytes())
    found = fashion_mnist("test", folder=tmp_path)
    assert np.array_equal(found[0], expected[0])
    assert np.array_equal(found[1], expected[1])


def test_each_persons_last_windows_are_the_test_and_one_is_left_out(
    tmp_path: Path,
) -> None:
    train = shoulder_smartwatch("train", folder=exercises(tmp_path))
    test = shoulder_smartwatch("test", folder=tmp_path)
    assert (train.x.shape, train.x.dtype.name) == ((32, 6, 100), "float32")
    assert [len(part) for part in by_column(train.people)] == [16, 16]
    assert np.bincount(train.y).tolist() == [16, 16]
    # Values count the windows: scaled by a half, the gyroscope by an eighth.
    assert (2 * test.x[:, 0, 0]).tolist() == [9, 19, 29, 39]
    assert (8 * test.x[:, 3, 0]).tolist() == [9, 19, 29, 39]
    assert not {8, 18, 28, 38} & set((2 * train.x[:, 0, 0]).tolist())
    assert shoulder_smartwatch("train", folder=tmp_path) is train


@pytest.mark.parametrize("loader", LOADERS)
def test_without_a_folder_a_sentence_says_how_to_name_one(
    loader: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LATECOMER_DATA", raising=False)
    with pytest.raises(
        WorkloadError,
        match=r"by folder= or by .* LATECOMER_DATA; nothing is downloaded",
    ):
        loader("train")
    monkeypatch.setenv("LATECOMER_DATA", str(tmp_path))
    name = f"{loader.__name__}.npz"
    with pytest.raises(WorkloadError, match=f"{name}: no such file; nothing is"):
        loader("train")


@pytest.mark.parametrize("loader", LOADERS)
def test_the_environment_names_the_folder(
    loader: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exercises(clothes(tmp_path))
    monkeypatch.setenv("LATECOMER_DATA", str(tmp_path))
    assert len(loader("train")[1]) in (6, 32)


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("content", [b"", b"junk", b"PK\x03\x04junk"])
def test_what_is_something_else_is_told_with_what_is_wanted(
    loader: Any, content: bytes, tmp_path: Path
) -> None:
    (tmp_path / f"{loader.__name__}.npz").write_bytes(content)
    with pytest.raises(WorkloadError, match=r"\.npz: cannot be read: .*y"):
        loader("train", folder=tmp_path)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(content)
    with pytest.raises(WorkloadError, match=r"cannot be read: .*y"):
        loader("train", folder=tmp_path)


@pytest.mark.parametrize("loader", LOADERS)
def test_there_are_two_splits(loader: Any, tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="has 'train' and 'test', no 'valid'"):
        loader("valid", folder=exercises(clothes(tmp_path)))


def test_images_of_another_shape_are_told(tmp_path: Path) -> None:
    np.savez(tmp_path / "fashion_mnist.npz", x_train=PIXELS[:, :8], y_train=LABELS)
    with pytest.raises(WorkloadError, match=r"expected images \(N, 28, 28\)"):
        fashion_mnist("train", folder=tmp_path)


@pytest.mark.needs_data("fashion_mnist.npz")
def test_the_real_images_are_there() -> None:
    for split, rows in (("train", 60_000), ("test", 10_000)):
        x, y = fashion_mnist("train" if split == "train" else "test")
        assert x.shape == (rows, 1, 28, 28)
        assert np.bincount(y).tolist() == [rows // 10] * 10


@pytest.mark.needs_data("shoulder_smartwatch.npz")
def test_the_real_exercises_are_there() -> None:
    train, test = shoulder_smartwatch("train"), shoulder_smartwatch("test")
    assert np.unique(train.people).tolist() == list(range(1, 11))
    # A window of each person and exercise is in neither.
    assert len(train.y) + len(test.y) + 70 == 4677
