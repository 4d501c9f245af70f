"""Measured values, each as likely as the others."""

from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedcore.distributions.base import DistributionConfig, Floats
from fedcore.errors import ConfigError

_SHOWN = 100  # quantiles that stand for the values in a config


class Empirical(DistributionConfig):
    """One of the values, as they are: their own mean and median, whatever these are."""

    kind: Literal["empirical"] = "empirical"
    values: tuple[Annotated[float, Field(gt=0)], ...] = ()
    """What was measured, in units of what is scaled; or else:"""
    file: str | None = None
    """A file with one value a line, as a CSV of one column has them."""

    @classmethod
    def example(cls) -> "Empirical":
        """Returns a distribution of three values."""
        return cls(values=(0.5, 1.0, 2.5))

    @model_validator(mode="after")
    def _check_given(self) -> Self:
        if (self.file is None) == (not self.values):
            raise ValueError("give values or a file that has them, one of both")
        return self

    def _sort(self) -> Floats:
        if not self.values:
            raise ConfigError(f"empirical: the values of {self.file} were not read")
        return np.sort(np.array(self.values))

    def quantile(self, u_N: Floats) -> Floats:
        """Returns the values in ascending order; each has an equal share of (0, 1)."""
        x_K = self._sort()
        return x_K[(u_N * len(x_K)).astype(np.int64)]

    def cdf(self, x_N: Floats) -> Floats:
        """Returns the share of the values up to x."""
        x_K = self._sort()
        return np.searchsorted(x_K, x_N, side="right") / len(x_K)

    @classmethod
    def of(cls, x_N: Floats) -> "Empirical":
        """Returns the distribution of these values, or of 100 quantiles of more."""
        x_N = np.sort(x_N)
        if len(x_N) > _SHOWN:
            x_N = np.quantile(x_N, (np.arange(_SHOWN) + 0.5) / _SHOWN)
        return cls(values=tuple(x_N.tolist()))
