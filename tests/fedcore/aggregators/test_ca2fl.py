"""CA2FL: each version moves by all clients' last updates."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import latecomer
from fedcore.aggregators import CA2FL, Contribution
from fedcore.compressors import TopK
from fedcore.params import ParamSpec
from fedcore.payloads import decode, dense_payload
from fedcore.rng import Key
from fedcore.typing import Array, State
from fedrun.journal import Journal, verify
from tests.fedsim import toys

DIM = 4


def one(*values: float) -> Array:
    return np.array(values, np.float32)


def version(state: State, clients: int, *updates: tuple[str, Array]) -> tuple[Any, Any]:
    """What a version moves the model by, and the state after it."""
    rule = CA2FL().build()
    for client, delta_D in updates:
        payload = dense_payload(delta_D)
        update = Contribution(payload, 1.0, 1.0, None, client, clients)
        state = rule.accumulate(state, update)
    moved_D = rule.finalize(state, float(len(updates)))
    assert rule.carry is not None
    return moved_D, rule.carry(state)


def test_the_paper_by_hand() -> None:
    state = CA2FL().build().init(2)
    # Nothing is cached: v = mean(Δ).
    moved_D, state = version(state, 4, ("a", one(4, 0)), ("b", one(0, 8)))
    assert moved_D.tolist() == [2, 4]
    # h = (4, 8) / 4; a alone: v = h + (Δ - h_a).
    moved_D, state = version(state, 4, ("a", one(6, 2)))
    assert moved_D.tolist() == [1 + 2, 2 + 2]
    # h = (6, 10) / 4; c for the first time: v = h + Δ.
    moved_D, state = version(state, 4, ("c", one(1, 1)))
    assert moved_D.tolist() == [1.5 + 1, 2.5 + 1]


def test_where_all_take_part_in_every_version_it_is_the_mean() -> None:
    rng, state = np.random.default_rng(0), CA2FL().build().init(DIM)
    for _ in range(5):
        updates = [(str(i), rng.normal(size=DIM).astype(np.float32)) for i in range(3)]
        moved_D, state = version(state, 3, *updates)
        mean_D = np.mean([delta_D for _, delta_D in updates], axis=0)
        np.testing.assert_allclose(moved_D, mean_D, rtol=1e-4, atol=1e-6)


def test_a_huge_update_that_came_and_went_leaves_nothing_behind() -> None:
    state = CA2FL().build().init(1)
    _, state = version(state, 2, ("a", one(0.25)), ("b", one(0.5)))
    _, state = version(state, 2, ("b", one(2.0**100)))
    _, state = version(state, 2, ("b", one(0.5)))
    moved_D, state = version(state, 2, ("a", one(0.25)))
    assert moved_D.tolist() == [0.375]


def test_a_client_that_comes_twice_is_calibrated_by_what_was_cached_before() -> None:
    state = CA2FL().build().init(1)
    _, state = version(state, 2, ("a", one(4)))
    moved_D, state = version(state, 2, ("a", one(6)), ("a", one(10)))
    assert moved_D.tolist() == [4 / 2 + ((6 - 4) + (10 - 4)) / 2]
    assert state.known.total_D.tolist() == [10]


def test_updates_are_cached_as_they_came() -> None:
    layout = (96, 4)
    spec = ParamSpec.of({str(i): np.zeros(size) for i, size in enumerate(layout)})
    rule = CA2FL().build_for(spec)
    delta_D = np.arange(100, dtype=np.float32)
    uplink = TopK(ratio=0.05).build(layout)
    payload, _ = uplink.encode(delta_D, None, Key.root(0))
    state = rule.init(100)
    update = Contribution(payload, 1.0, 1.0, None, "a", 1)
    assert rule.carry is not None
    state = rule.carry(rule.accumulate(state, update))
    assert len(state.known.last["a"]) < 50
    np.testing.assert_array_equal(state.known.total_D, decode(payload))


def settings(engine: str, **algorithm: Any) -> dict[str, Any]:
    return toys.settings(
        algorithm={"aggregator": {"kind": "ca2fl"}, **algorithm},
        simulate={
            "clients": 8,
            "speed": {"kind": "log_normal", "sigma": 1.0},
            "engine": {"kind": engine},
        },
        stop={"versions": 20},
    )


CODED = {
    "uplink": {"kind": "error_feedback", "inner": {"kind": "top_k", "ratio": 0.3}},
    "downlink": {"kind": "top_k", "ratio": 0.5},
}


@pytest.mark.parametrize("more", [{}, CODED], ids=["raw", "coded"])
def test_both_engines_and_a_replay_come_to_the_same(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    found = {}
    for engine in ("exact", "stacked"):
        folder = tmp_path / engine
        found[engine] = latecomer.run(
            settings(engine, **more), toys.linear(), folder=folder
        )
    exact, stacked = found["exact"], found["stacked"]
    assert stacked.updates["verdict"] == exact.updates["verdict"]
    np.testing.assert_allclose(
        stacked.central["loss"], exact.central["loss"], rtol=1e-4
    )
    journal = Journal.open(tmp_path / "exact", read_only=True)
    try:
        assert verify(journal).versions == 20
    finally:
        journal.close()
