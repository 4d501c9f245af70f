"""The section ``simulate``: a population of simulated clients."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from fedcore.coding import check_silo
from fedcore.config import Config, Count, Duration
from fedcore.distributions import (
    AnyDistribution,
    DistributionConfig,
    ExponentialDistribution,
    Same,
)
from fedcore.errors import ConfigError
from fedcore.text import brief
from fedrun.config.engine import EngineConfig
from fedrun.config.values import AnyPath, map_values

Share = Annotated[float, Field(ge=0, lt=1)]  # at 1 nothing would ever arrive
Change = Callable[[DistributionConfig], DistributionConfig]


def _as_typed(given: Any) -> Any:
    """Turns a number, as YAML reads it, into text, as a command line gives it."""
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    return str(given) if is_number else given


Word = Annotated[
    str, BeforeValidator(_as_typed), WithJsonSchema({"type": ["string", "number"]})
]

_AVAILABILITY = {
    "always": (),
    "on_off": ("there_seconds", "gone_seconds"),
    "diurnal": ("day_seconds", "share", "zones", "zone_spread", "attendance"),
    "trace": ("file", "repeat"),
}
_DROPOUT = {
    "independent": ("share",),
    "by_speed": ("share", "power"),
    "by_labels": ("share", "labels", "above", "others"),
}


def _only(section: Config, kind: str, fields_of: Mapping[str, tuple[str, ...]]) -> None:
    """Raises ValueError if a field was changed that the section's kind ignores."""
    used = fields_of[kind]
    for name, field in type(section).model_fields.items():
        if name == "kind" or name in used or getattr(section, name) == field.default:
            continue
        owners = " or ".join(kind for kind, names in fields_of.items() if name in names)
        raise ValueError(f"{name} belongs to kind {owners}, and the kind is {kind}")


class LinkConfig(Config):
    """The network links of simulated clients, and how much they differ."""

    up_mbit: Annotated[float, Field(gt=0)] = 10.0
    """Uplink rate in Mbit/s; the spread divides it."""
    down_mbit: Annotated[float, Field(gt=0)] = 50.0
    """Downlink rate in Mbit/s; the spread divides it."""
    latency: Annotated[float, Field(ge=0)] = 0.05
    """Seconds that each message takes in addition."""
    spread: AnyDistribution = Same()
    """How much the clients' rates differ."""
    latency_spread: AnyDistribution = Same()
    """How much their latencies differ."""


class AvailabilityConfig(Config):
    """When clients are available. A field that the kind does not use is an error.

    `always`; `on_off`: available and away for exponential times (a Markov chain, in its
    steady state from the beginning); `diurnal`: for a share of each day, by time zones;
    `trace`: as a file says, see the page on simulation.
    """

    kind: Literal["always", "on_off", "diurnal", "trace"] = "always"
    there_seconds: Duration = 600.0
    """on_off: mean seconds that a client is available."""
    gone_seconds: Duration = 300.0
    """on_off: mean seconds that it is away."""
    day_seconds: Duration = 86400.0
    """diurnal: how long a day is."""
    share: Annotated[float, Field(gt=0, le=1)] = 0.4
    """diurnal: the share of a day that a client is available, without a break."""
    zones: Count = 1
    """diurnal: the number of time zones, spread over the day; a client is in one."""
    zone_spread: Annotated[float, Field(ge=0, le=1)] = 0.1
    """diurnal: clients of a zone begin their day within this share of a day."""
    attendance: Annotated[float, Field(ge=0.001, le=1)] = 1.0
    """diurnal: the share of days on which a client is available at all."""
    file: AnyPath | None = None
    """trace: the CSV, whose clients are used in turn; by default simulate.trace."""
    repeat: bool = False
    """trace: begin again at its end; otherwise all clients leave for good there."""

    @model_validator(mode="after")
    def _fits_the_kind(self) -> Self:
        _only(self, self.kind, _AVAILABILITY)
        return self


class DropoutConfig(Config):
    """Clients that are lost while they compute. A plain number is a share.

    `independent`: every task alike; `by_speed`: the slower a device, the more of its
    tasks; `by_labels`: those of clients whose data are mostly of some classes.
    """

    kind: Literal["independent", "by_speed", "by_labels"] = "independent"
    share: Share = 0.0
    """Share of tasks that are lost; by_labels: of tasks of clients with the labels."""
    power: Annotated[float, Field(gt=0)] = 1.0
    """by_speed: a device's share grows as slowness to this power (.99 at most)."""
    labels: tuple[Annotated[int, Field(ge=0)], ...] = ()
    """by_labels: the classes."""
    above: Annotated[float, Field(ge=0, lt=1)] = 0.4
    """by_labels: more than this share of a client's data is of these classes."""
    others: Share = 0.0
    """by_labels: the share of lost tasks of all other clients."""

    @model_validator(mode="before")
    @classmethod
    def _plain_number(cls, given: Any) -> Any:
        if isinstance(given, int | float) and not isinstance(given, bool):
            return {"share": given}
        if isinstance(given, Mapping | cls):
            return given
        what = "a share, such as 0.1, or a section of keys and values"
        raise ValueError(f"should be {what}, got {brief(repr(given))}")

    @model_validator(mode="after")
    def _fits_the_kind(self) -> Self:
        _only(self, self.kind, _DROPOUT)
        if self.kind == "by_labels" and not self.labels:
            raise ValueError("by_labels needs labels, such as [0, 1]")
        return self


class PreemptionConfig(Config):
    """Devices that take their processor back for a while; the task goes on later."""

    share: Share = 0.0
    """Share of tasks that are interrupted."""
    seconds: Duration = 60.0
    """Seconds of an interruption; the spread multiplies them."""
    spread: AnyDistribution = ExponentialDistribution()
    """How much interruptions differ, in units of ``seconds``."""


class DevicesConfig(Config):
    """The devices' own reports, for controllers that read them."""

    models: Count = 10
    """The number of device models; devices of like speed are of one model."""
    noise: Annotated[float, Field(ge=0, le=5)] = 0.2
    """Standard deviation of the logarithm by which a model's facts miss its speed."""
    watts: Annotated[float, Field(gt=0)] | None = None
    """Power of a device of slowness 1 while it trains; null: unmeasured."""


class SiloConfig(Config):
    """Workers inside each client, among which its local steps are shared out.

    Each holds ``stragglers + 1`` of as many shards as there are workers, and a step is
    done once the answers determine the sum of the gradients (gradient coding). A worker
    takes its share of ``step_seconds``, and a random delay. The gradients are those
    without workers.
    """

    workers: Count
    """The number of workers of a client."""
    stragglers: Annotated[int, Field(ge=0)] = 0
    """How many of them no step waits for."""
    delay: Annotated[float, Field(ge=0)] = 1.0
    """Delay of a worker in a step, as a share of what it computes; the spread
    multiplies it. That is 1/μ in the shifted-exponential model."""
    spread: AnyDistribution = ExponentialDistribution()
    """How much delays differ, in units of ``delay``."""

    @model_validator(mode="after")
    def _can_be(self) -> Self:
        try:
            check_silo(self.workers, self.stragglers)
        except ConfigError as error:
            raise ValueError(str(error)) from error
        return self


class SimulateConfig(Config):
    """A population of clients for the simulator."""

    clients: Count = 100
    """The number of clients; with a trace, as many as it has."""
    step_seconds: Duration = 0.01
    """Seconds that one local step takes on a device of slowness 1."""
    speed: AnyDistribution = Same()
    """Slowness of a device: its steps take this many times longer."""
    jitter: AnyDistribution = Same()
    """Slowness of a single task, drawn for each task."""
    silo: SiloConfig | None = None
    """Workers inside each client; by default a client computes alone."""
    devices: DevicesConfig = DevicesConfig()
    """What devices say of themselves to controllers."""
    link: LinkConfig = LinkConfig()
    """The clients' network."""
    availability: AvailabilityConfig = AvailabilityConfig()
    """When clients are available."""
    preemption: PreemptionConfig = PreemptionConfig()
    """Tasks that are interrupted."""
    dropout: DropoutConfig = DropoutConfig()
    """Share of tasks whose client is lost before it sends anything."""
    upload_loss: Share = 0.0
    """Share of uploads that break before the server has them."""
    ack_loss: Share = 0.0
    """Share of uploads that arrive, but whose acknowledgement is lost."""
    away: AnyDistribution = ExponentialDistribution()
    """How long a lost client stays away, in units of away_seconds."""
    away_seconds: Duration = 30.0
    """Seconds that a lost client stays away."""
    trace: AnyPath | None = None
    """A CSV file with each client's speed, link and times of availability."""
    args: Mapping[str, Word] = Field(default_factory=dict)
    """What each client gets as client.args, as from fedclient join --data."""
    arrivals: AnyPath | None = None
    """The folder of a run whose recorded order of arrival replaces all these fields."""
    without: tuple[Word, ...] = ()
    """Clients of the recorded run that are left out, by name; their places in the
    rounds stay empty. Needs arrivals."""
    engine: EngineConfig = EngineConfig()
    """How the simulation is computed."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        kind, file = self.availability.kind, self.availability.file
        if kind == "trace" and file is None and self.trace is None:
            raise ValueError(
                "availability of kind trace needs a file, unless simulate.trace is one"
            )
        if self.trace is not None and self.arrivals is not None:
            raise ValueError("trace and arrivals exclude one another: give one")
        if self.without and self.arrivals is None:
            raise ValueError("without leaves out clients of a record: give arrivals")
        return self

    def map_distributions(self, change: Change) -> Self:
        """Returns this config with every distribution changed by ``change``."""

        def apply(value: Any) -> Any:
            return change(value) if isinstance(value, DistributionConfig) else value

        return map_values(self, apply)
