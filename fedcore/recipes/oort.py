"""Oort: rounds of federated averaging with clients that promise most.

Lai et al., OSDI 2021 (:mod:`fedcore.selection.oort`). Its published code invites 1.1
times the clients that a version is made of.
"""

from typing import ClassVar, Literal

from pydantic import Field

from fedcore import selection
from fedcore.recipes.base import SynchronousConfig
from fedcore.selection import AnySelection


class Oort(SynchronousConfig):
    """Guided selection of the cohort."""

    paper: ClassVar[str] = "Lai et al., OSDI 2021"
    kind: Literal["oort"] = "oort"
    over_selection: float = Field(default=1.1, ge=1, le=10)
    selection: AnySelection = selection.Oort()
