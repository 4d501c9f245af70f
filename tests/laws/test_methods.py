"""What holds for the config of every method in every role."""

import pytest
from pydantic import ValidationError

import fedcore.recipes  # noqa: F401 -- registers all roles
from fedcore.aggregators import AggregatorConfig
from fedcore.algorithm import AlgorithmConfig
from fedcore.clients import ClientAlgorithmConfig
from fedcore.compressors import CompressorConfig
from fedcore.config import Method, descriptions, kind_of, methods
from fedcore.controllers import ControllerConfig
from fedcore.distributions import DistributionConfig
from fedcore.lr_schedules import LRScheduleConfig
from fedcore.selection import SelectionConfig
from fedcore.server_optimizers import ServerOptimizerConfig
from fedcore.staleness import StalenessConfig
from fedcore.update_filters import UpdateFilterConfig
from tests.laws.registered import every

ROLES: tuple[type[Method], ...] = (
    UpdateFilterConfig,
    AggregatorConfig,
    AlgorithmConfig,
    ClientAlgorithmConfig,
    CompressorConfig,
    ControllerConfig,
    DistributionConfig,
    LRScheduleConfig,
    SelectionConfig,
    ServerOptimizerConfig,
    StalenessConfig,
)
METHODS = [method for role in ROLES for method in every(role)]
every_method = pytest.mark.parametrize("method", METHODS)


@every_method
def test_a_method_has_a_usable_example(method: type[Method]) -> None:
    example = method.example()
    assert type(example) is method
    assert example.kind == kind_of(method)


@every_method
def test_a_config_comes_back_equal_from_json(method: type[Method]) -> None:
    example = method.example()
    assert method.model_validate_json(example.model_dump_json()) == example


@every_method
def test_a_typo_is_an_error(method: type[Method]) -> None:
    with pytest.raises(ValidationError, match="extra_forbidden"):
        method.model_validate(method.example().model_dump() | {"ratoi": 1})


@every_method
def test_a_config_cannot_be_changed(method: type[Method]) -> None:
    with pytest.raises(ValidationError, match="frozen"):
        method.example().kind = "other"  # type: ignore[misc]


@every_method
def test_settings_say_what_they_are(method: type[Method]) -> None:
    undocumented = [
        name
        for name, field in method.model_fields.items()
        if name != "kind"
        and name in method.__annotations__
        and not (field.description or name in descriptions(method))
        and name not in AlgorithmConfig.model_fields
    ]
    assert method.__doc__
    assert not undocumented


@pytest.mark.parametrize("role", ROLES)
def test_the_kinds_of_a_role_differ(role: type[Method]) -> None:
    kinds = [kind_of(method) for method in methods(role)]
    assert kinds
    assert len(set(kinds)) == len(kinds)
