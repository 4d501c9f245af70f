"""The contract of recipes: a published system as a set of defaults."""

from typing import Annotated

from fedcore.algorithm import AlgorithmConfig
from fedcore.config import OneOf

AnyRecipe = Annotated[AlgorithmConfig, OneOf()]
