"""Files of prices: of workers that come and go, and of kinds of machines."""

import math
from importlib.resources import files
from pathlib import Path
from typing import Annotated, ClassVar, Self, TypeVar

from pydantic import Field, field_validator, model_validator

from fedcore.config import Config, Duration
from fedcore.errors import ConfigError
from fedcore.planning.paleo import Device
from fedcore.planning.volatile_workers import HOUR, Offer
from fedrun.config.yaml_text import mapping_of, text_of, validate

Price = Annotated[float, Field(gt=0)]
EXAMPLES = files("fedstudies.prices")


class Quantile(Config):
    """One point of F, the distribution of the market's price."""

    share: Annotated[float, Field(gt=0, le=1)]
    """F: the share of time for which the price is at most this one."""
    price: Price
    """Per worker and hour."""


class PreemptibleConfig(Config):
    """Preemptible workers: at one price, or by bids in a market.

    At one price, each worker comes and goes on its own. Under a bid, all of them are
    there while the market's price is at most the bid, and pay that price.
    """

    price: Price | None = None
    """For an hour of presence."""
    preemptions_per_hour: Annotated[float, Field(ge=0)] | None = None
    """How often a worker that is there is taken away."""
    recovery_seconds: Annotated[float, Field(ge=0)] | None = None
    """Mean seconds until it is back."""
    quantiles: tuple[Quantile, ...] = ()
    """Instead of these three: the market's prices, each of which may be a bid."""
    change_seconds: Duration | None = None
    """With quantiles: mean seconds between two changes of the market's price."""

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        fixed = (self.price, self.preemptions_per_hour, self.recovery_seconds)
        if self.quantiles:
            if any(value is not None for value in fixed):
                raise ValueError(
                    "quantiles replace price, preemptions_per_hour and recovery_seconds"
                )
            if self.change_seconds is None:
                raise ValueError("quantiles need change_seconds")
            points = [(each.share, each.price) for each in self.quantiles]
            if points != sorted(points) or len(dict(points)) != len(points):
                raise ValueError("quantiles should rise in share and in price")
            return self
        if any(value is None for value in fixed):
            raise ValueError(
                "needs price, preemptions_per_hour and recovery_seconds, or quantiles"
            )
        if self.change_seconds is not None:
            raise ValueError("change_seconds belongs to quantiles")
        return self

    def offers(self) -> list[Offer]:
        """Returns the offers: one, or one for each bid."""
        if not self.quantiles:
            assert self.price is not None
            assert self.recovery_seconds is not None
            rate = self.preemptions_per_hour
            up = HOUR / rate if rate else math.inf
            return [Offer(self.price, up, self.recovery_seconds)]
        assert self.change_seconds is not None
        found, paid, below = [], 0.0, 0.0
        for point in self.quantiles:
            share = point.share
            paid += (share - below) * point.price
            below = share
            # Each change draws a price anew; a stay ends when it is above the bid.
            up = self.change_seconds / (1 - share) if share < 1 else math.inf
            down = self.change_seconds / share if share < 1 else 0.0
            found.append(Offer(paid / share, up, down, point.price))
        return found

    def bid_for(self, share: float) -> float | None:
        """Returns F^-1: the lowest bid that keeps workers for this share of time."""
        bids = [each.price for each in self.quantiles if each.share >= share]
        return bids[0] if bids else None


class PriceFile(Config):
    """Prices for an hour, in one currency."""

    currency: str = "USD"
    """The name of the currency, which is only shown."""
    wanted: ClassVar[str]
    """The keys that a file has, in words."""
    folder: ClassVar[str]
    """Of the files that come with the program."""


class PricesConfig(PriceFile):
    """Prices of workers for an hour, always there or preemptible, in one currency."""

    on_demand: Price
    """Of a worker that is always there, for an hour."""
    preemptible: PreemptibleConfig
    """Of workers that come and go."""
    restart_seconds: Annotated[float, Field(ge=0)] = 0.0
    """Until a worker that comes later, or comes back, is ready to compute."""
    wanted: ClassVar = "on_demand and preemptible"
    folder: ClassVar = "workers"


class MachineConfig(Device):
    """A kind of machine, with its price."""

    name: str
    price: Price
    """For an hour."""
    link: str | float | None = None
    """Mbit/s of its network, as ``--link`` takes them; None: those of ``--link``."""


class MachinesConfig(PriceFile):
    """Prices of kinds of machines for an hour, in one currency."""

    machines: Annotated[tuple[MachineConfig, ...], Field(min_length=1)]
    """The kinds, each with another name."""
    wanted: ClassVar = "a list of machines"
    folder: ClassVar = "machines"

    @field_validator("machines")
    @classmethod
    def _have_names(
        cls, machines: tuple[MachineConfig, ...]
    ) -> tuple[MachineConfig, ...]:
        names = [each.name for each in machines]
        if len({*names}) < len(names):
            raise ValueError(f"two machines have one name, of {', '.join(names)}")
        return machines


Prices = TypeVar("Prices", bound=PriceFile)


def read_prices(path: Path | str, kind: type[Prices]) -> Prices:
    """Reads a price file, or one that comes with the program by its name.

    Args:
        path: the file or the name.
        kind: says what has a price.

    Raises:
        ConfigError: it is missing or has mistakes.
    """
    path, folder = Path(path), EXAMPLES / kind.folder
    known = sorted(file.name.removesuffix(".yaml") for file in folder.iterdir())
    if path.is_file():
        text = text_of(path)
    elif str(path) in known:
        text = (folder / f"{path}.yaml").read_text(encoding="utf-8")
    else:
        others = (each for each in EXAMPLES.iterdir() if each.is_dir())
        holds = (f"{path}.yaml" in {file.name for file in o.iterdir()} for o in others)
        what = "has prices of another kind" if any(holds) else "there is no such file"
        raise ConfigError(
            f"--prices {path}: {what}; expected one, or one of those that come with "
            f"the program: {', '.join(known)}"
        )
    raw = mapping_of(text, str(path), kind.wanted)
    return validate(kind, raw, str(path), text)
