"""The loop that trains small networks, of linear layers against formulas."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedcore.clients import Adaptive, Descent
from fedtorch.compiled import loop
from fedtorch.compiled.loop import Layer, Samples

pytestmark = pytest.mark.skipif(not loop.available, reason="the loop was not compiled")
PLAIN = Descent(0.1)


def linear(inputs: int, outputs: int, weight: int, bias: int = -1) -> Layer:
    return Layer((inputs, 1, 1), (outputs, 1, 1), weight=weight, bias=bias)


def network(sizes: list[int], biases: bool = True) -> tuple[list[Layer], int]:
    """With ReLU between them; weights and biases in turn, behind one another."""
    layers, at = list[Layer](), 0
    for inputs, outputs in pairwise(sizes):
        weight, at = at, at + inputs * outputs
        layer = linear(inputs, outputs, weight, at if biases else -1)
        layers.append(layer._replace(rectified=len(layers) + 2 < len(sizes)))
        at += outputs * biases
    return layers, at


def drawn(net: list[Layer], clients: int, steps: int, batch: int, seed: int) -> Samples:
    """Ragged batches, and clients with fewer steps than others."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(30, net[0].inputs[0])).astype(np.float32)
    sizes_NS = rng.integers(1, batch + 1, (clients, steps))
    sizes_NS[np.arange(steps) >= rng.integers(1, steps + 1, clients)[:, None]] = 0
    rows_NSB = rng.integers(0, 30, (clients, steps, batch))
    return Samples(x, rng.integers(0, net[-1].outputs[0], 30), rows_NSB, sizes_NS)


def gradient(net: list[Layer], w_D: Any, x: Any, y: Any) -> tuple[float, Any]:
    """In double precision, from the formulas."""
    layers, hidden = [], [x.astype(np.float64)]
    for layer in net:
        inputs, outputs = layer.inputs[0], layer.outputs[0]
        matrix = w_D[layer.weight : layer.weight + inputs * outputs]
        layers.append(matrix.reshape(outputs, inputs))
        z = hidden[-1] @ layers[-1].T
        if layer.bias >= 0:
            z += w_D[layer.bias : layer.bias + outputs]
        hidden.append(np.maximum(z, 0) if layer.rectified else z)
    z = hidden.pop()
    z -= z.max(axis=1, keepdims=True)
    rows, sums = np.arange(len(y)), np.exp(z).sum(axis=1)
    g = np.exp(z) / sums[:, None]
    g[rows, y] -= 1
    g /= len(y)
    g_D = np.zeros_like(w_D)
    for layer, matrix, h in zip(net[::-1], layers[::-1], hidden[::-1], strict=True):
        g_D[layer.weight : layer.weight + matrix.size] = (g.T @ h).ravel()
        if layer.bias >= 0:
            g_D[layer.bias : layer.bias + len(matrix)] = g.sum(axis=0)
        g = (g @ matrix) * (h > 0)
    return float(np.mean(np.log(sums) - z[rows, y])), g_D


def trained(
    net: list[Layer], rule: Descent, samples: Samples, n: int, start_D: Any
) -> tuple[Any, float, Any]:
    """One client, in double precision; drift and velocity are its own."""
    w_D, losses = start_D.astype(np.float64), []
    drift_D, v_D = rule.drift_D, rule.velocity_D
    assert v_D is not None
    for rows_B, size in zip(samples.rows_NSB[n], samples.sizes_NS[n], strict=True):
        if not size:
            break
        rows = rows_B[:size]
        loss, g_D = gradient(net, w_D, samples.x[rows], samples.y[rows])
        losses.append(loss)
        g_D += 0 if drift_D is None else drift_D
        g_D += rule.weight_decay * w_D + rule.pull * (w_D - start_D)
        v_D = rule.momentum * v_D + g_D
        w_D = w_D - rule.lr * v_D
    return w_D, float(np.mean(losses)), v_D


@settings(deadline=None)
@given(
    sizes=st.lists(st.integers(1, 40), min_size=2, max_size=4),
    batch=st.integers(1, 40),
    biases=st.booleans(),
    rule=st.builds(
        Descent,
        lr=st.just(0.1),
        momentum=st.sampled_from([0.0, 0.9]),
        weight_decay=st.sampled_from([0.0, 0.01]),
        pull=st.sampled_from([0.0, 0.3]),
        drift_D=st.none(),
        velocity_D=st.none(),
        nesterov=st.just(False),
        clip_norm=st.just(math.inf),
        clip_value=st.just(math.inf),
        period=st.just(0),
        adaptive=st.none(),
        anchor_D=st.none(),
        clock=st.none(),
    ),
    drifts=st.sampled_from([0, 1, 3]),
    shared=st.booleans(),
    seed=st.integers(0, 99),
)
def test_it_takes_the_steps_of_the_formulas(
    sizes: list[int],
    batch: int,
    biases: bool,
    rule: Descent,
    drifts: int,
    shared: bool,
    seed: int,
) -> None:
    net, dim = network(sizes, biases)
    samples = drawn(net, 3, 3, batch, seed)
    rng = np.random.default_rng(seed)
    start_ND = rng.normal(0, 0.3, (1 if shared else 3, dim)).astype(np.float32)
    v_ND = rng.normal(0, 0.1, (3, dim)).astype(np.float32)
    drift_ND = rng.normal(0, 0.1, (drifts, dim)).astype(np.float32) if drifts else None
    before, moved = start_ND.copy(), v_ND.copy()
    out_ND = np.full((3, dim), np.nan, np.float32)
    rule = rule._replace(drift_D=drift_ND, velocity_D=moved)
    losses = loop.descend(net, rule, samples, start_ND, out_ND)
    assert np.array_equal(start_ND, before)
    for n in range(3):
        start_D = start_ND[0 if shared else n]
        drift_D = None if drift_ND is None else drift_ND[n % drifts]
        own = rule._replace(drift_D=drift_D, velocity_D=v_ND[n].astype(np.float64))
        w_D, loss, v_D = trained(net, own, samples, n, start_D)
        np.testing.assert_allclose(out_ND[n], start_D - w_D, rtol=1e-4, atol=1e-4)
        if rule.momentum:
            np.testing.assert_allclose(moved[n], v_D, rtol=1e-3, atol=1e-3)
        assert losses[n] == pytest.approx(loss, rel=1e-4, abs=1e-5)


def test_the_loop_knows_all_that_a_rule_says() -> None:
    # A field that the loop does not read must make CompiledSteps.descend return None.
    read = ("lr", "momentum", "weight_decay", "pull", "drift_D", "velocity_D")
    clipped = ("nesterov", "clip_norm", "clip_value", "period", "adaptive")
    own = ("anchor_D", "clock")  # which the loop has itself
    assert (*read, *clipped, *own) == Descent._fields
    adaptive = ("beta_2", "eps", "decoupled", "squares_D", "taken_1")
    assert adaptive == Adaptive._fields


def test_a_client_does_not_depend_on_the_others() -> None:
    net, dim = network([7, 5, 3])
    samples = drawn(net, 4, 3, 6, seed=1)
    start_ND = np.random.default_rng(1).normal(size=(4, dim)).astype(np.float32)
    start_ND[0] = np.nan  # not even on one whose model is lost
    together, alone = np.empty_like(start_ND), np.empty_like(start_ND)
    rule = Descent(0.1, momentum=0.9)
    loop.descend(net, rule, samples, start_ND, together)
    for n in range(4):
        own = samples._replace(
            rows_NSB=samples.rows_NSB[n : n + 1], sizes_NS=samples.sizes_NS[n : n + 1]
        )
        one = slice(n, n + 1)
        loop.descend(net, rule, own, start_ND[one], alone[one])
    assert np.isnan(together[0]).all()
    assert np.array_equal(together, alone, equal_nan=True)
    assert np.isfinite(together[1:]).all()


@pytest.mark.parametrize("size", [1e-30, 1.0, 50.0, 1e4, 1e30])
def test_softmax_of_any_size(size: float) -> None:
    net, _ = network([1, 4], biases=False)
    w_ND = np.array([[-size, size, 0, size / 2]], np.float32)
    x, y = np.ones((1, 1), np.float32), np.array([0])
    samples = Samples(x, y, np.zeros((1, 1, 1), np.int64), np.ones((1, 1), np.int64))
    out_ND = np.empty_like(w_ND)
    (loss,) = loop.descend(net, Descent(1), samples, w_ND, out_ND)
    expected, g_D = gradient(net, w_ND[0].astype(np.float64), x, y)
    assert loss == pytest.approx(expected, rel=1e-6)
    expected_D = w_ND[0] - (w_ND[0] - g_D).astype(np.float32)
    np.testing.assert_allclose(out_ND[0], expected_D, rtol=1e-6, atol=1e-6)


def test_infinite_outputs_are_no_numbers_afterwards() -> None:
    net, _ = network([1, 2], biases=False)
    w_ND = np.array([[np.inf, 0]], np.float32)
    x, y = np.ones((1, 1), np.float32), np.array([0])
    samples = Samples(x, y, np.zeros((1, 1, 1), np.int64), np.ones((1, 1), np.int64))
    out_ND = np.empty_like(w_ND)
    loop.descend(net, PLAIN, samples, w_ND, out_ND)
    assert not np.isfinite(out_ND).all()


@pytest.mark.parametrize("target", [-100, -1, 3, 1 << 40])
def test_targets_that_are_no_classes_are_left_to_others(target: int) -> None:
    net, dim = network([2, 3])
    samples = drawn(net, 1, 1, 2, seed=0)
    samples.y[samples.rows_NSB[0, 0, 0]] = target
    w_ND = np.zeros((1, dim), np.float32)
    assert loop.descend(net, PLAIN, samples, w_ND, w_ND.copy()) is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rows_NSB": np.full((1, 1, 2), 30)}, "rows that exist"),
        ({"rows_NSB": np.full((1, 1, 2), -1)}, "rows that exist"),
        ({"sizes_NS": np.full((1, 1), 3)}, "rows that exist"),
        ({"sizes_NS": np.full((1, 1), -1)}, "rows that exist"),
        ({"x": np.zeros((30, 3), np.float32)}, "inputs of the first layer"),
        ({"y": np.zeros(29, np.int64)}, "inputs of the first layer"),
        ({"rows_NSB": np.zeros((1, 0, 2), np.int64)}, "for each client"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(change: Any, words: str) -> None:
    net, dim = network([2, 3])
    samples = drawn(net, 1, 1, 2, seed=0)._replace(**change)
    w_ND = np.zeros((1, dim), np.float32)
    with pytest.raises(ValueError, match=words):
        loop.descend(net, PLAIN, samples, w_ND, w_ND.copy())


IMAGE = Layer((2, 4, 4), (3, 2, 2), (3, 3), (2, 2), (1, 1), weight=0)
POOL = Layer((3, 2, 2), (3, 1, 1), (2, 2), (2, 2), kind="maximum")
PARTS = POOL._replace(kind="mean", kernel=(1, 1), stride=(0, 0))
POOLED = PARTS._replace(inputs=(3, 1 << 20, 1 << 20))
FITTING = [IMAGE, linear(12, 3, 54)]
"""A convolution of 54 weights and a linear layer of 36."""


def refused(layers: list[Layer], *, dim: int = 90) -> str:
    """What is said to these layers, or nothing."""
    x, y = np.zeros((1, int(np.prod(layers[0].inputs))), np.float32), np.array([0])
    samples = Samples(x, y, np.zeros((1, 1, 1), np.int64), np.ones((1, 1), np.int64))
    w_ND = np.zeros((1, dim), np.float32)
    try:
        loop.descend(layers, PLAIN, samples, w_ND, w_ND.copy())
    except ValueError as error:
        return str(error)
    return ""


def test_layers_that_fit_are_taken() -> None:
    assert refused(FITTING) == ""
    assert refused([IMAGE, POOL, linear(3, 3, 54)]) == ""
    assert refused([IMAGE, PARTS, linear(3, 3, 54)]) == ""
    assert refused([IMAGE, PARTS._replace(outputs=(3, 3, 3)), linear(27, 1, 54)]) == ""


@pytest.mark.parametrize(
    "layers",
    [
        [linear(2, 3, 90 - 5)],
        [linear(2, 3, 0, 90 - 2)],
        [linear(2, 3, -1)],
        [linear(2, 0, 0)],
        [linear(2, 3, 0), linear(2, 3, 0)],
        [linear(2, 1 << 62, 0)],
        [linear(2, 3, 0)._replace(kernel=(1 << 32, 1 << 32))],
        [IMAGE],
        [IMAGE, POOL],
        [IMAGE, linear(11, 3, 0)],
        [IMAGE, linear(12, 3, 0)._replace(kernel=(3, 3), pad=(1, 1))],
        [IMAGE, POOL._replace(inputs=(4, 2, 2), outputs=(4, 1, 1)), linear(4, 3, 0)],
        [IMAGE, POOL._replace(inputs=(3, 1, 4), outputs=(3, 1, 1)), linear(3, 3, 0)],
        [IMAGE, POOL._replace(outputs=(2, 1, 1)), linear(2, 3, 0)],
        [IMAGE, POOL._replace(kernel=(3, 3), pad=(2, 2)), linear(3, 3, 0)],
        [IMAGE, POOL._replace(kernel=(3, 3)), linear(3, 3, 0)],
        [IMAGE, POOL._replace(stride=(0, 0)), linear(3, 3, 0)],
        [IMAGE, PARTS._replace(pad=(1, 1), kernel=(2, 2)), linear(3, 3, 0)],
        *(
            [IMAGE._replace(**change), linear(12, 3, 54)]
            for change in (
                {"outputs": (3, 3, 2)},
                {"outputs": (3, 1, 4)},
                {"outputs": (3, 2, -2)},
                {"kernel": (3, -3)},
                {"stride": (2, 0)},
                {"stride": (2, -2)},
                {"pad": (1, -1)},
                {"pad": (3, 3)},
                {"pad": (1 << 62, 1)},
                {"weight": 37},
                {"bias": 88},
            )
        ),
    ],
)
def test_layers_that_do_not_fit_are_refused(layers: list[Layer]) -> None:
    assert "expected layers that fit" in refused(layers)


def test_as_many_layers_as_there_is_room_for() -> None:
    assert refused([linear(1, 1, 0)] * loop.MOST_LAYERS) == ""
    too_many = [linear(1, 1, 0)] * (loop.MOST_LAYERS + 1)
    assert "up to 64 layers" in refused(too_many)


def test_memory_that_there_is_not_is_said() -> None:
    parts = PARTS._replace(outputs=(3, 1 << 20, 1 << 20))  # 200 TB of means
    with pytest.raises(MemoryError):
        refused([IMAGE, parts, POOLED, linear(3, 3, 54)])


def test_numbers_of_another_count_are_refused() -> None:
    x, y = np.zeros((1, 1), np.float32), np.array([0])
    w_ND, one = np.zeros((1, 1), np.float32), np.ones((1, 1), np.int64)
    assert loop._compiled is not None
    most = math.inf
    rule = (0.1, 0.0, 0.0, 0.0, most, most, 0.9, 1e-8, False, False, False, 0)
    with pytest.raises(ValueError, match="16 numbers for each"):
        loop._compiled.descend(
            *(np.zeros(15, np.int64), rule, x, y, one, one, w_ND),
            *(None, None, None, None, None, w_ND, np.zeros(1), 0),
        )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"drift_D": np.zeros((2, 6), np.float32)}, "one drift, or one a client"),
        ({"drift_D": np.zeros(5, np.float32)}, "one drift, or one a client"),
        ({"velocity_D": np.zeros(6, np.float32)}, "a velocity a client"),
        (
            {
                "adaptive": Adaptive(
                    squares_D=np.zeros(6, np.float32), taken_1=np.zeros((3, 1))
                )
            },
            "expected squares of a client",
        ),
        ({"period": -1}, "a period of 0 steps or more"),
    ],
)
def test_vectors_of_another_size_are_refused(change: Any, words: str) -> None:
    net, dim = network([1, 3])
    samples = drawn(net, 3, 1, 2, seed=0)
    w_ND = np.zeros((3, dim), np.float32)
    with pytest.raises(ValueError, match=words):
        loop.descend(net, PLAIN._replace(**change), samples, w_ND, w_ND.copy())


def test_registers_that_there_are_not_are_refused() -> None:
    one = np.ones((1, 1), np.int64)
    samples = Samples(np.zeros((1, 1), np.float32), np.array([0]), one[None] - 1, one)
    w_ND = np.zeros((1, 1), np.float32)
    with pytest.raises(ValueError, match="no such registers"):
        loop.descend([linear(1, 1, 0)], PLAIN, samples, w_ND, w_ND, 5)
