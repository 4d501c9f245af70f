"""Pathological label skew: Li et al., ICDE 2022, §4.1."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcore.errors import ConfigError
from fedcore.partitions import k_classes

Y = np.random.default_rng(0).permutation(np.arange(2000) % 10)


@given(st.integers(1, 60), st.integers(1, 10), st.integers(0, 99))
def test_every_client_has_exactly_so_many_classes(
    clients: int, per_client: int, seed: int
) -> None:
    parts = k_classes(Y, clients=clients, per_client=per_client, seed=seed)
    assert {len(set(Y[part].tolist())) for part in parts} == {per_client}


@given(st.integers(10, 60), st.integers(1, 10), st.integers(0, 99))
def test_every_class_has_equally_many_clients_to_one(
    clients: int, per_client: int, seed: int
) -> None:
    parts = k_classes(Y, clients=clients, per_client=per_client, seed=seed)
    holders = np.bincount(
        np.concatenate([np.unique(Y[part]) for part in parts]), minlength=10
    )
    assert holders.max() - holders.min() <= 1
    assert sum(map(len, parts)) == len(Y)


def test_a_class_is_shared_equally_among_those_who_have_it() -> None:
    for label in range(10):
        parts = k_classes(Y, clients=30, per_client=2)
        counts = np.array([(Y[part] == label).sum() for part in parts])
        assert np.ptp(counts[counts > 0]) <= 1


def test_clients_do_not_have_the_same_pairs() -> None:
    parts = k_classes(Y, clients=100, per_client=2)
    assert len({tuple(np.unique(Y[part])) for part in parts}) > 25


def test_what_few_clients_cannot_have_is_nobodys() -> None:
    parts = k_classes(Y, clients=3, per_client=2)
    assert sum(map(len, parts)) == 6 * 200


@pytest.mark.parametrize("per_client", [0, -1, 11])
def test_there_must_be_as_many_classes(per_client: int) -> None:
    with pytest.raises(ConfigError, match="per_client must be 1 to 10"):
        k_classes(Y, clients=3, per_client=per_client)


def test_a_class_too_small_to_be_shared_is_named() -> None:
    y = ["cat"] * 40 + ["dog"] * 3
    with pytest.raises(ConfigError, match="class dog has 3 rows for 5 clients"):
        k_classes(y, clients=10, per_client=1)
