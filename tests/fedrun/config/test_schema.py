"""The JSON schema accepts what the program accepts, and refuses a typo."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from docs import generate
from fedcore.config import Method, kind_of
from fedcore.errors import ConfigError
from fedrun.config import FederationConfig, parse_config
from fedrun.config.schema import federation_schema
from fedserver.cli import main

ROOT = Path(__file__).parent.parent.parent.parent
METHODS = [
    (role, method)
    for role in generate.find().roles
    for method in generate.kinds_of(role)
]
FILES = [
    *ROOT.glob("fedsim/templates/*/federation.yaml"),
    *ROOT.glob("deploy/**/federation.yaml"),
]
# Each of them is wrong in one place.
MISTAKES = {
    "an unknown section": {"sever": {}},
    "an unknown field": {"stop": {"version": 3}},
    "a text for a number": {"stop": {"versions": "many"}},
    "truth for a number": {"stop": {"versions": True}},
    "a number below its bound": {"algorithm": {"kind": "fed_avg", "buffer": 0}},
    "a number at its open bound": {"timeouts": {"lease": 0}},
    "no kind": {"algorithm": {"buffer": 3}},
    "an unknown kind": {"algorithm": {"kind": "fed_average"}},
    "a field of another kind": {
        "algorithm": {"kind": "latecomer", "uplink": {"kind": "top_k", "bits": 4}}
    },
    "a typo in a method of a method": {
        "algorithm": {
            "kind": "latecomer",
            "uplink": {"kind": "error_feedback", "inner": {"kind": "topk"}},
        }
    },
    "a typo in a list of methods": {
        "algorithm": {"kind": "latecomer", "controllers": [{"kind": "bandwith"}]}
    },
    "a typo in a distribution": {"simulate": {"speed": {"kind": "same", "sigma": 1}}},
    "a share of 1": {"simulate": {"dropout": 1.0}},
    "a field of the TLS": {"server": {"tls": {"certificate": "a", "kee": "b"}}},
}
# What has another form than a whole section, and the forms of paths and names.
SHORT = {
    "a share": {"simulate": {"dropout": 0.1}},
    "a file of methods": {"methods": "examples/own_methods/my_methods.py"},
    "files of methods": {"methods": ["a.py", {"file": "b.py", "digest": "0" * 16}]},
    "a name of clients": {
        "algorithm": {
            "kind": "fed_avg",
            "client": {
                "kind": "local_sgd",
                "overrides": [{"clients": "phone-*", "steps": 5}],
            },
        }
    },
    "arguments that are numbers": {"simulate": {"args": {"root": 7}}},
    "no TLS": {"server": {"tls": None}},
    "points": {
        "algorithm": {
            "kind": "fed_avg",
            "client": {
                "kind": "local_sgd",
                "schedule": {"kind": "points", "points": [[0, 1], [9, 0.1]]},
            },
        }
    },
}


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return federation_schema()


@pytest.fixture(scope="module")
def validator(schema: dict[str, Any]) -> Any:
    from jsonschema import Draft7Validator

    Draft7Validator.check_schema(schema)
    return Draft7Validator(schema)


@pytest.mark.parametrize(("role", "method"), METHODS)
def test_every_kind_is_in_the_schema(
    schema: dict[str, Any], role: type[Method], method: type[Method]
) -> None:
    name, kind = role.role.replace(" ", "_"), kind_of(method)
    [choice] = [
        choice
        for choice in schema["$defs"][name]["properties"]["kind"]["oneOf"]
        if choice["const"] == kind
    ]
    assert choice["description"]
    found = schema["$defs"][f"{name}.{kind}"]
    assert found["additionalProperties"] is False
    assert set(found["properties"]) == set(method.model_fields)
    for field, told in found["properties"].items():
        assert field == "kind" or told["description"], field


def test_every_reference_leads_somewhere(schema: dict[str, Any]) -> None:
    named = set()

    def walk(part: Any) -> None:
        if isinstance(part, dict):
            if "$ref" in part:
                named.add(part["$ref"].removeprefix("#/$defs/"))
            part = list(part.values())
        if isinstance(part, list):
            for each in part:
                walk(each)

    walk(schema)
    assert named <= set(schema["$defs"])
    assert "x-role" not in json.dumps(schema)


@pytest.mark.needs("jsonschema")
@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_configs_of_the_repository_are_valid(validator: Any, path: Path) -> None:
    validator.validate(yaml.safe_load(path.read_text(encoding="utf-8")))


@pytest.mark.needs("jsonschema")
def test_the_config_of_the_chart_is_valid(validator: Any) -> None:
    values = ROOT / "deploy/chart/values.yaml"
    validator.validate(yaml.safe_load(values.read_text(encoding="utf-8"))["federation"])


@pytest.mark.needs("jsonschema")
def test_all_defaults_are_valid(validator: Any) -> None:
    validator.validate({})
    validator.validate(FederationConfig().model_dump(mode="json"))


@pytest.mark.needs("jsonschema")
@pytest.mark.parametrize(("role", "method"), METHODS)
def test_each_method_is_valid_with_all_its_settings(
    validator: Any, role: type[Method], method: type[Method]
) -> None:
    example = generate.example_of(method, generate.find().roles[role])
    validator.validate(json.loads(json.dumps(example)))
    validator.validate(parse_config(example).model_dump(mode="json"))


@pytest.mark.needs("jsonschema")
@pytest.mark.parametrize("config", SHORT.values(), ids=SHORT)
def test_short_forms_are_valid(validator: Any, config: dict[str, Any]) -> None:
    if "methods" not in config:  # whose files would have to be imported
        parse_config(config)
    validator.validate(config)


@pytest.mark.needs("jsonschema")
@pytest.mark.parametrize("config", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_found_as_the_program_finds_it(
    validator: Any, config: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError):
        parse_config(config)
    assert not validator.is_valid(config)


@pytest.mark.needs("jsonschema")
def test_a_mistake_is_found_where_it_is(validator: Any) -> None:
    """The fields of other kinds are not in the way."""
    given = {"algorithm": {"kind": "latecomer", "uplink": {"kind": "top_k", "bits": 4}}}
    [error] = validator.iter_errors(given)
    while error.context:
        [error] = error.context
    assert list(error.absolute_path) == ["algorithm", "uplink"]
    assert "'bits' was unexpected" in error.message


@pytest.fixture(scope="module")
def with_own() -> dict[str, Any]:
    """The schema with methods of one's own, whose file another process imports."""
    own = ROOT / "examples/own_methods/my_methods.py"
    command = [sys.executable, "-m", "fedserver", "schema", "--methods", str(own)]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_command_writes_a_file(tmp_path: Path, schema: dict[str, Any]) -> None:
    out = tmp_path / "federation.schema.json"
    done = CliRunner().invoke(main, ["schema", "-o", str(out)])
    assert done.output == f"{out}\n"
    assert json.loads(out.read_text(encoding="utf-8")) == schema


def test_the_command_prints_methods_of_ones_own(with_own: dict[str, Any]) -> None:
    assert "staleness_policy.logarithmic" in with_own["$defs"]
    for role, method in METHODS:
        assert f"{role.role.replace(' ', '_')}.{kind_of(method)}" in with_own["$defs"]


@pytest.mark.needs("jsonschema")
def test_a_config_with_methods_of_ones_own_is_valid(with_own: dict[str, Any]) -> None:
    from jsonschema import Draft7Validator

    path = ROOT / "examples/own_methods/federation.yaml"
    given = yaml.safe_load(path.read_text(encoding="utf-8"))
    Draft7Validator(with_own).validate(given)
