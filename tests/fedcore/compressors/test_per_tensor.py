"""Per tensor: budgets of each tensor, and tensors that stay exact."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from fedcore import payloads
from fedcore.algorithm import AlgorithmConfig
from fedcore.compressors import (
    QSGD,
    STC,
    Compressor,
    CompressorConfig,
    ErrorFeedback,
    Identity,
    PerTensor,
    RandomK,
    Rotation,
    SignL1,
    SignL2,
    TopK,
)
from fedcore.errors import ConfigError, PayloadError
from fedcore.params import ParamSpec
from fedcore.payloads import Payload
from fedcore.recipes import FedAvg
from fedcore.rng import Key
from fedcore.typing import Vector

KEY = Key.root(0)
SPEC = ParamSpec.of(
    {
        "conv.weight": np.zeros((2, 2)),
        "conv.bias": np.zeros(2),
        "norm.weight": np.zeros(2),
        "head.weight": np.zeros((4, 1)),
    }
)
DELTA_D = np.array([9, 8, 7, 6, 0.5, 0.25, -1, 2, 4, -3, 2, 1], np.float32)


def message(config: CompressorConfig, delta_D: Vector = DELTA_D) -> Payload:
    """What travels of an update of this model, over the wire."""
    compressor = config.build_for(SPEC)
    payload, _ = compressor.encode(delta_D, compressor.init(SPEC.dim), KEY)
    return payloads.unpack(payloads.pack(payload), SPEC.sizes)


def decoded(config: CompressorConfig) -> list[float]:
    values: list[float] = payloads.decode(message(config)).tolist()
    return values


def test_each_tensor_has_its_own_budget() -> None:
    assert decoded(PerTensor(inner=TopK(ratio=0.25))) == [
        *[9, 0, 0, 0],
        *[0.5, 0],
        *[0, 2],
        *[4, 0, 0, 0],
    ]


def test_the_whole_vector_spends_its_budget_where_values_are_large() -> None:
    config = PerTensor(inner=TopK(ratio=0.5), exact=("norm*",), together=True)
    # Five of ten values, beside two exact ones.
    assert decoded(config) == [9, 8, 7, 6, 0, 0, -1, 2, 4, 0, 0, 0]


def test_tensors_travel_exactly_by_name() -> None:
    config = PerTensor(inner=STC(ratio=0.5), exact=("*.bias", "norm*"))
    # The mean of the two largest magnitudes: 8.5 and 3.5.
    assert decoded(config) == [8.5, 8.5, 0, 0, 0.5, 0.25, -1, 2, 3.5, -3.5, 0, 0]


def test_tensors_travel_exactly_by_size() -> None:
    config = PerTensor(inner=SignL1(), exact_below=3)
    # Means of magnitudes: 7.5 and 2.5.
    assert decoded(config) == [*[7.5] * 4, 0.5, 0.25, -1, 2, 2.5, -2.5, 2.5, 2.5]


def test_a_tensor_of_just_the_size_is_compressed() -> None:
    config = PerTensor(inner=TopK(ratio=0.25), exact_below=4)
    assert decoded(config) == [9, 0, 0, 0, 0.5, 0.25, -1, 2, 4, 0, 0, 0]


def test_upper_and_lower_case_differ() -> None:
    with pytest.raises(ConfigError, match=r"'Norm\*' matches no tensor"):
        PerTensor(exact=("Norm*",)).build_for(SPEC)


def test_tensors_that_are_compressed_together_keep_their_scales() -> None:
    config = PerTensor(inner=SignL1(), exact=("conv.bias", "norm.weight"))
    one_vector = config.model_copy(update={"together": True})
    assert decoded(config) == decoded(one_vector)
    whole = PerTensor(inner=SignL1(per="vector"), exact_below=3, together=True)
    assert decoded(whole)[:2] == [5, 5]  # (7.5 + 2.5) / 2


def test_exact_tensors_share_one_message_and_each_other_tensor_has_one() -> None:
    config = PerTensor(inner=TopK(ratio=0.25), exact=("*.bias", "norm*"))
    # Header 6, count 2; of a group: count 2, coding and bitmap 2, size 4, header 6.
    # Four floats; k 4, coding and bitmap 2, and one float, twice.
    assert message(config).nbytes == 6 + 2 + 3 * 14 + 16 + 2 * (4 + 2 + 4)
    together = config.model_copy(update={"together": True})
    assert message(together).nbytes == 6 + 2 + 2 * 14 + 16 + (4 + 2 + 2 * 4)


def test_a_model_of_exact_tensors_is_one_message_of_all_values() -> None:
    payload = message(PerTensor(exact_below=100))
    assert payload.nbytes == 6 + 2 + 14 + 4 * SPEC.dim
    assert payloads.decode(payload).tolist() == DELTA_D.tolist()


def test_tensors_of_no_values_say_nothing() -> None:
    encode = PerTensor(inner=SignL1()).build((0, 3, 0)).encode
    payload, _ = encode(np.ones(3, np.float32), None, KEY)
    assert payload.nbytes == 6 + 2 + 14 + 2 + 4 + 1


def test_without_names_tensors_go_by_their_numbers() -> None:
    config = PerTensor(inner=TopK(ratio=0.5), exact=("1", "*.bias"))
    encode = config.build((2, 2)).encode
    payload, _ = encode(np.array([2, 1, 2, 1], np.float32), None, KEY)
    assert payloads.decode(payload).tolist() == [2, 0, 2, 1]


def test_each_tensor_draws_its_own_coordinates() -> None:
    config = PerTensor(inner=RandomK(ratio=0.5))
    payload, _ = config.build((40, 40)).encode(np.ones(80, np.float32), None, KEY)
    first, second = payloads.decode(payload).reshape(2, 40)
    assert first.sum() == second.sum() == 20
    assert first.tolist() != second.tolist()


def test_a_memory_keeps_nothing_of_exact_tensors() -> None:
    exact = PerTensor(inner=TopK(ratio=0.25), exact=("*.bias", "norm*"))
    compressor = ErrorFeedback(inner=exact).build_for(SPEC)
    memory_D = compressor.init(SPEC.dim)
    for _ in range(2):
        _, memory_D = compressor.encode(DELTA_D, memory_D, KEY)
    # Of the first tensor 9 was sent, then 8 + 8 > 9; of the last 4, then -3 - 3.
    assert memory_D.tolist() == [9, 0, 14, 12, 0, 0, 0, 0, 4, 0, 4, 2]


def test_the_support_is_that_of_the_parts() -> None:
    sparse = message(PerTensor(inner=TopK(ratio=0.25), exact=("norm*",)))
    support = payloads.support(sparse)
    assert support is not None
    assert support.tolist() == [0, 4, 6, 7, 8]
    assert payloads.support(message(PerTensor(inner=SignL1()))) is None


def test_the_magnitude_is_the_largest_of_the_parts() -> None:
    # 8 bits have 127 levels; a product of all parts' numbers would be 127 * 9.
    config = PerTensor(inner=QSGD(), exact=("conv.weight",))
    assert payloads.magnitude(message(config)) == 9
    broken = np.where(DELTA_D == 9, np.float32(np.nan), DELTA_D)
    assert np.isnan(payloads.magnitude(message(config, broken)))


def test_adding_costs_no_copy_where_a_group_lies_together() -> None:
    out_D = np.zeros(SPEC.dim, np.float32)
    payloads.add(message(PerTensor(inner=TopK(ratio=0.25))), out_D, -2.0)
    assert out_D.tolist() == [-18, 0, 0, 0, -1, 0, 0, -4, -8, 0, 0, 0]


# -------------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("inner", "bias"),
    [
        (TopK(), "contraction"),
        (RandomK(unbiased=True), "unbiased"),
        (SignL2(), "neither"),
        (Rotation(), "contraction"),
    ],
)
def test_the_parts_obey_the_law_of_what_they_hold(
    inner: CompressorConfig, bias: str
) -> None:
    assert PerTensor(inner=inner).bias == bias


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"inner": PerTensor()}, "per_tensor inside per_tensor: one of them is enough"),
        (
            {"inner": ErrorFeedback(inner=PerTensor(exact=("*.bias",)))},
            "error_feedback inside per_tensor: put the memory around it",
        ),
        ({"inner": Identity()}, "identity inside per_tensor: every tensor is exact"),
        ({"exact": ("*.bias", "*")}, r"'\*' matches every tensor.*take identity"),
        ({"together": True}, "no exact tensors is top_k alone; name some with exact"),
        ({"exact_below": -1}, "greater than or equal to 0"),
    ],
)
def test_senseless_settings_are_refused_with_a_sentence(
    settings: Mapping[str, Any], reason: str
) -> None:
    with pytest.raises(ValidationError, match=reason):
        PerTensor(**settings)


def test_a_memory_around_it_wants_a_contraction_inside() -> None:
    with pytest.raises(ValidationError, match="per_tensor is unbiased with these"):
        ErrorFeedback(inner=PerTensor(inner=RandomK(unbiased=True)))


def test_nothing_is_rotated_that_has_parts() -> None:
    with pytest.raises(ValidationError, match="per_tensor gains nothing from a rot"):
        Rotation(inner=PerTensor(inner=SignL1(), exact=("*.bias",)))


@pytest.mark.parametrize("side", ["uplink", "downlink"])
def test_a_pattern_that_matches_no_tensor_is_an_error_of_this_model(side: str) -> None:
    algorithm = FedAvg(**{side: PerTensor(exact=("*.bias", "*.beta"))})
    with pytest.raises(
        ConfigError,
        match=r"per_tensor: exact: '\*\.beta' matches no tensor of this model; there "
        r"are conv\.weight, conv\.bias, norm\.weight, head\.weight$",
    ):
        algorithm.build(SPEC)


def test_of_many_tensors_the_sentence_lists_a_few() -> None:
    spec = ParamSpec.of({f"layer{i}": np.zeros(1) for i in range(25)})
    with pytest.raises(ConfigError, match=r"layer18, layer19 and 5 more$"):
        PerTensor(exact=("norm",)).build_for(spec)


def test_names_reach_it_through_the_algorithm_and_a_memory() -> None:
    config = ErrorFeedback(inner=PerTensor(inner=TopK(ratio=0.25), exact=("conv.*",)))
    algorithm: AlgorithmConfig = FedAvg(uplink=config, downlink=config.inner)
    built = algorithm.build(SPEC)
    for compressor, state in (
        (built.uplink, np.zeros(12, "f4")),
        (built.downlink, None),
    ):
        assert _first(compressor, state) == [9, 8, 7, 6, 0.5, 0.25, 0, 2, 4, 0, 0, 0]


def _first(compressor: Compressor, state: Any) -> list[float]:
    payload, _ = compressor.encode(DELTA_D, state, KEY)
    values: list[float] = payloads.decode(payload).tolist()
    return values


# ------------------------------------------------------------------------------ junk

EXACT = "0a000000 01 00 01000000 0000803f"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("0300", "3 groups in a model of 2 tensors"),
        ("0100 0000 00", "0 of 2 tensors in a group"),
        ("0100 0300 00", "3 of 2 tensors in a group"),
        ("0100 0100 00 0200" + EXACT, "indices must ascend and lie below 2"),
        (f"0200 0100 02 01 {EXACT} 0100 02 01 {EXACT}", "a tensor is in two groups"),
        (
            "0100 0100 02 01 08000000 01 0a 01000000 0000",
            "format 10 cannot be a part of a message",
        ),
        (
            "0100 0100 02 01 0b000000 01 05 01000000 00000000 00",
            "format 5 cannot be a part of a message",
        ),
        ("0100 0100 02 01 ffffffff 01 00", "message ends early: 4294967295 bytes"),
        ("0100 0200 02 03" + EXACT, "expected 2 values, got 1"),
        ("0100 0100 02 01 0b000000" + EXACT[8:] + "00", "1 bytes too many at the end"),
        ("0100 0100 02 01" + EXACT + "00", "1 bytes too many at the end"),
        ("0100 0100 02 01 00000000", "message ends early: 6 bytes expected, 0 left"),
    ],
)
def test_junk_is_refused_with_a_sentence(body: str, reason: str) -> None:
    with pytest.raises(PayloadError, match=reason):
        payloads.unpack(bytes.fromhex("01 0a 02000000" + body), (1, 1))
