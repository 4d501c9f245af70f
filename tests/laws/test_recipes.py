"""The laws that every recipe keeps."""

import pytest

from fedcore.algorithm import AlgorithmConfig
from fedcore.params import ParamSpec, TensorSpec
from fedcore.recipes import DSSync, FedDyn, OverlapLocalSgd, Scaffold
from tests.laws.registered import every

SPEC = ParamSpec((TensorSpec("w", (4, 3), 0), TensorSpec("b", (3,), 12)))
RECIPES = every(AlgorithmConfig)
every_recipe = pytest.mark.parametrize("recipe", RECIPES)


@every_recipe
def test_a_recipe_builds_for_a_model_and_says_where_it_comes_from(
    recipe: type[AlgorithmConfig],
) -> None:
    config = recipe.example()
    assert isinstance(config, AlgorithmConfig)
    algorithm = config.build(SPEC)
    assert algorithm.config is config
    assert algorithm.model is SPEC
    assert config.paper


@every_recipe
def test_a_cohort_has_at_least_as_many_clients_as_the_buffer(
    recipe: type[AlgorithmConfig],
) -> None:
    config = recipe.example()
    assert isinstance(config, AlgorithmConfig)
    assert config.minimum <= config.buffer <= config.cohort
    assert config.synchronous == (config.staleness_limit == 0)


# Without their client algorithms, which fit few other parts, these are fed_avg.
BOUND = Scaffold, FedDyn, OverlapLocalSgd, DSSync


@pytest.mark.parametrize("recipe", [each for each in RECIPES if each not in BOUND])
def test_every_part_of_a_recipe_can_be_replaced_in_a_config_file(
    recipe: type[AlgorithmConfig],
) -> None:
    settings = recipe.example().model_dump() | {
        "aggregator": {"kind": "trimmed_mean", "trim": 0.2},
        "server": {"kind": "yogi"},
        "uplink": {"kind": "error_feedback", "inner": {"kind": "sign_l1"}},
        "downlink": {"kind": "uniform"},
        "staleness": {"kind": "hinge"},
        "selection": {"kind": "all"},
        "update_filter": {"kind": "accept_all"},
        "client": {"kind": "fed_prox", "mu": 0.3},
    }
    config = recipe.model_validate(settings)
    assert config.model_dump()["uplink"]["inner"]["kind"] == "sign_l1"
    assert recipe.model_validate_json(config.model_dump_json()) == config
