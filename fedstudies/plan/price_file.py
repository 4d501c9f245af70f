"""The file of prices: what workers cost, and how often preemptible ones leave."""

import math
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from fedcore.config import Config, Duration
from fedcore.errors import ConfigError
from fedcore.planning.volatile_workers import HOUR, Offer
from fedrun.config.yaml_text import mapping_of, text_of, validate

Price = Annotated[float, Field(gt=0)]
EXAMPLES = files("fedstudies.plan") / "prices"


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


class PricesConfig(Config):
    """Prices of workers for an hour, always there or preemptible, in one currency."""

    currency: str = "USD"
    """The name of the currency, which is only shown."""
    on_demand: Price
    """Of a worker that is always there, for an hour."""
    preemptible: PreemptibleConfig
    """Of workers that come and go."""
    restart_seconds: Annotated[float, Field(ge=0)] = 0.0
    """Until a worker that comes later, or comes back, is ready to compute."""


def read_prices(path: Path | str) -> PricesConfig:
    """Reads a price file, or one that comes with the program by its name.

    Raises:
        ConfigError: it is missing or has mistakes.
    """
    path = Path(path)
    known = sorted(
        file.name.removesuffix(".yaml")
        for file in EXAMPLES.iterdir()
        if file.name.endswith(".yaml")
    )
    if path.is_file():
        text = text_of(path)
    elif str(path) in known:
        text = (EXAMPLES / f"{path}.yaml").read_text(encoding="utf-8")
    else:
        raise ConfigError(
            f"--prices {path}: there is no such file; expected one, or one of those "
            f"that come with the program: {', '.join(known)}"
        )
    raw = mapping_of(text, str(path), "on_demand and preemptible")
    return validate(PricesConfig, raw, str(path), text)
