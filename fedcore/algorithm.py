"""The parts of one federated algorithm, and the config that all recipes share.

A recipe (:mod:`fedcore.recipes`) is this config with the defaults of a published
system. Synchronous, semi-synchronous and asynchronous federations differ in their
pace alone: whether a cohort trains one version (``synchronous``), how many updates
make a new one (``buffer``), how long it may take (``deadline``), and how late an
update may be (``staleness_limit``).
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar, Literal, NamedTuple, Self, TypeVar

from pydantic import Field, model_validator

from fedcore.aggregators import Aggregator, AnyAggregator, WeightedMean, Work
from fedcore.clients import (
    AnyClientAlgorithm,
    ClientAlgorithmConfig,
    ClientSettings,
    LocalSGD,
    every,
    mistake,
    place_of,
)
from fedcore.compressors import (
    AnyCompressor,
    Compressor,
    CompressorConfig,
    Identity,
)
from fedcore.compressors.base import largest_of
from fedcore.config import Count, Duration, Method, Versions, with_inner
from fedcore.controllers import (
    AnyController,
    Controller,
    ServerController,
    compose,
    compose_at_server,
    join,
)
from fedcore.errors import ConfigError
from fedcore.params import ParamSpec
from fedcore.payloads import Declared
from fedcore.selection import AnySelection, Selection, UniformSelection
from fedcore.server_optimizers import SGD, AnyServerOptimizer, ServerOptimizer
from fedcore.staleness import AnyStaleness, Constant, StalenessPolicy
from fedcore.update_filters import AcceptAll, AnyUpdateFilter, UpdateFilter

Half = TypeVar("Half", Controller, ServerController)

LEAST_LIMIT: Versions = 100  # up to here no update is too late by default,
TIMES_LATE = 20  # nor up to this many times the mean staleness


class Algorithm(NamedTuple):
    """The roles of one federated algorithm, ready to run on one model."""

    config: "AlgorithmConfig"
    model: ParamSpec
    """Of the model that is trained."""
    spec: ParamSpec
    """Of what travels: the model, followed by the client algorithm's companions."""
    selection: Selection
    update_filter: UpdateFilter
    staleness: StalenessPolicy
    aggregator: Aggregator
    server: ServerOptimizer
    uplink: Compressor
    downlink: Compressor
    controller: Controller | None
    """The halves of all controllers on a client as one; None where there are none."""
    server_controller: ServerController | None
    """Their halves at the server as one; None where there are none."""
    clients: ClientSettings
    """The settings of the client algorithm by the client's name."""

    def of_client(self, name: str) -> "Algorithm":
        """Returns the algorithm as the client of this name has it."""
        if not self.config.client.overrides:
            return self
        config = self.config.for_client(self.clients.of(name))
        return self._replace(config=config, clients=ClientSettings(config.client))

    @property
    def filters_updates(self) -> bool:
        """Whether an update may be refused."""
        return not self.config.update_filter.accepts_all

    @property
    def observes_tasks(self) -> bool:
        """Whether a role at the server learns from tasks that have ended."""
        learns = self.selection.observe is not None
        return learns or self.server_controller is not None

    def coefficient(
        self, own: ClientAlgorithmConfig, version: int, steps: int, samples: int
    ) -> float:
        """Returns the factor by which a client multiplies the update of a task.

        Args:
            own: the settings of that client.
            version: the one that it trained on.
            steps: how many it took; 0: nobody knows.
            samples: how many it has; of none, the server takes no update.
        """
        aggregator = self.config.aggregator
        if not (aggregator.multiplies and steps and samples):
            return 1.0
        work = Work(steps, samples, own.at(version), own)
        return aggregator.coefficient(work)

    def uplink_of(self, density: float) -> Compressor:
        """Returns the uplink for messages of this share of their usual size."""
        if density == 1.0:
            return self.uplink
        shorter = self.config.uplink.shorter(density)
        return self.uplink if shorter is None else shorter.build_for(self.spec)

    def latest(self, clients: int) -> int:
        """Returns the staleness limit, in versions.

        With W updates in flight and K updates a version, an update is W / K versions
        late on average. The update of a client that is n times slower is n times later.

        Args:
            clients: the number of clients that have joined and not left.
        """
        config = self.config
        if config.staleness_limit is not None:
            return config.staleness_limit
        if "gap" in self.aggregator.needs:  # the server keeps one model for each
            return LEAST_LIMIT
        in_flight = min(clients, config.concurrency or clients)
        return max(LEAST_LIMIT, math.ceil(TIMES_LATE * in_flight / config.buffer))


class AlgorithmConfig(Method):
    """A federated algorithm: its pace, its weights, and a method for each role."""

    role: ClassVar[str] = "recipe"
    paper: ClassVar[str]
    """The publication that the recipe comes from."""

    buffer: Count = 10
    """K: the number of accepted updates that make a new version."""
    minimum: Count = 1
    """The number of updates that are enough at the deadline, or once no more clients
    are there."""
    synchronous: bool = False
    """A cohort of K clients trains each version; otherwise all that are there train."""
    over_selection: float = Field(default=1.0, ge=1, le=10)
    """The cohort is this many times larger than K; its slowest ones come too late."""
    places: Count | None = None
    """The most updates of one client in a version, without cohorts; none: twice its
    fair share of the K, and at least one. A client that has used them gets its next
    task with the next version. A cohort has one place for each client."""
    concurrency: Count | None = None
    """The number of clients that may train at a time, without cohorts; none: all."""
    ahead: Versions | None = None
    """How many tasks a client may be ahead of the slowest one that is there, before it
    waits; without cohorts. 0: all in step; none: any number."""
    min_clients: Count = 1
    """Tasks are given while this many clients are there, and none below it; the first
    cohort is drawn from them. With 1, those that come first get the first tasks."""
    deadline: Duration | None = None
    """Seconds after which a version is made of the updates that have arrived."""
    staleness_limit: Versions | None = None
    """Updates that are later than this, in versions, are rejected; none: 20 times the
    mean staleness if all clients train at once, and at least 100."""
    weigh_by: Literal["updates", "samples"] = "updates"
    """Every update counts alike, or in proportion to its samples."""
    samples_cap: Count | None = None
    """The most samples that an update counts for; none: all that it was trained on."""
    selection: AnySelection = UniformSelection()
    """Which clients join a cohort."""
    update_filter: AnyUpdateFilter = AcceptAll()
    """Which updates are used at all."""
    staleness: AnyStaleness = Constant()
    """The weight of late updates."""
    aggregator: AnyAggregator = WeightedMean()
    """The rule that makes one update of those in a buffer."""
    server: AnyServerOptimizer = SGD()
    """The rule by which the aggregate moves the model."""
    client: AnyClientAlgorithm = LocalSGD()
    """The algorithm that a client trains with."""
    uplink: AnyCompressor = Identity()
    """The compression of updates."""
    downlink: AnyCompressor = Identity()
    """How new versions travel; the server's error memory is W - X."""
    ring_bytes: int | None = Field(default=None, ge=0)
    """Bytes of past messages that the server keeps in memory for clients that missed
    them; none: as many as the model has. A client that missed more gets new values or
    the whole model."""
    controllers: tuple[AnyController, ...] = ()
    """What sets a client's tasks by how its past ones went; their shares multiply."""

    def list_formats(self, spec: ParamSpec) -> Declared:
        """Returns the formats of updates; a client that leaves sends a dense one."""
        return largest_of([{"dense": spec.dim}, self.uplink.list_formats_for(spec)])

    @property
    def cohort(self) -> int:
        """The number of clients that train one version of a synchronous algorithm."""
        return math.ceil(self.buffer * self.over_selection)

    def count_update(self, samples: int) -> float:
        """Returns n, the number of samples that an update counts for."""
        return count_samples(samples, self.weigh_by, self.samples_cap)

    def count_each(self, samples: Sequence[int]) -> Sequence[float]:
        """Returns :meth:`count_update` for each of these numbers of samples."""
        if self.weigh_by == "updates":
            return [self.count_update(1)] * len(samples)
        if self.samples_cap:
            return [self.count_update(each) for each in samples]
        return samples

    def most_steps(
        self, samples: int, version: int, own: ClientAlgorithmConfig | None = None
    ) -> int:
        """Returns the most steps that a client is given, whatever it claims to have.

        Args:
            samples: how many it says that it has; ``samples_cap`` bounds them.
            version: the one that it trained on.
            own: the settings of that client; None: they are the common ones.
        """
        client = (own or self.client).at(version)
        samples = min(samples, self.samples_cap or samples)
        largest = join(*(each.largest for each in self.controllers))
        given = client.steps_of(samples, largest.work, largest.samples)
        return max(client.step_count(samples), given)

    @property
    def uses_labels(self) -> bool:
        """Whether a role looks at how often clients used each label."""
        return self.staleness.uses_labels or self.update_filter.uses_labels

    @property
    def uses_device(self) -> bool:
        """Whether a role looks at the facts of devices and what tasks took."""
        controllers = any(each.uses_device for each in self.controllers)
        return controllers or self.selection.build().observe is not None

    @property
    def uses_energy(self) -> bool:
        """Whether a controller looks at the energy that tasks took."""
        return any(controller.uses_energy for controller in self.controllers)

    @property
    def clients_evaluate(self) -> bool:
        """Whether a controller has clients evaluate models on their own data."""
        return any(controller.evaluates for controller in self.controllers)

    @model_validator(mode="after")
    def _parts_fit(self) -> "AlgorithmConfig":
        if self.minimum > self.buffer:
            raise ValueError(f"minimum {self.minimum} is above buffer {self.buffer}")
        if self.synchronous and self.concurrency is not None:
            raise ValueError(
                "concurrency is for asynchronous algorithms; use over_selection"
            )
        if self.synchronous and self.ahead is not None:
            raise ValueError(
                "ahead is for asynchronous algorithms; a cohort trains in step anyway"
            )
        if self.synchronous and self.places is not None:
            raise ValueError(
                "places is for asynchronous algorithms; a cohort has one a client"
            )
        if not self.synchronous and self.over_selection != 1:
            raise ValueError(
                "over_selection is for synchronous algorithms; use concurrency"
            )
        kinds = [controller.kind for controller in self.controllers]
        if len({*kinds}) < len(kinds):
            raise ValueError(f"controllers: one of each kind, not {', '.join(kinds)}")
        if self.downlink.holds != "nothing":
            inner = getattr(self.downlink, "inner", self.downlink)
            raise ValueError(
                "downlink: the server's memory is W - X in any case; name the inner "
                f"compressor alone ({inner.kind})"
            )
        if self.downlink.bias != "contraction":
            raise ValueError(
                f"downlink: {self.downlink.kind} is {self.downlink.bias} with these "
                "settings; the server's memory W - X needs a contraction"
            )
        for number, client in enumerate(every(self.client)):
            config = self.for_client(client)
            try:
                config.require_fit()
            except ValueError as error:
                if not number:
                    raise
                given = self.client.overrides[number - 1]
                raise mistake(place_of(number - 1), given, str(error)) from error
        return self

    def require_fit(self) -> None:
        """Checks that each method suits the others.

        Raises:
            ValueError: one of them does not.
        """
        for method in self.parts():
            method.fits(self)

    def for_client(self, own: ClientAlgorithmConfig) -> Self:
        """Returns the recipe as a client has it.

        Args:
            own: the settings of that client.
        """
        return self.model_copy(update={"client": own})

    def parts(self) -> Iterator[Method]:
        """Yields the methods of all roles, and those inside them."""
        roles = (
            self.client,
            self.uplink,
            self.downlink,
            self.server,
            self.aggregator,
            self.staleness,
            self.selection,
            self.update_filter,
            *self.controllers,
        )
        for role in roles:
            yield from with_inner(role)

    def require_successor(self, other: "AlgorithmConfig") -> None:
        """Checks that a run which began with these settings can go on with others.

        Raises:
            ConfigError: what clients remember would mean something else.
        """
        if self.client.vectors != other.client.vectors:
            raise ConfigError(
                f"algorithm.client: a run that began with {self.client.kind} cannot go "
                f"on with {other.client.kind}: other vectors travel beside the model, "
                "or other models in its place; put it back, or start another run"
            )
        if self.client.overlaps != other.client.overlaps:
            raise ConfigError(
                f"algorithm.client: a run that began with {self.client.kind} cannot go "
                f"on with {other.client.kind}: only one of them keeps a local model on "
                "each client; put it back, or start another run"
            )
        if self.client.counts_updates != other.client.counts_updates:
            raise ConfigError(
                f"algorithm.client: a run that began with {self.client.kind} cannot go "
                f"on with {other.client.kind}: what clients keep of their updates "
                "would mean something else; put it back, or start another run"
            )
        before, now = self.uplink, other.uplink
        if (before.holds == "changes") != (now.holds == "changes"):
            raise ConfigError(
                f"algorithm.uplink: a run that began with {before.kind} cannot go on "
                f"with {now.kind}: clients keep a memory, and that of ef21 is of "
                "another kind; put it back, or start another run"
            )

    def build(self, model: ParamSpec) -> Algorithm:
        """Returns the algorithm for this model.

        Raises:
            ConfigError: its client algorithm cannot train such a model, or the settings
                name what this model does not have.
        """
        clients = ClientSettings(self.client)
        for number, client in enumerate(clients.all):
            with _names_entry(self.client, number):
                client.check(model)
        spec = model.with_companions(self.client.companions)
        on_clients = _there((c.kind, c.build()) for c in self.controllers)
        at_server = _there((c.kind, c.build_server(self)) for c in self.controllers)
        return Algorithm(
            config=self,
            model=model,
            spec=spec,
            selection=self.selection.build(),
            update_filter=self.update_filter.build(),
            staleness=self.staleness.build(),
            aggregator=self.aggregator.build_in(self, spec),
            server=self.server.build(),
            uplink=_build("uplink", self.uplink, spec),
            downlink=_build("downlink", self.downlink, spec),
            controller=compose(on_clients) if on_clients else None,
            server_controller=compose_at_server(at_server) if at_server else None,
            clients=clients,
        )


@contextmanager
def _names_entry(common: ClientAlgorithmConfig, number: int) -> Iterator[None]:
    """Adds to an error which settings of ``every(common)`` it speaks of."""
    try:
        yield
    except ConfigError as error:
        if not number:
            raise
        names = ", ".join(common.overrides[number - 1].clients)
        sentence = f"client.overrides.{number - 1} ({names}): {error}"
        raise ConfigError(sentence) from error


def _there(halves: Iterable[tuple[str, Half | None]]) -> dict[str, Half]:
    return {kind: half for kind, half in halves if half is not None}


def _build(role: str, config: CompressorConfig, spec: ParamSpec) -> Compressor:
    try:
        return config.build_for(spec)
    except ConfigError as error:
        raise ConfigError(f"algorithm.{role}: {error}") from error


def count_samples(samples: int, weigh_by: str | None, cap: int | None) -> float:
    """Returns the number of samples that an update counts for.

    Args:
        samples: the number of samples that it was trained on.
        weigh_by: of the recipe.
        cap: the recipe's ``samples_cap``.
    """
    return 1.0 if weigh_by == "updates" else min(samples, cap or samples)
