"""Gaia: what is significant beside the parameter that it changes."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest

from fedcore import payloads
from fedcore.clients import LocalSGD
from fedcore.compressors import Context, ErrorFeedback, Gaia
from fedcore.lr_schedules import Linear
from fedcore.rng import Key
from fedcore.typing import Vector

KEY = Key.root(0)


def _same(context: Context) -> Context:
    return context


def sent(
    config: Gaia,
    delta: Sequence[float],
    model: Sequence[float],
    version: int,
    share: float = 1.0,
) -> Vector:
    """What one message stands for."""
    delta_D, public_D = np.array(delta, np.float32), np.array(model, np.float32)
    shorter = config.shorter(share)
    assert shorter is not None
    compressor = shorter.build((len(delta),)).at(lambda: Context(version, public_D))
    decoded_D: Vector = payloads.decode(compressor.encode(delta_D, None, KEY)[0])
    return decoded_D


def test_a_change_is_significant_beside_its_parameter() -> None:
    found_D = sent(Gaia(threshold=0.1), [0.2, 0.2, -0.2, 9.0], [1, 4, -1, 0.01], 1)
    assert found_D == pytest.approx([0.2, 0, -0.2, 9.0])


def test_every_change_of_a_zero_parameter_is_significant() -> None:
    assert sent(Gaia(threshold=0.5), [1e-6, 0.1], [0, 1], 1)[0] == np.float32(1e-6)


def test_the_threshold_falls_with_the_root_of_the_version() -> None:
    config, delta, model = Gaia(threshold=0.1), [0.04, 1.0], [1, 1]
    assert sent(config, delta, model, 1)[0] == 0
    assert sent(config, delta, model, 9)[0] == np.float32(0.04)
    assert sent(Gaia(threshold=0.1, decay="none"), delta, model, 9)[0] == 0


def test_the_threshold_falls_with_the_learning_rate() -> None:
    config = Gaia(threshold=0.1, decay="rate")
    assert config.threshold_at(version=100, rate=0.25) == 0.025
    client = LocalSGD(lr=0.4, schedule=Linear(after=0, until=10, to=0.5))
    rates = [client.rate(version) for version in (0, 5, 10)]
    assert rates == pytest.approx([1.0, 0.75, 0.5])
    delta_D, public_D = np.array([0.06, 1.0], np.float32), np.ones(2, np.float32)
    for rate, expected in ((1.0, 0), (0.5, np.float32(0.06))):
        context = Context(8, public_D, rate=rate)
        now = config.build((2,)).at(partial(_same, context))
        assert payloads.decode(now.encode(delta_D, None, KEY)[0])[0] == expected


def test_a_flush_sends_everything_and_empties_the_memory() -> None:
    inner = Gaia(threshold=0.5, decay="none", flush=3)
    compressor = ErrorFeedback(inner=inner).build((3,))
    memory_D = compressor.init(3)
    left = []
    for version in range(1, 7):
        delta_D = np.array([0.125, -0.25, 0.75], np.float32)
        context = Context(version, np.ones(3, np.float32))
        now = compressor.at(partial(_same, context))
        _, memory_D = now.encode(delta_D, memory_D, KEY)
        left.append(float(np.abs(memory_D).sum()))
    assert left == [0.375, 0.75, 0, 0.375, 0.75, 0]


def test_without_a_threshold_all_is_exchanged() -> None:
    delta = [1e-9, -2.0, 0.5]
    found_D = sent(Gaia(threshold=0), delta, [1, 1, 0], 4)
    assert found_D.tolist() == np.array(delta, np.float32).tolist()


def test_the_largest_is_sent_where_nothing_is_significant() -> None:
    assert sent(Gaia(), [1e-4, -3e-4], [1, 1], 1).tolist() == [0, np.float32(-3e-4)]


def test_without_a_known_model_everything_is_sent() -> None:
    delta_D = np.array([1e-9, 2.0], np.float32)
    message, _ = Gaia().build((2,)).encode(delta_D, None, KEY)
    assert payloads.decode(message).tolist() == delta_D.tolist()


def test_a_slow_link_raises_the_threshold() -> None:
    assert sent(Gaia(threshold=0.1), [0.15, 1], [1, 1], 1)[0] == np.float32(0.15)
    assert sent(Gaia(threshold=0.1), [0.15, 1], [1, 1], 1, share=0.5)[0] == 0


def test_what_is_insignificant_adds_up_in_the_memory() -> None:
    compressor = ErrorFeedback(inner=Gaia(threshold=0.25, decay="none")).build((2,))
    public_D, memory_D = np.ones(2, np.float32), compressor.init(2)
    delta_D = np.array([0.125, 1.0], np.float32)
    firsts = []
    now = compressor.at(lambda: Context(1, public_D))
    for _ in range(4):
        message, memory_D = now.encode(delta_D, memory_D, KEY)
        firsts.append(float(payloads.decode(message)[0]))
    assert firsts == [0, 0, 0.375, 0]
