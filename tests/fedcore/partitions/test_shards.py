"""Pathological label skew: McMahan et al., AISTATS 2017, §3."""

import numpy as np
import pytest

from fedcore.errors import ConfigError
from fedcore.partitions import shards

Y = np.random.default_rng(0).permutation(np.arange(1000) % 10)


def test_with_two_shards_most_clients_have_two_labels() -> None:
    parts = shards(Y, clients=50, per_client=2)
    labels = [len(set(Y[part].tolist())) for part in parts]
    assert max(labels) == 2
    assert labels.count(2) > 35


def test_all_clients_have_equally_many_rows() -> None:
    assert {len(part) for part in shards(Y, clients=50)} == {20}


def test_one_shard_of_one_label_each() -> None:
    parts = shards(Y, clients=10, per_client=1)
    assert sorted(int(Y[part][0]) for part in parts) == list(range(10))
    assert {len(set(Y[part].tolist())) for part in parts} == {1}


@pytest.mark.parametrize(
    ("clients", "per_client"), [(6, 2), (1, 11), (5, 0), (5, -1), (-1, -2)]
)
def test_shards_that_cannot_be_cut_are_refused(clients: int, per_client: int) -> None:
    with pytest.raises(ConfigError, match=r"10 rows cannot be cut into|at least 1"):
        shards(np.arange(10), clients=clients, per_client=per_client)
