"""One pair, one seed: the settings of its simulation, and the numbers of its result."""

import math
from typing import Any

from fedrun.config import FederationConfig
from fedsim.experiments.codecs.pairs import Pair
from fedsim.experiments.trial import Trial

EVALUATIONS = 20  # of each simulation, evenly spread over its versions
TAIL = 0.75  # evaluations after this share of the versions make the result


def settings_of(
    config: FederationConfig, pair: Pair, seed: int, versions: int
) -> dict[str, Any]:
    """The federation with this pair, this seed and this number of versions."""
    raw = config.model_dump(mode="json")
    raw["algorithm"]["uplink"] = pair.uplink.model_dump(mode="json")
    raw["algorithm"]["downlink"] = pair.downlink.model_dump(mode="json")
    raw["seed"] = seed
    raw["stop"] = {"versions": versions}
    raw["evaluate"]["every_versions"] = max(1, versions // EVALUATIONS)
    return raw


def up_per_update(trial: Trial) -> float:
    """Bytes that went up for each update with a verdict; NaN without updates."""
    return trial.bytes_up / trial.decided if trial.decided else math.nan


def down_per_update(trial: Trial) -> float:
    """Bytes that went down for each update, those of lost tasks included."""
    return trial.bytes_down / trial.decided if trial.decided else math.nan


def last_means(trial: Trial) -> dict[str, float]:
    """The mean of each metric over the last quarter of the versions.

    A metric that was lost in one of these evaluations is left out, and all of them
    are where the federation broke down.
    """
    versions = [place.version for place in trial.places]
    late = [i for i, v in enumerate(versions) if v > TAIL * versions[-1]]
    means = {}
    for name, column in trial.metrics.items():
        values = [value for i in late if (value := column[i]) is not None]
        if values and len(values) == len(late) and not trial.broken:
            means[name] = math.fsum(values) / len(values)
    return means
