"""One client alone holds a class: Damaskinos et al., Middleware 2020, §3.2."""

import numpy as np
import pytest

from fedcore.errors import ConfigError
from fedcore.partitions import lone_class

Y = np.random.default_rng(0).permutation(np.arange(500) % 10)


def test_client_zero_has_all_of_the_class_and_nothing_else() -> None:
    parts = lone_class(Y, clients=20, label=3)
    assert parts[0].tolist() == np.flatnonzero(Y == 3).tolist()
    assert not any(3 in Y[part] for part in parts[1:])


def test_the_others_have_shards_of_the_rest() -> None:
    parts = lone_class(Y, clients=20, label=3)
    assert max(len(set(Y[part].tolist())) for part in parts[1:]) <= 4
    assert sum(map(len, parts[1:])) == 450


@pytest.mark.parametrize(("clients", "label"), [(1, 3), (5, 99)])
def test_it_needs_two_clients_and_the_class(clients: int, label: int) -> None:
    with pytest.raises(ConfigError, match=f"needs 2 clients and rows of label {label}"):
        lone_class(Y, clients=clients, label=label)
