"""A JSON schema of the config file, from which an editor completes and checks it.

It is made from the settings and from the methods that are registered, those of the
user's own files included. A role is a union that its ``kind`` decides, written as one
condition for each kind: so a mistake is reported for the method that was chosen, and not
for all of them. What the program checks beyond single fields, such as settings that do
not fit together, ``fedserver check`` alone reports.
"""

import inspect
import json
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from fedcore.config import Config, Method, descriptions, kind_of, methods
from fedrun.config.model import FederationConfig
from fedrun.config.simulate import DropoutConfig
from fedrun.methods import load_installed

DRAFT = "http://json-schema.org/draft-07/schema#"  # what all editors read
_REFERENCE = "#/$defs/{model}"


class _Generator(GenerateJsonSchema):
    """Refers to roles, and remembers those that it met."""

    roles: dict[str, type[Method]]

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.roles = _ROLES

    def function_plain_schema(
        self, schema: core_schema.PlainValidatorFunctionSchema
    ) -> JsonSchemaValue:
        """Returns a reference to the role that a field takes."""
        role = schema["metadata"]["role"]
        self.roles[role.role] = role
        return {"x-role": role.role}
