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
from typing import NamedTuple

import numpy as np

from fedcore.errors import ConfigError
from fedcore.planning.error_curves import Curves, Fit, Pilot

LEAST_EVALUATIONS = 6  # of all pilots together, per fitted number and half again
LEAST_SPREAD = 1.25  # of E[1/y] between pilots, as a ratio
NEAR = 0.8  # the share of the way to the target that a pilot must have gone
NEAR_RATIO = 4.0  # and how many times the target its error may be at best
_HALVINGS = 12


class ErrorModel(NamedTuple):
    """The fitted numbers, and how well they fit."""

    limit: float
    a: float
    rho: float
    b: float
    r_squared: float
    """The share of the variance of the fitted errors that the model explains."""
    inverse_low: float
    """The least E[1/y] of a pilot; plans below it are extrapolated."""
    inverse_high: float
    versions: int
    """The length of the longest pilot; plans beyond it are extrapolated."""

    def error(self, versions: float, inverse: float) -> float:
        """Returns the error after this many versions with this E[1/y]."""
        left = float(self.rho**versions)
        return self.limit + self.a * left + self.b * inverse * (1 - left)

    def floor(self, inverse: float) -> float:
        """Returns the error that is left after many versions."""
        return self.limit + self.b * inverse

    def after(self, versions: float, inverse: float) -> "ErrorModel":
        """Returns the model from then on, for when the number of workers changes.

        With E[1/y_j] that changes, error_j = limit + a ρ^j + b z_j, where z_0 = 0 and
        z_j = ρ z_(j-1) + (1 - ρ) E[1/y_j]. Each version multiplies a ρ^j and z_j by ρ
        alike, so that only their sum matters later, which is the new a.
        """
        return self._replace(a=self.error(versions, inverse) - self.limit)

    def inverse_to(self, error: float, versions: float) -> float:
        """Returns Q, the largest constant E[1/y] with which the versions are enough."""
        left = float(self.rho**versions)
        room = error - self.limit - self.a * left
        return room / (self.b * (1 - left)) if self.b else math.copysign(math.inf, room)

    def versions_to(self, error: float, inverse: float) -> int | None:
        """Returns the least number of versions after which the error is small enough.

        Returns:
            The number, at least 1, or None if the error never gets there.
        """
        if self.error(1, inverse) <= error:
            return 1
        room = error - self.floor(inverse)
        if room <= 0:
            return None
        slope = self.a - self.b * inverse  # above 0, since the error has to fall
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
    # Half-lives from half a version to four times the longest pilot.
    curves = Curves.of(pilots, slowest=4.0)
    return _model(pilots, curves, curves.fit())


def fit_lowest_limit(pilots: Sequence[Pilot]) -> ErrorModel:
    """Fits the model with the lowest limit that the pilots leave possible.

    A loss falls fast first and slowly later, and the model has one rate. A short pilot
    shows the fast rate, by which the limit comes out too high. So only the second half
    of the pilots is fitted, where the fast part is over; and of all limits whose sum of
    squares is not significantly larger than the least one (the profile likelihood, at
    95 %), the lowest is taken. If the pilots have flattened, it is near the best one.

    Args:
        pilots: those that :func:`fit_error_model` takes.
    """
    # What is slower than the pilots are long cannot be told from a limit.
    curves = Curves.of(pilots, slowest=1.0, begin=0.5)
    best = curves.fit()
    allowed = curves.noise_limit(best)
    low, high = 0.0, best.limit
    lowest = curves.fit(low)
    if lowest.loss <= allowed:
        return _model(pilots, curves, lowest)
    lowest = best
    for _ in range(_HALVINGS):
        found = curves.fit((low + high) / 2)
        if found.loss <= allowed:
            lowest, high = found, found.limit
        else:
            low = found.limit
    return _model(pilots, curves, lowest)


def _model(pilots: Sequence[Pilot], curves: Curves, fit: Fit) -> ErrorModel:
    inverses = [float(np.mean(pilot.inverse_J)) for pilot in pilots]
    spread = float(((curves.errors_E - curves.errors_E.mean()) ** 2).sum())
    return ErrorModel(
        limit=fit.limit,
        a=fit.a,
        rho=float(curves.rho_R[fit.place]),
        b=fit.b,
        r_squared=1 - fit.loss / spread if spread else 0.0,
        inverse_low=min(inverses),
        inverse_high=max(inverses),
        versions=max(pilot.versions_E[-1] for pilot in pilots),
    )


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
    if all(pilot.errors_E[0] <= target for pilot in pilots):
        raise ConfigError(
            f"pilots: the first models have reached the target already: an error of "
            f"{max(pilot.errors_E[0] for pilot in pilots):.3g}, where {target:.3g} is "
            "enough; there is nothing to plan"
        )
    nearest = min(pilots, key=lambda pilot: min(pilot.errors_E))
    first, least = nearest.errors_E[0], min(nearest.errors_E)
    is_far = first - least < NEAR * (first - target) or least > NEAR_RATIO * target
    if first > target and is_far:
        raise ConfigError(
            f"pilots: never came near the target: in the best one the error went from "
            f"{first:.3g} to {least:.3g}, and should reach {target:.3g}; make the "
            "pilots longer, or the target easier"
        )
