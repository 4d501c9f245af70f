"""A population of devices: how fast, how well connected, how reliable each one is."""

from dataclasses import dataclass

import numpy as np

from fedcore.rng import Key
from fedcore.typing import Seconds
from fedrun.config import SimulateConfig


@dataclass(slots=True)
class Device:
    """One simulated device and its fate."""

    name: str
    index: int
    count: int
    slowness: float
    up_bytes: float  # per second
    down_bytes: float
    rng: np.random.Generator
    config: SimulateConfig

    def compute(self, steps: int) -> Seconds:
        """How long so many local steps take this time."""
        jitter = float(self.config.jitter.draw(self.rng, 1)[0])
        return steps * self.config.step_seconds * self.slowness * jitter

    def upload(self, nbytes: int) -> Seconds:
        """How long an upload takes."""
        return self.config.link.latency + nbytes / self.up_bytes

    def download(self, nbytes: int) -> Seconds:
        """How long a download takes, the request included."""
        return 2 * self.config.link.latency + nbytes / self.down_bytes

    def happens(self, probability: float) -> bool:
        """Whether a misfortune of this probability strikes now."""
        return probability > 0 and self.rng.random() < probability

    def away(self) -> Seconds:
        """How long it stays away after it was lost."""
        return self.config.away_seconds * float(self.config.away.draw(self.rng, 1)[0])

    def there(self) -> Seconds | None:
        """How long it is there before it goes; None: for ever."""
        if self.config.availability.kind == "always":
            return None
        return float(self.rng.exponential(self.config.availability.there_seconds))

    def gone(self) -> Seconds:
        """How long it is then away."""
        return float(self.rng.exponential(self.config.availability.gone_seconds))


def draw_population(config: SimulateConfig, seed: int) -> list[Device]:
    """The devices of a simulation; the same seed gives the same ones."""
    key = Key.root(seed).fold_in("population")
    rng = key.generator()
    slowness = config.speed.draw(rng, config.clients)
    spread = config.link.spread.draw(rng, config.clients)
    return [
        Device(
            name=f"client-{i}",
            index=i,
            count=config.clients,
            slowness=float(slowness[i]),
            up_bytes=config.link.up_mbit * 125_000 / float(spread[i]),
            down_bytes=config.link.down_mbit * 125_000 / float(spread[i]),
            rng=key.fold_in("device", i).generator(),
            config=config,
        )
        for i in range(config.clients)
    ]
