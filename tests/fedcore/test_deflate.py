"""Deflated messages: when they are taken, and that they say the same."""

import zlib
from dataclasses import replace

import numpy as np
import pytest

from fedcore import payloads
from fedcore.compressors import (
    QSGD,
    STC,
    Cast,
    CompressorConfig,
    Identity,
    Natural,
    PerTensor,
    Rotation,
    SignL1,
    TopK,
    Uniform,
)
from fedcore.payloads import Payload
from fedcore.payloads.deflate import LEAST, deflate, inflate
from fedcore.rng import Key
from fedcore.typing import Vector

DIM = 20_000
ALWAYS: list[CompressorConfig] = [
    Uniform(bits=8),
    Uniform(bits=4),
    Uniform(bits=2),
    QSGD(bits=8),
    Natural(),
    Cast(dtype="float16"),
    Cast(dtype="bfloat16"),
    TopK(ratio=0.1),
    Rotation(inner=Uniform(bits=4)),
    PerTensor(inner=Uniform(bits=4), exact_below=600),
]


def gaussian(dim: int = DIM) -> Vector:
    return np.random.default_rng(0).standard_normal(dim).astype(np.float32)


def message(
    config: CompressorConfig, delta_D: Vector, layout: payloads.Layout = ()
) -> Payload:
    compressor = config.build(layout or delta_D.shape)
    return compressor.encode(delta_D, None, Key.root(0))[0]


@pytest.mark.parametrize("config", ALWAYS, ids=str)
def test_a_bell_curve_is_smaller_deflated_and_says_the_same(
    config: CompressorConfig,
) -> None:
    layout = (DIM - 500, 500)
    payload = message(config, gaussian(), layout)
    plain = payloads.pack(replace(payload, deflates=False))
    small = payloads.pack(payload)
    assert (plain[0], small[0]) == (1, 2)
    assert len(small) < 0.97 * len(plain)
    one, other = (payloads.unpack(data, layout) for data in (plain, small))
    assert payloads.decode(one).tobytes() == payloads.decode(other).tobytes()
    assert [payloads.pack(each) for each in (one, other)] == [plain, small]


@pytest.mark.parametrize("tensors", [50, 500, 2000])
def test_so_is_a_message_of_many_parts(tensors: int) -> None:
    layout = (200,) * tensors
    payload = message(PerTensor(inner=Uniform(bits=4)), gaussian(sum(layout)), layout)
    small = payloads.pack(payload)
    assert len(small) < 0.9 * len(payloads.pack(replace(payload, deflates=False)))


@pytest.mark.parametrize("config", [SignL1(), Rotation()], ids=str)
def test_what_does_not_become_smaller_travels_as_it_is(
    config: CompressorConfig,
) -> None:
    assert payloads.pack(message(config, gaussian()))[0] == 1


def test_runs_of_one_sign_become_next_to_nothing() -> None:
    assert message(SignL1(), np.ones(DIM, np.float32)).nbytes < 60


def test_a_bit_of_few_symbols_costs_less_than_a_bit() -> None:
    # Of three symbols, two are rare: with steps of the largest of 512 values 1 of 20
    # Gaussian values is not zero.
    bits = 8 * message(Uniform(bits=2), gaussian()).nbytes / DIM
    assert 0.4 < bits < 0.8


def test_exact_values_are_never_deflated() -> None:
    assert payloads.pack(message(Identity(), np.ones(DIM, np.float32)))[0] == 1


@pytest.mark.parametrize(
    "config",
    [
        Uniform(deflate=False),
        QSGD(deflate=False),
        Natural(deflate=False),
        Cast(deflate=False),
        Rotation(inner=Uniform(deflate=False)),
        PerTensor(inner=Uniform(deflate=False)),
    ],
    ids=str,
)
def test_nothing_is_deflated_where_it_is_switched_off(config: CompressorConfig) -> None:
    layout = (DIM - 500, 500)
    payload = message(config, np.ones(DIM, np.float32), layout)
    assert payloads.pack(payload)[0] == 1
    stack, _ = config.build(layout).encode(
        np.ones((2, DIM), np.float32), None, [Key.root(0), Key.root(1)]
    )
    assert {payloads.pack(row)[0] for row in payloads.rows(stack)} == {1}


def test_the_gaps_of_a_sparse_message_are_deflated_where_they_are_alike() -> None:
    delta_D = np.zeros(DIM, np.float32)
    delta_D[::40] = np.sign(gaussian(DIM // 40))
    payload = message(STC(ratio=1 / 40), delta_D)
    assert payload.nbytes < 0.6 * replace(payload, deflates=False).nbytes


@pytest.mark.parametrize("stride", [1, 2, 4])
@pytest.mark.parametrize("size", [LEAST, LEAST + 1, LEAST + 3, 40_001])
def test_bytes_find_their_places_again(stride: int, size: int) -> None:
    rng = np.random.default_rng(size)
    data = rng.integers(0, 3, size).astype(np.uint8).tobytes()
    small = deflate([data[:50], data[50:]], stride)
    assert small is not None
    assert len(small) < size / 2
    assert inflate(small, size, stride).tobytes() == data
    assert inflate(small, size, stride).readonly


def test_few_bytes_and_noise_are_left_alone() -> None:
    assert deflate([bytes(LEAST - 1)], 1) is None
    assert deflate([np.random.default_rng(0).bytes(50_000)], 1) is None


def test_any_sender_s_stream_is_read() -> None:
    payload = message(Uniform(bits=4), gaussian())
    plain = payloads.pack(replace(payload, deflates=False))
    head = payloads.pack(payload)[:11]
    for level in (0, 1, 9):  # stored, with repetitions, and with the best of them
        packer = zlib.compressobj(level, zlib.DEFLATED, -15)
        data = head + packer.compress(plain[6:]) + packer.flush()
        assert payloads.pack(
            replace(payloads.unpack(data, (DIM,)), deflates=False)
        ) == (plain)
