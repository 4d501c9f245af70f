"""A JSON schema of the config file, from which an editor completes and checks it.

It is made from the settings and the methods that are registered, those of the user's
own files included. A role is a union that its ``kind`` decides. It is written as one
condition for each kind, so that a mistake is reported for the method that was chosen
and not for all of them. Whether settings fit together is not in it: ``fedserver check``
reports that.
"""

import inspect
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from fedcore.config import Config, Method, descriptions, kind_of, methods
from fedrun.config.model import FederationConfig
from fedrun.methods import load_installed

DRAFT = "http://json-schema.org/draft-07/schema#"  # which all editors read
_DEFINITIONS = "#/$defs/"
_ROLE = "x-role"  # stands for a role until all of them are known


def federation_schema() -> dict[str, Any]:
    """Returns the schema of a federation's YAML, with all methods that are imported."""
    load_installed()
    definitions: dict[str, Any] = {}
    whole = _schema_of(FederationConfig, definitions)
    roles = {role.role: role for role in Method.__subclasses__()}
    for role in roles.values():
        definitions[_name_of(role)] = _union(role)
        for method in methods(role):
            name = f"{_name_of(role)}.{kind_of(method)}"
            definitions[name] = _schema_of(method, definitions)
    _take_short_forms(whole, definitions)
    found = {"$schema": DRAFT, "title": "A federation", **whole, "$defs": definitions}
    resolved: dict[str, Any] = _resolve(found, roles)
    return resolved


class _Generator(GenerateJsonSchema):
    """Leaves the place of a role open; pydantic cannot see what its kinds are."""

    def handle_invalid_for_json_schema(
        self, schema: core_schema.CoreSchema, error_info: str
    ) -> JsonSchemaValue:
        """Returns what allows anything, for a type of a user's own method."""
        return {}

    def function_plain_schema(
        self, schema: core_schema.PlainValidatorFunctionSchema
    ) -> JsonSchemaValue:
        """Returns the name of the role that a field takes."""
        return {_ROLE: schema["metadata"]["role"]}


def _name_of(role: type[Method]) -> str:
    return role.role.replace(" ", "_")


def _union(role: type[Method]) -> dict[str, Any]:
    """Returns the schema of a role: its kinds, and the fields of each of them."""
    kinds = {kind_of(method): method for method in methods(role)}
    choices = [
        {"const": kind, "description": _text(kinds[kind].__doc__).partition("\n\n")[0]}
        for kind in sorted(kinds)
    ]
    return {
        "type": "object",
        "required": ["kind"],
        "properties": {"kind": {"type": "string", "oneOf": choices}},
        "allOf": [
            {
                "if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]},
                "then": {"$ref": f"{_DEFINITIONS}{_name_of(role)}.{kind}"},
            }
            for kind in sorted(kinds)
        ],
    }


def _schema_of(model: type[Config], definitions: dict[str, Any]) -> dict[str, Any]:
    """Returns a model's schema; those of its sections are added to the definitions."""
    found = model.model_json_schema(
        ref_template=f"{_DEFINITIONS}{{model}}", schema_generator=_Generator
    )
    definitions.update(found.pop("$defs", {}))
    for section in _sections(model):
        _describe(definitions[section.__name__], section)
    _describe(found, model)
    return found


def _sections(model: type[BaseModel]) -> set[type[Config]]:
    """Returns the sections inside a model, at any depth."""
    found = set[type[Config]]()
    for info in model.model_fields.values():
        for section in _models_in(info.annotation):
            found |= {section, *_sections(section)}
    return found


def _models_in(annotation: Any) -> set[type[Config]]:
    """Returns the sections in an annotation such as ``TLSConfig | None``."""
    if isinstance(annotation, type) and issubclass(annotation, Config):
        return set() if issubclass(annotation, Method) else {annotation}
    inner = (_models_in(part) for part in getattr(annotation, "__args__", ()))
    return set[type[Config]]().union(*inner)


def _describe(schema: dict[str, Any], model: type[Config]) -> None:
    """Adds what the docstrings of a model and of its fields say."""
    schema["description"] = _text(model.__doc__)
    schema.pop("title", None)
    told: dict[str, str] = {}
    for cls in reversed(model.__mro__):
        if issubclass(cls, Config) and cls.__module__ != Config.__module__:
            told |= descriptions(cls)
    for name, field in schema.get("properties", {}).items():
        field.pop("title", None)
        if name in told:
            field["description"] = _text(told[name])


def _text(doc: str | None) -> str:
    """Returns a docstring as an editor shows it, a paragraph a line."""
    paragraphs = inspect.cleandoc(doc or "").replace("``", "`").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _take_short_forms(whole: dict[str, Any], definitions: dict[str, Any]) -> None:
    """Adds the forms that the settings take besides a whole section."""
    files = whole["properties"]["methods"]
    one = {"anyOf": [{"type": "string"}, files.pop("items")]}
    files.pop("type")
    files["anyOf"] = [one, {"type": "array", "items": one}]
    dropout = definitions["DropoutConfig"]
    share = dropout["properties"]["share"]
    definitions["DropoutConfig"] = {"anyOf": [share, dropout]}


def _resolve(schema: Any, roles: Mapping[str, type[Method]]) -> Any:
    """Returns a schema in which roles are references, in the words of the draft."""
    if isinstance(schema, list):
        return [_resolve(each, roles) for each in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {name: _resolve(each, roles) for name, each in schema.items()}
    if _ROLE in schema:
        role = roles[schema.pop(_ROLE)]
        schema["$ref"] = f"{_DEFINITIONS}{_name_of(role)}"
    if "prefixItems" in schema:  # the name of a later draft
        schema["items"] = schema.pop("prefixItems")
    return schema
