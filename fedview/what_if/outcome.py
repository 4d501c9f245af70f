"""The model that a run ends with, as it was recorded or as it was replayed."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

from fedcore.params import ParamSpec, Rest
from fedcore.typing import Vector
from fedrun.files import complete, save_model
from fedrun.units import amount
from fedview.results.coverage import Coverage


@dataclass(frozen=True)
class Outcome:
    """The last model, and what it is made of."""

    spec: ParamSpec
    flat_D: Vector
    """The model as one vector, shape (D,)."""
    rest: Rest
    """The frozen weights and other tensors of a whole checkpoint."""
    version: int
    updates: int
    """How many updates are in the model."""
    buffered: int
    """How many of them were in the buffer, of which the last version is made here."""
    coverage: Coverage
    """The shares of clients and labels."""

    @property
    def model(self) -> dict[str, npt.NDArray[Any]]:
        """The named arrays, in the shapes of the layers."""
        return complete(self.spec.unflatten(self.flat_D), self.rest)

    @property
    def sentence(self) -> str:
        """The version and what it is made of."""
        version, updates = self.version, self.updates
        if not self.buffered:
            return f"version {version}, {amount(updates, 'update')} in the model"
        before = amount(updates - self.buffered, "update")
        return (
            f"version {version - 1}, {before} in the model and {self.buffered} in the "
            f"buffer, which the comparison adds as version {version}"
        )

    def save(self, path: Path) -> None:
        """Writes the model to a safetensors file."""
        save_model(
            path, self.spec, self.flat_D, rest=self.rest, version=str(self.version)
        )

    def share(self, name: str) -> float:
        """Returns the share that the clients of this name have in all updates."""
        mass = sum(c.mass for c in self.coverage.clients.values() if c.name == name)
        return mass / self.coverage.mass if self.coverage.mass else 0.0
