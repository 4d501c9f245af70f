"""Which pairs are compared, and how codecs are named."""

import pytest
import yaml

from fedcore.compressors import (
    CompressorConfig,
    ErrorFeedback,
    MemoryConfig,
    RandomK,
    TopK,
    Uniform,
)
from fedcore.errors import ConfigError
from fedcore.recipes import EF21, FedAvg, Latecomer
from fedrun.config import parse_config
from fedstudies.codecs.pairs import (
    GRID,
    UNCOMPRESSED,
    Pair,
    candidate,
    pairs_of,
    short,
    uplink_name,
)
from tests.laws.compressors import EVERY
from tests.laws.registered import named

LATECOMER = parse_config({})
FED_AVG = parse_config({"algorithm": {"kind": "fed_avg"}})


def up(text: str) -> CompressorConfig:
    return candidate("uplink", text, Latecomer())


def down(text: str) -> CompressorConfig:
    return candidate("downlink", text, Latecomer())


# -------------------------------------------------------------------------- the grid


@pytest.mark.parametrize("config", [LATECOMER, FED_AVG], ids=["latecomer", "fed_avg"])
def test_the_grid_begins_uncompressed_and_goes_on_with_the_federations_own(
    config: object,
) -> None:
    pairs = pairs_of(config)  # type: ignore[arg-type]
    assert pairs[0] == UNCOMPRESSED
    own = Pair(config.algorithm.uplink, config.algorithm.downlink)  # type: ignore[attr-defined]
    assert own in pairs[:2]
    assert len({str(pair) for pair in pairs}) == len(pairs)


def test_every_pair_of_the_grid_is_a_config_and_has_a_memory_where_one_may_be() -> None:
    pairs = pairs_of(LATECOMER)
    assert len(pairs) >= sum(len(downs) for _, downs in GRID)
    for pair in pairs:
        given = parse_config(yaml.safe_load(pair.yaml("latecomer"))).algorithm
        assert given.uplink.model_dump() == pair.uplink.model_dump()
        assert given.downlink.model_dump() == pair.downlink.model_dump()
        memory = isinstance(pair.uplink, ErrorFeedback)
        contraction = pair.uplink.bias == "contraction"
        assert memory == (contraction and pair.uplink.kind != "identity")


def test_candidates_are_tried_with_each_other() -> None:
    pairs = pairs_of(LATECOMER, ["sign_l1", "stc"], ["uniform", "top_k"])
    assert [pair.names for pair in pairs] == [
        ("identity", "identity"),
        ("sign_l1", "uniform"),
        ("sign_l1", "top_k"),
        ("stc", "uniform"),
        ("stc", "top_k"),
    ]


def test_a_direction_without_candidates_stays_as_it_is() -> None:
    pairs = pairs_of(LATECOMER, downlinks=["identity"])
    assert pairs[1:] == [Pair(LATECOMER.algorithm.uplink, down("identity"))]
    pairs = pairs_of(FED_AVG, uplinks=["identity", "top_k"])
    assert [pair.names for pair in pairs] == [
        ("identity", "identity"),
        ("top_k", "identity"),
    ]


# ---------------------------------------------------------------------------- naming


def test_an_uplink_in_short_gets_a_memory_and_in_yaml_is_taken_as_it_is() -> None:
    assert up("top_k:ratio=.02") == ErrorFeedback(inner=TopK(ratio=0.02))
    assert up("{kind: top_k, ratio: .02}") == TopK(ratio=0.02)
    assert up("random_k:unbiased=true,ratio=.5") == RandomK(ratio=0.5, unbiased=True)
    assert up("identity").kind == "identity"
    assert down("top_k:ratio=.02") == TopK(ratio=0.02)


def test_settings_of_inner_methods_have_dots() -> None:
    text = "error_feedback:inner.kind=uniform,inner.bits=4,cap=3"
    assert up(text) == ErrorFeedback(inner=Uniform(bits=4), cap=3.0)


@named(EVERY)
def test_the_name_of_a_codec_means_that_codec(config: CompressorConfig) -> None:
    recipe = EF21() if config.kind == "ef21" else Latecomer()
    again = candidate("uplink", uplink_name(config), recipe)
    assert again.model_dump() == config.model_dump()
    if not isinstance(config, MemoryConfig) and config.bias == "contraction":
        assert down(short(config)).model_dump() == config.model_dump()


# ---------------------------------------------------------------------------- mistakes


def test_the_recipe_ef21_is_compared_otherwise() -> None:
    config = parse_config({"algorithm": {"kind": "ef21"}})
    with pytest.raises(ConfigError, match="compare its runs with those of fedsim run"):
        pairs_of(config, (), ())


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "topk:ratio=.1",
            "algorithm.uplink: unknown compressor 'topk'; did you mean 'top_k'?; kinds",
        ),
        (
            "top_k:ratio=5",
            "algorithm.uplink.ratio: should be less than or equal to 1, got 5",
        ),
        (
            "top_k:rato=.1",
            "algorithm.uplink.rato: unknown key; did you mean 'ratio'?; allowed: kind",
        ),
        (
            "{kind: uniform, bits: 3}",
            "algorithm.uplink.bits: should be 8, 4 or 2, got 3",
        ),
        ("top_k:ratio", "expected kind:field=value, such as top_k:ratio=0.01"),
        ("top_k:=3", "expected kind:field=value, such as top_k:ratio=0.01"),
        ("top_k:ratio.x=1,ratio=[", "'[' is not a YAML value: "),
        ("top_k:kind.x=1", "'kind' is a value, not a section"),
        ("{kind: top_k", "'{kind: top_k' is not a YAML value: "),
        ("", "algorithm.uplink: unknown compressor ''; kinds: "),
        (
            "error_feedback:inner.kind=sign_l2",
            "algorithm.uplink: sign_l2 is neither with these settings, and an error",
        ),
    ],
)
def test_what_is_no_codec_is_answered_with_one_sentence(
    text: str, sentence: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        up(text)
    assert str(caught.value).startswith(f"--uplink {text}: {sentence}")
    assert "\n" not in str(caught.value)


def test_a_downlink_needs_a_contraction_and_no_memory() -> None:
    with pytest.raises(ConfigError, match=r"^--downlink qsgd:bits=2: .* contraction$"):
        candidate("downlink", "qsgd:bits=2", FedAvg())
    with pytest.raises(ConfigError, match=r"name the inner compressor alone \(top_k\)"):
        candidate("downlink", "error_feedback", FedAvg())
