"""Our recipes in the rounds of Flower's own loop, and inside its wrappers."""

from typing import Any

import numpy as np
import pytest

from fedcore.errors import ConfigError

pytest.importorskip("flwr.app")
from flwr.app import ConfigRecord
from flwr.serverapp.strategy import (
    DifferentialPrivacyServerSideFixedClipping,
    FedAvg,
)

from benchmarks.flower.virtual_grid import VirtualGrid, VirtualTime, jitter
from fedflower.strategy import Latecomer
from tests.fedflower.strategy.app import CONFIG, NODES, client_app, initial_arrays

pytestmark = pytest.mark.needs("flwr")


def grid() -> VirtualGrid:
    return VirtualGrid(
        client_app(), VirtualTime(), list(NODES), jitter(0), config=CONFIG
    )


def arrays(result: Any) -> list[Any]:
    return [array.numpy() for array in result.arrays.values()]


def test_fed_avg_is_flowers_fed_avg() -> None:
    mine = Latecomer(kind="fed_avg", buffer=4, synchronous=True)
    theirs = FedAvg(min_train_nodes=4, min_evaluate_nodes=4, min_available_nodes=4)
    ours = mine.start(grid(), initial_arrays(), 3)
    flowers = theirs.start(grid(), initial_arrays(), 3)
    for one, other in zip(arrays(ours), arrays(flowers), strict=True):
        assert np.allclose(one, other, atol=1e-6)
    for version in (1, 2, 3):
        for name in ("train_metrics_clientapp", "evaluate_metrics_clientapp"):
            one = getattr(ours, name)[version]
            other = getattr(flowers, name)[version]
            assert one.keys() == other.keys()
            assert all(abs(one[k] - other[k]) < 1e-5 for k in one)


@pytest.mark.parametrize("kind", ["fed_adam", "fed_avg"])
def test_a_server_optimiser_keeps_its_state_between_rounds(kind: str) -> None:
    def new() -> Any:
        return Latecomer(kind=kind, buffer=4, synchronous=True, evaluate_nodes=False)

    def rounds(strategies: list[Any]) -> list[Any]:
        nodes, model = grid(), initial_arrays()
        for number, strategy in enumerate(strategies, 1):
            config = ConfigRecord()
            messages = strategy.configure_train(number, model, config, nodes)
            replies = nodes.send_and_receive(messages)
            model, _ = strategy.aggregate_train(number, replies)
        return [array.numpy() for array in model.values()]

    one = new()
    kept, anew = rounds([one] * 3), rounds([new() for _ in range(3)])
    is_same = all(np.allclose(a, b, atol=1e-6) for a, b in zip(kept, anew, strict=True))
    assert is_same == (kind == "fed_avg")  # which keeps nothing


def test_a_wrapper_for_differential_privacy_clips_and_adds_noise() -> None:
    def run(noise: float, clip: float) -> list[Any]:
        inner = Latecomer(
            kind="fed_avg", buffer=4, synchronous=True, evaluate_nodes=False
        )
        strategy = DifferentialPrivacyServerSideFixedClipping(
            inner, noise_multiplier=noise, clipping_norm=clip, num_sampled_clients=4
        )
        return arrays(strategy.start(grid(), initial_arrays(), 2))

    free = run(0.0, 1e6)
    plain = Latecomer(
        kind="fed_avg", buffer=4, synchronous=True, evaluate_nodes=False
    ).start(grid(), initial_arrays(), 2)
    for one, other in zip(free, arrays(plain), strict=True):
        assert np.allclose(one, other, atol=1e-6)
    start = [array.numpy() for array in initial_arrays().values()]

    def distance(model: list[Any]) -> float:
        pairs = zip(model, start, strict=True)
        return float(np.sqrt(sum(((one - other) ** 2).sum() for one, other in pairs)))

    moved = distance(run(0.0, 0.01)), distance(free)
    assert moved[0] <= 0.02 + 1e-6 < moved[1]


def test_a_node_whose_reply_cannot_be_used_is_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    nodes = grid()
    nodes.fate = lambda node, nth: "error" if node == NODES[0] else "fine"
    strategy = Latecomer(
        kind="fed_avg", buffer=4, synchronous=True, evaluate_nodes=False
    )
    result = strategy.start(nodes, initial_arrays(), 2)
    assert "node 11 failed: ValueError: no luck" in caplog.text
    assert [*result.train_metrics_clientapp] == [1, 2]


def test_rounds_that_were_not_configured_are_refused() -> None:
    strategy = Latecomer(kind="fed_avg", synchronous=True)
    with pytest.raises(ConfigError, match="aggregate_train came before"):
        strategy.aggregate_train(1, [])
