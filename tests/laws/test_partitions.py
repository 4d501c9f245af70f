"""The laws that every partitioner keeps."""

import inspect
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcore import partitions
from fedcore.errors import ConfigError
from fedcore.partitions import (
    Partition,
    balanced_dirichlet,
    by_column,
    dirichlet,
    iid,
    k_classes,
    lone_class,
    quantity_skew,
    shards,
)
from fedcore.partitions.base import REMEMBERED
from fedcore.typing import Counts

Partitioner = Callable[[Counts, int, int], Partition]

# Each as a function of (labels, clients, seed).
PARTITIONERS: dict[str, Partitioner] = {
    "balanced_dirichlet": lambda y, clients, seed: balanced_dirichlet(
        y, clients=clients, alpha=0.2, seed=seed
    ),
    "by_column": lambda y, clients, seed: by_column(y),
    "dirichlet": lambda y, clients, seed: dirichlet(
        y, clients=clients, alpha=0.5, seed=seed
    ),
    "iid": lambda y, clients, seed: iid(y, clients=clients, seed=seed),
    "k_classes": lambda y, clients, seed: k_classes(y, clients=clients, seed=seed),
    "lone_class": lambda y, clients, seed: lone_class(
        y, clients=clients, label=3, seed=seed
    ),
    "quantity_skew": lambda y, clients, seed: quantity_skew(
        y, clients=clients, alpha=0.5, seed=seed
    ),
    "quantity_skew, log-normal": lambda y, clients, seed: quantity_skew(
        y, clients=clients, sigma=1.0, seed=seed
    ),
    "quantity_skew, Zipf": lambda y, clients, seed: quantity_skew(
        y, clients=clients, exponent=1.0, seed=seed
    ),
    "shards": lambda y, clients, seed: shards(y, clients=clients, seed=seed),
}
NO_PARTITIONER = {"feature_noise"}  # it changes features, and shares out nothing
RANDOM = [name for name in PARTITIONERS if name != "by_column"]
LEAVES_ROWS = {"k_classes"}  # where clients are fewer than classes
every_partitioner = pytest.mark.parametrize("name", PARTITIONERS)
# At least four rows of each of five classes: enough for eight clients.
labels = st.lists(st.integers(0, 4), max_size=40).map(
    lambda more: np.random.default_rng(len(more)).permutation([*range(5)] * 4 + more)
)


def rows(parts: Partition) -> list[list[int]]:
    """Parts as lists, to compare them."""
    return [part.tolist() for part in parts]


def test_every_partitioner_is_tried_here() -> None:
    known = {
        name for name, value in vars(partitions).items() if inspect.isfunction(value)
    }
    tried = {name.partition(",")[0] for name in PARTITIONERS}
    assert known == tried | NO_PARTITIONER


@every_partitioner
@given(labels, st.integers(2, 8), st.integers(0, 2**16))
def test_every_row_belongs_to_exactly_one_client(
    name: str, y: Counts, clients: int, seed: int
) -> None:
    parts = PARTITIONERS[name](y, clients, seed)
    assert name == "by_column" or len(parts) == clients
    rows = np.sort(np.concatenate(parts)).tolist()
    if name in LEAVES_ROWS:
        assert rows == sorted(set(rows))
        assert set(rows) <= set(range(len(y)))
    else:
        assert rows == list(range(len(y)))


@every_partitioner
@given(labels, st.integers(2, 8), st.integers(0, 2**16))
def test_every_client_has_a_row(name: str, y: Counts, clients: int, seed: int) -> None:
    assert min(map(len, PARTITIONERS[name](y, clients, seed))) >= 1


@every_partitioner
@given(labels, st.integers(2, 8), st.integers(0, 2**16))
def test_rows_ascend_and_are_whole_numbers(
    name: str, y: Counts, clients: int, seed: int
) -> None:
    for part in PARTITIONERS[name](y, clients, seed):
        assert np.issubdtype(part.dtype, np.integer)
        assert bool((np.diff(part) > 0).all())


@every_partitioner
def test_every_client_can_compute_the_same_partition(name: str) -> None:
    y = np.arange(100) % 5
    y.setflags(write=False)
    first = rows(PARTITIONERS[name](y, 6, 3))
    for other in range(REMEMBERED):  # the first is forgotten, and computed again
        PARTITIONERS[name](np.arange(50 + other) % 5, 6, 3)
    assert rows(PARTITIONERS[name](y, 6, 3)) == first


@every_partitioner
def test_what_is_asked_again_is_not_computed_again(name: str) -> None:
    first = PARTITIONERS[name](np.arange(100) % 5, 6, 3)
    assert PARTITIONERS[name](np.arange(100) % 5, 6, 3) is first


@every_partitioner
def test_what_a_client_does_to_its_rows_is_its_own_business(name: str) -> None:
    y = np.arange(100) % 5
    mine = PARTITIONERS[name](y, 6, 3)[0]
    before = mine.tolist()
    mine[:] = 0
    assert PARTITIONERS[name](y, 6, 3)[0].tolist() == before


@pytest.mark.parametrize(
    "name", [n for n in PARTITIONERS if not n.startswith(("iid", "quantity_skew"))]
)
def test_labels_that_changed_in_place_are_other_labels(name: str) -> None:
    y = np.arange(100) % 5
    first = rows(PARTITIONERS[name](y, 6, 3))
    y[:] = np.arange(100) // 20
    assert rows(PARTITIONERS[name](y, 6, 3)) != first


@pytest.mark.parametrize("name", RANDOM)
def test_another_seed_gives_another_partition(name: str) -> None:
    y = np.arange(100) % 5
    found = {str(rows(PARTITIONERS[name](y, 6, seed))) for seed in range(8)}
    assert len(found) == 8


@pytest.mark.parametrize("name", RANDOM)
@pytest.mark.parametrize("clients", [0, -1, 101, 10**6])
def test_an_impossible_request_is_answered_with_a_sentence(
    name: str, clients: int
) -> None:
    with pytest.raises(ConfigError, match=r"\w+ \w+ \w+"):
        PARTITIONERS[name](np.arange(100) % 5, clients, 0)


@every_partitioner
def test_no_rows_at_all_are_refused(name: str) -> None:
    with pytest.raises(ConfigError):
        PARTITIONERS[name](np.empty(0, np.int64), 1, 0)
