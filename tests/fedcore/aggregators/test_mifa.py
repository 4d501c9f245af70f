"""MIFA: each version moves by the last updates of all clients."""

import numpy as np

from fedcore.aggregators import MIFA, Contribution
from fedcore.compressors import TopK
from fedcore.params import ParamSpec
from fedcore.payloads import decode, dense_payload
from fedcore.rng import Key
from fedcore.typing import Array, State


def one(*values: float) -> Array:
    return np.array(values, np.float32)


def version(
    state: State, *updates: tuple[str, Array], weight: float = 1.0, samples: float = 1.0
) -> tuple[Array, State]:
    """What a version moves the model by, and the state after it."""
    rule = MIFA().build()
    for client, delta_D in updates:
        payload = dense_payload(delta_D)
        update = Contribution(payload, weight, samples, None, client)
        state = rule.accumulate(state, update)
    moved_D = rule.finalize(state, samples * len(updates))
    assert rule.carry is not None
    return moved_D, rule.carry(state)


def test_the_paper_by_hand() -> None:
    state = MIFA().build().init(2)
    moved_D, state = version(state, ("a", one(4, 0)), ("b", one(0, 8)))
    assert moved_D.tolist() == [2, 4]
    # b is away, and counts by its last update.
    moved_D, state = version(state, ("a", one(6, 2)))
    assert moved_D.tolist() == [3, 5]
    # c comes for the first time: the mean is over three.
    moved_D, state = version(state, ("c", one(3, -1)))
    assert moved_D.tolist() == [3, 3]


def test_the_later_of_two_updates_of_a_client_counts() -> None:
    state = MIFA().build().init(1)
    moved_D, state = version(state, ("a", one(4)), ("a", one(10)), ("b", one(2)))
    assert moved_D.tolist() == [6]


def test_weights_and_samples_stay_with_the_update() -> None:
    state = MIFA().build().init(1)
    _, state = version(state, ("a", one(4)), weight=0.5, samples=3.0)
    # Σ λ·n·G = 6 + 2, and Σ n = 4.
    moved_D, state = version(state, ("b", one(2)))
    assert moved_D.tolist() == [2]
    moved_D, state = version(state, ("a", one(2)))
    assert moved_D.tolist() == [2]


def test_a_huge_update_that_came_and_went_leaves_nothing_behind() -> None:
    state = MIFA().build().init(2)
    moved_D, state = version(state, ("a", one(0.25, -3)), ("b", one(0.5, 1)))
    wanted_D = moved_D.tolist()
    _, state = version(state, ("b", one(2.0**100, -(2.0**99))))
    moved_D, state = version(state, ("b", one(0.5, 1)))
    assert moved_D.tolist() == wanted_D


def test_rounding_does_not_grow_with_the_number_of_updates() -> None:
    rule, rng = MIFA().build(), np.random.default_rng(0)
    state, last = rule.init(8), dict[str, Array]()
    for number in range(20_000):
        client = str(number % 3)
        last[client] = rng.normal(3.0, 1.0, 8).astype(np.float32)
        update = Contribution(dense_payload(last[client]), 1.0, 1.0, None, client)
        state = rule.accumulate(state, update)
    wanted_D = np.sum(list(last.values()), axis=0, dtype=np.float64)
    np.testing.assert_allclose(state.updates.total_D, wanted_D, rtol=1e-5)
    assert state.updates.rounded < 2**13 * state.updates.held


def test_updates_are_kept_as_they_came() -> None:
    layout = (96, 4)
    spec = ParamSpec.of({str(i): np.zeros(size) for i, size in enumerate(layout)})
    rule = MIFA().build_for(spec)
    delta_D = np.arange(100, dtype=np.float32)
    payload, _ = TopK(ratio=0.05).build(layout).encode(delta_D, None, Key.root(0))
    state = rule.accumulate(
        rule.init(100), Contribution(payload, 1.0, 1.0, None, "a", 1)
    )
    assert len(state.updates.last["a"]) < 50
    np.testing.assert_array_equal(state.updates.total_D, decode(payload))
