"""The error model of volatile workers, fitted to pilot runs.

Zhang, Wang, Joshi, Joe-Wong, "Machine Learning on Volatile Instances", INFOCOM 2020,
arXiv 2003.05649, bound the gap of synchronous SGD on a strongly convex loss: with y_j
workers active in version j, E[gap_J] <= ρ^J gap_0 + (α²LM/2) Σ_j ρ^(J-j) E[1/y_j]. We
use the sum as it is. With a constant E[1/y] it is geometric, so that

    error(J) = limit + a ρ^J + b E[1/y] (1 - ρ^J),   b = α²LM / (2 (1 - ρ)).

In a pilot y_j is known, and the sum is computed from it. ``limit`` is the error that no
number of workers removes: an accuracy below 1, or the loss of the best model. It is
fitted, too. The bound is quoted from memory of the paper, whose theorems were not
within reach.
"""

import math
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fedcore.errors import ConfigError

Floats = npt.NDArray[np.float64]

LEAST_EVALUATIONS = 6  # of all pilots together, per fitted number and half again
LEAST_SPREAD = 1.25  # of E[1/y] between pilots, as a ratio
NEAR = 0.8  # the share of the way to the target that a pilot must have gone
NEAR_RATIO = 4.0  # and how many times the target its error may be at best
_RATES = 160


class Pilot(NamedTuple):
    """One short run."""

    versions_E: Sequence[int]
    """The version of each evaluation, rising."""
    errors_E: Sequence[float]
    """Its error: the loss, or 1 minus the accuracy."""
    inverse_J: Sequence[float]
    """1/y of each version from the first one on."""


class ErrorModel(NamedTuple):
    """The fitted numbers, and how well they fit."""

    limit: float
    a: float
    rho: float
    b: float
    r_squared: float
    """The share of the variance of the pilots' errors that the model explains."""
    inverse_low: float
    """The least E[1/y] of a pilot; plans below it are extrapolated."""
    inverse_high: float
    versions: int
    """The length of the longest pilot; plans beyond it are extrapolated."""

    def error(self, versions: float, inverse: float) -> float:
        """The error after this many versions with this E[1/y]."""
        left = float(self.rho**versions)
        return self.limit + self.a * left + self.b * inverse * (1 - left)

    def floor(self, inverse: float) -> float:
        """The error that is left after many versions."""
        return self.limit + self.b * inverse

    def versions_to(self, error: float, inverse: float) -> int | None:
        """The least number of versions after which the error is small enough.

        Returns:
            The number, at least 1, or None if the error never gets there.
        """
        if self.error(1, inverse) <= error:
            return 1
        room = error - self.floor(inverse)
        slope = self.a - self.b * inverse
        if room <= 0 or slope <= 0:
            return None
        versions = max(1, math.ceil(math.log(room / slope) / math.log(self.rho)))
        while self.error(versions, inverse) > error:  # by rounding
            versions += 1
        return versions


def fit_error_model(pilots: Sequence[Pilot], target: float) -> ErrorModel:
    """Fits the model to pilots by least squares, with no negative number.

    Args:
        pilots: at least two, with different numbers of active workers.
        target: the error that is to be reached.

    Raises:
        ConfigError: the pilots cannot support a conclusion; says why.
    """
    _check(pilots, target)
    longest = max(pilot.versions_E[-1] for pilot in pilots)
    # Half-lives from half a version to four times the longest pilot.
    rho_R = 0.5 ** (1 / np.geomspace(0.5, 4 * longest, _RATES))
    left_RE, noise_RE = map(
        np.hstack, zip(*(_terms(pilot, rho_R) for pilot in pilots), strict=True)
    )
    errors_E = np.concatenate([np.asarray(p.errors_E, np.float64) for p in pilots])
    best, found = math.inf, (0.0, 0.0, 0.0, 0.0)
    for rho, left_E, noise_E in zip(rho_R, left_RE, noise_RE, strict=True):
        columns_E3 = np.stack([np.ones_like(left_E), left_E, noise_E], axis=1)
        numbers, loss = _not_negative(columns_E3, errors_E)
        if loss < best:
            best, found = loss, (*numbers, float(rho))
    spread = float(((errors_E - errors_E.mean()) ** 2).sum())
    inverses = [float(np.mean(pilot.inverse_J)) for pilot in pilots]
    limit, a, b, rho = found
    return ErrorModel(
        limit=limit,
        a=a,
        rho=rho,
        b=b,
        r_squared=1 - best / spread if spread else 0.0,
        inverse_low=min(inverses),
        inverse_high=max(inverses),
        versions=longest,
    )


def _terms(pilot: Pilot, rho_R: Floats) -> tuple[Floats, Floats]:
    """ρ^J and (1 - ρ) Σ_j ρ^(J-j) / y_j for each rate and evaluation, (R, E) each."""
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


def _not_negative(
    columns_E3: Floats, errors_E: Floats
) -> tuple[tuple[float, float, float], float]:
    """Least squares without negative numbers: the best of all sets of columns."""
    best, found = math.inf, (0.0, 0.0, 0.0)
    for size in (1, 2, 3):
        for chosen in combinations(range(3), size):
            part = columns_E3[:, chosen]
            numbers, *_ = np.linalg.lstsq(part, errors_E, rcond=None)
            if numbers.min() < 0:
                continue
            loss = float(((part @ numbers - errors_E) ** 2).sum())
            if loss < best:
                whole = [0.0, 0.0, 0.0]
                for place, number in zip(chosen, numbers, strict=True):
                    whole[place] = float(number)
                best, found = loss, (whole[0], whole[1], whole[2])
    return found, best


def _check(pilots: Sequence[Pilot], target: float) -> None:
    """Raises ConfigError where the pilots cannot support a conclusion."""
    if len(pilots) < 2:
        raise ConfigError(
            f"pilots: expected at least 2 with different numbers of active workers, "
            f"got {len(pilots)}; one cannot tell what another worker is worth"
        )
    for pilot in pilots:
        if not pilot.versions_E or len(pilot.inverse_J) < pilot.versions_E[-1]:
            raise ConfigError("pilots: one of them has no evaluations")
        if not np.isfinite(pilot.errors_E).all():
            raise ConfigError("pilots: one of them diverged; lower the learning rate")
    evaluations = sum(len(pilot.versions_E) for pilot in pilots)
    if evaluations < LEAST_EVALUATIONS or max(p.versions_E[-1] for p in pilots) < 3:
        raise ConfigError(
            f"pilots: too short, with {evaluations} evaluations in all; expected at "
            f"least {LEAST_EVALUATIONS} and 3 versions"
        )
    inverses = [float(np.mean(pilot.inverse_J)) for pilot in pilots]
    if max(inverses) < LEAST_SPREAD * min(inverses):
        raise ConfigError(
            f"pilots: all have about as many active workers (E[1/y] from "
            f"{min(inverses):.3g} to {max(inverses):.3g}), so they cannot tell what "
            "another worker is worth"
        )
    first = max(pilot.errors_E[0] for pilot in pilots)
    least = min(min(pilot.errors_E) for pilot in pilots)
    is_far = first - least < NEAR * (first - target) or least > NEAR_RATIO * target
    if first > target and is_far:
        raise ConfigError(
            f"pilots: never came near the target: the error went from {first:.3g} to "
            f"{least:.3g} and should reach {target:.3g}; make the pilots longer, or "
            "the target easier"
        )
