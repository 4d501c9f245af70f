"""A shuffle, cut into equal parts."""

import numpy as np

from fedcore.partitions import iid


def test_sizes_differ_by_at_most_one() -> None:
    assert [len(part) for part in iid(np.zeros(11), clients=3)] == [4, 4, 3]


def test_every_client_has_about_the_labels_of_all() -> None:
    y = np.arange(10_000) % 10
    for part in iid(y, clients=10):
        assert np.bincount(y[part], minlength=10).min() > 60
