"""The digits that ship with the package."""

import numpy as np

from fedrun.data import digits


def test_there_are_1347_images_to_train_and_450_to_test() -> None:
    for split, rows in (("train", 1347), ("test", 450)):
        x, y = digits("train" if split == "train" else "test")
        assert (x.shape, x.dtype.name) == ((rows, 64), "float32")
        assert (y.shape, y.dtype.name) == ((rows,), "int64")


def test_both_splits_hold_three_to_one_of_every_digit() -> None:
    train, test = (np.bincount(digits(s)[1], minlength=10) for s in ("train", "test"))
    assert len(train) == len(test) == 10
    assert np.abs(train - 3 * test).max() <= 4


def test_the_mean_of_the_training_images_is_subtracted() -> None:
    x, _ = digits("train")
    assert np.abs(x.mean(axis=0)).max() < 1e-5
    assert np.abs(digits("test")[0].mean(axis=0)).max() > 1e-3


def test_the_splits_share_no_image_but_for_a_few_that_are_there_twice() -> None:
    train = {row.tobytes() for row in digits("train")[0]}
    assert sum(row.tobytes() in train for row in digits("test")[0]) < 5


def test_whoever_changes_the_arrays_changes_them_for_nobody_else() -> None:
    x, y = digits("train")
    x *= 0
    y += 1
    assert digits("train")[0].any()
    assert digits("train")[1].max() == 9
