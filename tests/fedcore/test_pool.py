"""The samples of many clients in one place."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcore.errors import WorkloadError
from fedcore.pool import Pool
from fedcore.samples import ArraySamples, Subset, take_rows
from fedcore.samples.rows import whole_numbers

X = np.arange(16.0).reshape(8, 2)
Y = np.arange(8) % 3
HOLDINGS = st.lists(
    st.tuples(st.lists(st.integers(0, 7), min_size=1, max_size=5), st.booleans()),
    min_size=1,
    max_size=12,
)


@given(HOLDINGS)
def test_whatever_clients_hand_out_they_have_the_samples_that_they_had(
    holdings: list[tuple[list[int], bool]],
) -> None:
    pool = Pool()
    for client, (rows, shares) in enumerate(holdings):
        subset = Subset(X, Y, np.array(rows))
        pool.add(client, subset if shares else ArraySamples(X[rows], Y[rows]))
    for client, (rows, _) in enumerate(holdings):
        assert pool.size(client) == len(rows)
        x, y = pool.whole.batch(pool.rows_of(client))
        assert (x.tolist(), y.tolist()) == (X[rows].tolist(), Y[rows].tolist())
        counts = pool.counts(client)
        assert counts is not None
        assert counts.tolist() == np.bincount(Y[rows]).tolist()
    clients = range(len(holdings))
    first_N1 = pool.whole.rows(clients, np.zeros((len(clients), 1), np.int64))
    _, first_N1 = pool.whole.batch(first_N1)
    assert first_N1[:, 0].tolist() == [Y[rows[0]] for rows, _ in holdings]


def test_rows_are_the_pools_own() -> None:
    pool, rows = Pool(), np.array([1, 2])
    for client in range(9):  # one array, which the user's function fills anew
        rows[:] = client % 8, 0
        pool.add(client, Subset(X, Y, rows))
    assert [pool.rows_of(client)[0] for client in range(9)] == [*range(8), 0]


OTHERS = {
    "shape": (X[:, :1], Y),
    "dimensions": (X[:, :, None], Y),
    "numbers": (X.astype(np.float32), Y),
    "whole numbers": (X.astype(np.int64), Y),
    "words": (X.astype("U3"), Y),
    "targets": (X, Y.astype(np.float32)),
    "shape of targets": (X, np.stack([Y, Y], axis=1)),
    "dict": ({"a": X}, Y),
    "keys": ({"b": X}, Y),
    "more keys": ({"a": X, "b": X}, Y),
    "tuple": ((X,), Y),
    "length": ((X, X), Y),
    "in a dict": ({"a": X[:, :1]}, Y),
}


def same(data: Any, expected: Any) -> bool:
    if isinstance(expected, dict):
        names = data.keys() == expected.keys()
        return names and all(same(data[name], expected[name]) for name in expected)
    if isinstance(expected, tuple):
        return len(data) == len(expected) and all(map(same, data, expected))
    return data.dtype == expected.dtype and np.array_equal(data, expected)


@given(st.permutations([*OTHERS, "usual"]), st.lists(st.booleans(), min_size=14))
def test_whatever_one_client_has_the_others_have_what_they_had(
    names: list[str], share: list[bool]
) -> None:
    pool, held = Pool(), {}
    for client, name in enumerate([*names, *names]):
        x, y = OTHERS.get(name, (X, Y))
        rows = np.arange(client % 3, 8)
        held[client] = take_rows(x, rows), whole_numbers(take_rows(y, rows))
        shares = share[client % len(share)]
        pool.add(client, Subset(x, y, rows) if shares else ArraySamples(*held[client]))
    for client, expected in held.items():
        samples = pool.samples_of(client)
        assert same(samples.batch(np.arange(len(samples))), expected)
        assert pool.part_of(client).number == client % len(names)
    assert pool.is_mixed
    assert not pool.are_read([0, len(names)])
    assert pool.are_read([0, 1])


def test_samples_of_several_forms_are_no_whole() -> None:
    pool = Pool()
    pool.add(0, ArraySamples(X, Y))
    pool.add(1, ArraySamples({"a": X}, Y))
    words = r"\(x \(2,\), y \(\)\) and \(x {'a': \(2,\)}, y \(\)\)"
    with pytest.raises(WorkloadError, match=words):
        _ = pool.whole


def test_tensors_that_clients_do_not_share_are_copied_as_arrays() -> None:
    torch = pytest.importorskip("torch")
    x, y = torch.arange(8.0).reshape(4, 2), torch.tensor([0, 1, 0, 1])
    pool = Pool()
    pool.add(0, Subset(x, y, np.array([2, 3])))
    pool.add(1, ArraySamples(np.ones((1, 2), np.float32), np.array([1])))
    found_x, found_y = pool.whole.batch(
        pool.whole.rows([0, 1], np.zeros((2, 1), np.int64))
    )
    assert (found_x[:, 0].tolist(), found_y[:, 0].tolist()) == (
        [[4, 5], [1, 1]],
        [0, 1],
    )


def test_arrays_are_shared_until_a_client_has_others() -> None:
    pool, x, y = Pool(), np.arange(8.0).reshape(4, 2), np.array([0, 1, 0, 1])
    pool.add(0, Subset(x, y, np.array([1, 2])))
    shared = pool.shared
    assert shared is not None
    assert shared[0] is x
    assert shared[1] is y
    pool.add(1, Subset(x.copy(), y, np.array([3])))
    assert pool.shared is None
