"""The loss of devices while they compute, and the times of the losses."""

from collections.abc import Callable

import numpy as np

from fedcore.distributions import Floats
from fedcore.errors import ConfigError
from fedcore.rng import Key
from fedcore.typing import Counts
from fedrun.config.simulate import DropoutConfig
from fedsim.population.chance import Chance

MOST = 0.99  # a device that always failed would never deliver
LabelsOf = Callable[[int], Counts | None]  # label counts of a device's data


class Dropout:
    """One draw for each task decides whether its client is lost, and when.

    Args:
        config: the section ``simulate.dropout``.
        key: the key of the draws.
        count: the number of devices.
        slowness_N: the relative time that each device takes for a step.
    """

    def __init__(
        self, config: DropoutConfig, key: Key, count: int, slowness_N: Floats
    ) -> None:
        self._config = config
        self._draws = Chance(key, count)
        self.labels_of: LabelsOf | None = None
        self._share: list[float | None]
        if config.kind == "by_speed":
            relative_N = slowness_N**config.power
            share_N = np.minimum(config.share * relative_N / relative_N.mean(), MOST)
            self._share = share_N.tolist()
        elif config.kind == "by_labels":
            self._share = [None] * count  # known once its data are
        else:
            self._share = [config.share] * count

    @property
    def needs_labels(self) -> bool:
        """Whether ``labels_of`` must be set before the first task."""
        return self._config.kind == "by_labels"

    def one(self, who: int, task: int) -> float | None:
        """Returns the share of its computing after which a client is lost, or None.

        Raises:
            ConfigError: dropout depends on labels, and the data have none.
        """
        share = self._share[who]
        if share is None:
            share = self._share[who] = self._share_by_labels(who)
        drawn = self._draws.one(who, task)
        return drawn / share if drawn < share else None

    def _share_by_labels(self, who: int) -> float:
        counts_C = None if self.labels_of is None else self.labels_of(who)
        if counts_C is None:
            raise ConfigError(
                "simulate.dropout: by_labels needs data whose targets are integer "
                "labels; allowed otherwise: independent, by_speed"
            )
        known = [label for label in self._config.labels if label < len(counts_C)]
        concerned = int(np.asarray(counts_C)[known].sum())
        mostly = concerned > self._config.above * int(np.sum(counts_C))
        return self._config.share if mostly else self._config.others
