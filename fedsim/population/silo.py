"""The duration of the steps of a client that divides them among workers.

Lee et al., "Speeding Up Distributed Machine Learning Using Codes", IEEE Transactions on
Information Theory 64(3), 2018, §III: a worker takes its share of the work, and a random
delay that is proportional to it. Each worker has s + 1 of n parts, and the sum is known
once the answers determine it (Tandon et al., "Gradient Coding", ICML 2017).
"""

import math

import numpy as np

from fedcore.coding import sum_ready, usual_kind
from fedcore.rng import Key
from fedrun.config.simulate import SiloConfig
from fedsim.population.chance import Chance

_DRAW = 32  # the lower bits count draws of a task, the upper ones tasks
_BLOCK = 1 << 12  # steps that are drawn at once


class Silo:
    """The workers of every client of a population.

    Args:
        config: the section ``simulate.silo``.
        key: the key of the random numbers.
        count: the number of clients.
    """

    def __init__(self, config: SiloConfig, key: Key, count: int) -> None:
        self._kind = usual_kind(config.workers, config.stragglers)
        self._config, self._chance = config, Chance(key, count)

    def usual_steps(self, who: int, task: int, steps: float) -> float:
        """Returns how many steps without workers take as long as a task's steps.

        Args:
            who: the client.
            task: its task.
            steps: the number of steps; only a part of the last one may be needed.
        """
        workers, stragglers = self._config.workers, self._config.stragglers
        whole, share = math.ceil(steps), (stragglers + 1) / workers
        total = 0.0
        for start in range(0, whole, _BLOCK):
            end = min(start + _BLOCK, whole)
            number_K = np.arange(start * workers, end * workers) | task << _DRAW
            u_K = self._chance.many(np.full_like(number_K, who), number_K)
            delay_K = self._config.delay * self._config.spread.quantile(u_K)
            seconds_SW = share * (1 + delay_K.reshape(-1, workers))
            ready_S = sum_ready(seconds_SW, self._kind, stragglers)
            if end == whole:
                ready_S[-1] *= steps - (whole - 1)
            total += float(ready_S.sum())
        return total
