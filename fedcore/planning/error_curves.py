"""The error curves of pilots, and their least-squares fits.

A fit is of limit, a and b for each ρ on a grid: the model of
:mod:`fedcore.planning.error_model` is linear in them.
"""

import math
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_RATES = 160
_NUMBERS = 4  # limit, a, ρ and b
_SIGNIFICANT = 3.84  # the 95 % quantile of χ² with one degree of freedom


class Pilot(NamedTuple):
    """One short run."""

    versions_E: Sequence[int]
    """The version of each evaluation, rising."""
    errors_E: Sequence[float]
    """Its error: the loss, or 1 minus the accuracy."""
    inverse_J: Sequence[float]
    """1/y of each version from the first one on."""


class Fit(NamedTuple):
    """The numbers of the model, and how well they fit."""

    limit: float
    a: float
    b: float
    place: int
    """Of ρ among the rates that were tried."""
    loss: float
    """The sum of squares."""


class Curves(NamedTuple):
    """The evaluations of all pilots, and the terms of the model for each rate."""

    rho_R: Floats
    left_RE: Floats
    """ρ^J."""
    noise_RE: Floats
    """(1 - ρ) Σ_j ρ^(J-j) / y_j."""
    errors_E: Floats
    pilot_E: npt.NDArray[np.intp]

    @classmethod
    def of(
        cls, pilots: Sequence[Pilot], *, slowest: float, begin: float = 0.0
    ) -> "Curves":
        """Gathers the evaluations.

        Args:
            pilots: the pilots.
            slowest: the longest half-life, as a multiple of the longest pilot.
            begin: the part of each pilot that is left out, as a share of its versions.
        """
        longest = max(pilot.versions_E[-1] for pilot in pilots)
        rho_R = 0.5 ** (1 / np.geomspace(0.5, slowest * longest, _RATES))
        parts = []
        for number, pilot in enumerate(pilots):
            left_RE, noise_RE = _terms(pilot, rho_R)
            at_E = np.asarray(pilot.versions_E)
            kept_E = at_E >= begin * at_E[-1]
            errors_E = np.asarray(pilot.errors_E, np.float64)[kept_E]
            pilot_E = np.full(len(errors_E), number)
            parts.append((left_RE[:, kept_E], noise_RE[:, kept_E], errors_E, pilot_E))
        left, noise, errors, numbers = zip(*parts, strict=True)
        return cls(
            rho_R,
            np.hstack(left),
            np.hstack(noise),
            np.concatenate(errors),
            np.concatenate(numbers),
        )

    def fit(self, limit: float | None = None) -> Fit:
        """Returns the best fit; with a limit, the best one that has it."""
        best = Fit(0.0, 0.0, 0.0, 0, math.inf)
        for place, terms in enumerate(zip(self.left_RE, self.noise_RE, strict=True)):
            if limit is None:
                columns_E3 = np.stack([np.ones_like(terms[0]), *terms], axis=1)
                (own, a, b), loss = _not_negative(columns_E3, self.errors_E)
            else:
                columns_E2 = np.stack(terms, axis=1)
                own, errors_E = limit, self.errors_E - limit
                (a, b), loss = _not_negative(columns_E2, errors_E)
            if loss < best.loss:
                best = Fit(own, a, b, place, loss)
        return best

    def noise_limit(self, best: Fit) -> float:
        """Returns the sum of squares up to which a fit is the best within noise.

        Errors of neighbouring evaluations are alike: they count as fewer independent
        ones, by the correlation of what the best fit leaves.
        """
        count = len(self.errors_E)
        if count <= _NUMBERS:
            return math.inf
        left_E, noise_E = self.left_RE[best.place], self.noise_RE[best.place]
        rest_E = self.errors_E - best.limit - best.a * left_E - best.b * noise_E
        is_next_E = self.pilot_E[1:] == self.pilot_E[:-1]
        products_E = (rest_E[1:] * rest_E[:-1])[is_next_E]
        alike = max(0.0, float(products_E.sum()) / best.loss) if best.loss else 0.0
        independent = count * (1 - alike) / (1 + alike)
        return best.loss * (1 + _SIGNIFICANT / max(1.0, independent - _NUMBERS))


def _terms(pilot: Pilot, rho_R: Floats) -> tuple[Floats, Floats]:
    """Returns ρ^J and (1 - ρ) Σ_j ρ^(J-j) / y_j by rate and evaluation, (R, E)."""
    at_E = np.asarray(pilot.versions_E)
    noise_RE = np.zeros((len(rho_R), len(at_E)))
    noise_R, place = np.zeros_like(rho_R), 0
    for version in range(at_E[-1] + 1):
        if version:
            noise_R = rho_R * noise_R + (1 - rho_R) * pilot.inverse_J[version - 1]
        while place < len(at_E) and at_E[place] == version:
            noise_RE[:, place] = noise_R
            place += 1
    return rho_R[:, None] ** at_E, noise_RE


def _not_negative(columns_EN: Floats, errors_E: Floats) -> tuple[list[float], float]:
    """Solves least squares without negative numbers, by all sets of columns.

    Returns:
        The numbers, and the sum of squares.
    """
    count = columns_EN.shape[1]
    found, best = [0.0] * count, float((errors_E**2).sum())
    for size in range(1, count + 1):
        for chosen in combinations(range(count), size):
            part = columns_EN[:, chosen]
            numbers, *_ = np.linalg.lstsq(part, errors_E, rcond=None)
            if numbers.min() < 0:
                continue
            loss = float(((part @ numbers - errors_E) ** 2).sum())
            if loss < best:
                found, best = [0.0] * count, loss
                for place, number in zip(chosen, numbers, strict=True):
                    found[place] = float(number)
    return found, best
