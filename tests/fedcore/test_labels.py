"""How alike two sets of labels are."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcore.labels import add_labels, similarity

some = st.lists(st.integers(0, 100), max_size=6).map(lambda c: np.array(c, np.int64))


@given(some, some)
def test_the_similarity_is_a_share_and_does_not_depend_on_the_order(
    ours: np.ndarray, theirs: np.ndarray
) -> None:
    alike = similarity(ours, theirs.astype(float))
    assert 0 <= alike <= 1
    assert similarity(theirs, ours.astype(float)) == pytest.approx(alike)


def test_it_is_the_bhattacharyya_coefficient() -> None:
    # √(½·¼) + √(½·¾)
    alike = similarity(np.array([5, 5]), np.array([1.0, 3.0]))
    assert alike == pytest.approx(math.sqrt(1 / 8) + math.sqrt(3 / 8))


def test_labels_that_are_unknown_or_empty_are_like_all() -> None:
    seen_C = np.array([1.0, 3.0])
    assert similarity(None, seen_C) == 1
    assert similarity(np.array([0, 0]), seen_C) == 1
    assert similarity(np.array([1]), np.zeros(0)) == 1


def test_new_classes_make_room_for_themselves() -> None:
    labels_C = add_labels(np.array([1.0]), np.array([1, 0, 4]), 0.5)
    assert labels_C.tolist() == [1.5, 0, 2]
    assert add_labels(labels_C, None, 1.0) is labels_C
    assert add_labels(labels_C, np.array([1]), 1.0).tolist() == [2.5, 0, 2]
