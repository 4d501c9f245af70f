"""Fits distributions to a recording, as a section ``simulate:``.

A task of client i takes steps · scale · speed_i · jitter. Speeds are the medians of the
clients' tasks, and jitter is the rest. Each kind of distribution is fitted in its own
way. The fit with the smallest Kolmogorov-Smirnov statistic is chosen; this is the
largest distance between its distribution function and that of the values.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fedcore.config import methods
from fedcore.distributions import DistributionConfig, Empirical, Fitted, Floats, Same
from fedcore.errors import ConfigError
from fedsim.traces.journal import Recording

_ALIKE = 1.001  # up to this ratio of largest and smallest value there is no spread
_AT_5_PERCENT = 1.358  # the statistic's critical value, times the root of the count
_FREE = 1e6  # Mbit/s: the tasks' times include transfers already
_DIGITS = 4


class Fit(NamedTuple):
    """The distribution for some values, and the fit of each kind to them."""

    what: str
    values: int  # the number of values
    chosen: Fitted
    statistics: dict[str, float]  # statistics by kind, the best one first

    @property
    def bound(self) -> float:
        """The statistic that 5 % of true samples of this size exceed."""
        return _AT_5_PERCENT / math.sqrt(self.values)


def ks_statistic(x_N: Floats, fitted: Fitted) -> float:
    """Returns the Kolmogorov-Smirnov statistic sup |F_n(x) - F(x)|.

    Args:
        x_N: the values.
        fitted: the distribution F.
    """
    x_N = np.sort(x_N)
    share_N = fitted.config.cdf(x_N / fitted.scale)
    step_N = np.arange(len(x_N) + 1) / len(x_N)
    above, below = step_N[1:] - share_N, share_N - step_N[:-1]
    return float(max(above.max(), below.max()))


def fit(what: str, values: Sequence[float]) -> Fit:
    """Fits each kind of distribution to these values.

    Args:
        what: the name of the values.
        values: the values, all above 0.

    Returns:
        The kind that fits best. If its statistic is above the bound, the values
        themselves are the distribution.
    """
    x_N = np.asarray(values, np.float64)
    median = float(np.median(x_N))
    if x_N.max() <= _ALIKE * x_N.min():
        return Fit(what, len(x_N), Fitted(median, Same()), {"same": 0.0})
    tried = [
        fitted
        for method in methods(DistributionConfig)
        if issubclass(method, DistributionConfig)
        and (fitted := method.fit(x_N)) is not None
    ]
    judged = sorted(
        ((ks_statistic(x_N, each), each) for each in tried), key=lambda each: each[0]
    )
    statistics = {each.config.kind: value for value, each in judged}
    best = Fit(what, len(x_N), judged[0][1], statistics)
    if judged[0][0] > best.bound:
        own = Fitted(median, Empirical.of(x_N / median))
        return best._replace(chosen=own)
    return best


def fit_section(recording: Recording) -> tuple[dict[str, Any], list[Fit]]:
    """Returns the section ``simulate:`` for a recording, and the fit of each part.

    Raises:
        ConfigError: no task was finished.
    """
    taken = [
        np.array(client.seconds_a_step(client.latency or 0.0))
        for client in recording.clients
    ]
    taken = [np.maximum(each_T, 1e-9) for each_T in taken if len(each_T)]
    if not taken:
        raise ConfigError("no task was finished in this run: there is nothing to fit")
    medians = [float(np.median(each_T)) for each_T in taken]
    speed = fit("speed", medians)
    ratios = [each_T / m for each_T, m in zip(taken, medians, strict=True)]
    jitter = fit("jitter", np.concatenate(ratios).tolist())
    latency = float(np.median([client.latency or 0.0 for client in recording.clients]))
    fits = [speed, jitter]
    section: dict[str, Any] = {
        "clients": len(recording.clients),
        "step_seconds": _short(speed.chosen.scale * jitter.chosen.scale),
        "speed": _plain(speed.chosen.config),
        "jitter": _plain(jitter.chosen.config),
        "link": {"up_mbit": _FREE, "down_mbit": _FREE, "latency": _short(latency)},
    }
    begun = recording.finished + recording.unfinished
    if recording.unfinished:
        section["dropout"] = _short(recording.unfinished / begun)
    if recording.absences:
        away = fit("away", recording.absences)
        fits.append(away)
        section["away"] = _plain(away.chosen.config)
        section["away_seconds"] = _short(away.chosen.scale)
    return section, fits


def _plain(config: DistributionConfig) -> dict[str, Any]:
    """Returns a distribution as plain data for YAML."""
    return {
        name: _short(value) if isinstance(value, float) else value
        for name, value in config.model_dump(mode="json", exclude_none=True).items()
    }


def _short(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
