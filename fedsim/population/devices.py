"""The facts that simulated devices report, and the energy that they use.

Devices of similar speed are of one model. The facts of a model follow from its typical
speed, with noise, so that they predict a device's speed, but not exactly. Free memory,
temperature and battery are drawn for each task and say nothing about the speed.
"""

import numpy as np

from fedcore.distributions import Floats, LogNormal
from fedcore.measured import Device
from fedcore.rng import Key
from fedcore.typing import Seconds
from fedrun.config import DevicesConfig
from fedsim.population.chance import Chance

_GIB = 1 << 30
_CORES = (4, 6, 8)


class Devices:
    """The facts of a population's devices.

    Args:
        config: the section ``simulate.devices``.
        key: the key of the population.
        slowness_N: the slowness of each device.
    """

    def __init__(self, config: DevicesConfig, key: Key, slowness_N: Floats) -> None:
        key, count = key.fold_in("devices"), len(slowness_N)
        models = min(config.models, count)
        rank_N = np.argsort(np.argsort(slowness_N, kind="stable"), kind="stable")
        self._model_N = (rank_N * models // count).tolist()
        power_M = np.array(
            [
                1 / np.median(slowness_N[rank_N * models // count == model])
                for model in range(models)
            ]
        )
        noise = LogNormal(sigma=config.noise)

        def noisy(purpose: str) -> Floats:
            drawn_M = Chance(key.fold_in(purpose), models).each()[:models]
            return noise.quantile(drawn_M)

        cores_M = np.resize(_CORES, models)
        mhz_M = 16_000 * power_M * noisy("mhz") / cores_M
        memory_M = 8 * _GIB * np.sqrt(power_M) * noisy("memory")
        self._facts = [
            Device(f"model-{model}", int(cores), float(mhz), int(memory))
            for model, (cores, mhz, memory) in enumerate(
                zip(cores_M, mhz_M, memory_M, strict=True)
            )
        ]
        self._watts = None
        if config.watts is not None:
            watts_M = config.watts * np.sqrt(power_M) * noisy("watts")
            self._watts = watts_M.tolist()
            self._core_watts = (watts_M / cores_M * noisy("core")).tolist()
        self._now = [Chance(key.fold_in(what), count) for what in ("free", "heat")]
        self._battery = Chance(key.fold_in("battery"), count)

    def device(self, who: int, task: int) -> Device:
        """Returns the facts of a device at the time of a task."""
        facts = self._facts[self._model_N[who]]
        free, heat = (chance.one(who, task) for chance in self._now)
        assert facts.memory is not None
        now: Device = facts._replace(
            free=int(facts.memory * (0.2 + 0.4 * free)),
            celsius=30 + 15 * heat,
            battery=self._battery.one(who, task),
        )
        if self._watts is not None:
            now = now._replace(core_watts=self._core_watts[self._model_N[who]])
        return now.clean()

    def joules(self, who: int, seconds: Seconds) -> float | None:
        """Returns the energy that a device uses in this time; None: unknown."""
        if self._watts is None:
            return None
        watts: float = self._watts[self._model_N[who]]
        return watts * seconds
