"""The settings of one simulation, and the numbers of its result."""

import math
from typing import Any

from fedrun.config import FederationConfig
from fedstudies.codecs.pairs import Pair
from fedstudies.trial import Trial

EVALUATIONS = 20  # of each simulation, spread evenly over its versions
TAIL = 0.75  # evaluations after this share of the versions make the result


def settings_of(
    config: FederationConfig, pair: Pair, seed: int, versions: int
) -> dict[str, Any]:
    """Returns the config with this pair and seed, and so many versions, as data."""
    raw = config.model_dump(mode="json")
    raw["algorithm"]["uplink"] = pair.uplink.model_dump(mode="json")
    raw["algorithm"]["downlink"] = pair.downlink.model_dump(mode="json")
    raw["seed"] = seed
    raw["stop"] = {"versions": versions}
    raw["evaluate"]["every_versions"] = max(1, versions // EVALUATIONS)
    return raw


def per_update(nbytes: int, trial: Trial) -> float:
    """Returns the bytes for each update that got a verdict; NaN without updates."""
    return nbytes / trial.decided if trial.decided else math.nan


def last_means(trial: Trial) -> dict[str, float]:
    """Returns the mean of each metric over the last quarter of the versions.

    A metric without a finite value in one of these evaluations is left out. If the
    federation broke down, all metrics are.
    """
    versions = [place.version for place in trial.places]
    late = [i for i, v in enumerate(versions) if v > TAIL * versions[-1]]
    means = {}
    for name, column in trial.metrics.items():
        values = [value for i in late if (value := column[i]) is not None]
        if values and len(values) == len(late) and not trial.broken:
            means[name] = math.fsum(values) / len(values)
    return means
