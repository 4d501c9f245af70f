"""``Results``: the tables, the summary and the models of a run."""

from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from operator import index
from typing import Any

import numpy.typing as npt

from fedcore.algorithm import count_samples
from fedcore.coordinator.events import Leased, Lost, Skipped, Stepped
from fedcore.errors import ConfigError
from fedcore.params import ParamSpec
from fedrun.files import complete, load_model, load_rest
from fedrun.journal import Journal, public_model
from fedrun.optional import require
from fedrun.traffic import Lane, Load, Traffic, Way, in_messages
from fedrun.traffic_file import read_traffic
from fedview.results import evaluations, tables
from fedview.results.coverage import Coverage
from fedview.results.divergence import Divergence, classes_of
from fedview.results.failures import Failure, LeftOut, count_left_out, failures_of
from fedview.results.records import Records
from fedview.results.summary import as_html, counts_of, last_values
from fedview.results.tables import Table
from fedview.results.warnings import warnings

MODELS = ("last", "best", "initial")
FRAMES = (
    "metrics",
    "central",
    "federated",
    "by_client",
    "versions",
    "updates",
    "tasks",
    "losses",
    "shares",
    "labels",
)


@dataclass(frozen=True)
class Results(Records):
    """The results of the run in a folder, read when they are first used.

    A table is a dict of columns, which a data frame takes as it is.

    Example:
        ``Results("runs/digits").metrics["accuracy"]``
    """

    # ----------------------------------------------------------------- evaluations

    @cached_property
    def metrics(self) -> Table:
        """Evaluations: seconds, version, client, samples, a column for each metric."""
        return evaluations.all_evaluations(self)

    @cached_property
    def metric_names(self) -> list[str]:
        """The names of all metrics."""
        return evaluations.metric_names(self.metrics)

    @cached_property
    def central(self) -> Table:
        """The evaluations by evaluators, in the order of versions."""
        return evaluations.by_evaluators(self.metrics)

    @cached_property
    def federated(self) -> Table:
        """Evaluations by clients: for each version the mean, weighted by samples.

        The column ``NAME_n`` is the number of samples behind the metric ``NAME``: those
        of the clients for which it is a number. A client counts once for each version.
        """
        return evaluations.by_version(self)

    @cached_property
    def by_client(self) -> Table:
        """The last evaluation of each client: seconds, version, samples, metrics."""
        return evaluations.by_client(self)

    @cached_property
    def best(self) -> dict[str, tuple[float, int]]:
        """The best central value of each metric, and the version that had it."""
        return evaluations.best_values(self.central)

    # ---------------------------------------------------------------------- tables

    @cached_property
    def versions(self) -> Table:
        """Published versions."""
        return tables.table_of(self, Stepped, tables.VERSIONS)

    @cached_property
    def updates(self) -> Table:
        """Updates with their verdicts.

        The columns ``metrics.NAME`` are the metrics of the training that a loop of the
        user's own has returned.
        """
        return tables.updates(self)

    @cached_property
    def tasks(self) -> Table:
        """Tasks that clients were given, with the bytes of the models beside them."""
        return tables.table_of(self, Leased, tables.TASKS)

    @cached_property
    def losses(self) -> Table:
        """When clients were lost."""
        return tables.table_of(self, Lost, {})

    @cached_property
    def shares(self) -> Table:
        """Each client's share in the model, and its last update."""
        return tables.shares(self, self.coverage)

    @cached_property
    def labels(self) -> Table:
        """Each label's share in the model, if clients report their labels."""
        return tables.labels(self.coverage)

    def frame(self, name: str = "metrics") -> Any:
        """Returns a table as a pandas data frame.

        Args:
            name: one of ``metrics``, ``central``, ``federated``, ``by_client``,
                ``versions``, ``updates``, ``tasks``, ``losses``, ``shares`` and
                ``labels``.

        Raises:
            ConfigError: there is no such table, or pandas is not installed.
        """
        if name not in FRAMES:
            raise ConfigError(f"frame {name!r}: expected one of {', '.join(FRAMES)}")
        pandas = require("pandas", "frames", "Results.frame")
        return pandas.DataFrame(getattr(self, name))

    # --------------------------------------------------------------------- summary

    @cached_property
    def diverged(self) -> list[str]:
        """A sentence for each loss that rose too high; none if the run went well."""
        spec = ParamSpec.from_json(self.configured.spec)
        divergence = Divergence(classes_of(spec))
        for record in self.records:
            divergence.observe(record)
        return divergence.warnings

    @cached_property
    def coverage(self) -> Coverage:
        """The shares of clients and labels in the model, and the missing clients.

        The newest settings weigh all updates: sums of samples and sums of updates
        cannot be added.
        """
        weigh_by = self.setting("algorithm", "weigh_by", default="")
        cap = self.setting("algorithm", "samples_cap", default=0)
        coverage = Coverage(lambda samples: count_samples(samples, weigh_by, cap))
        coverage.short.buffer = self.setting("algorithm", "buffer", default=0)
        for record in self.records:
            coverage.observe(record)
        return coverage

    @cached_property
    def failures(self) -> dict[str, Failure]:
        """Clients whose code raised or whose updates were useless, by name."""
        return failures_of(self.records, self.names)

    @cached_property
    def skipped(self) -> dict[str, LeftOut]:
        """Clients whose code left samples out, by name."""
        return count_left_out(self.of(Skipped), self.names)

    @cached_property
    def messages(self) -> dict[Way, int] | None:
        """Bytes in messages, ``up`` and ``down``, as the server counted them.

        They count payloads and all that is sent beside them. ``None`` if there were no
        messages, as in a simulation.
        """
        traffic = self._traffic
        return None if traffic is None else in_messages(traffic.lanes())

    @property
    def lanes(self) -> dict[Lane, Load]:
        """The bytes of each client, direction and codec; none if none were counted."""
        return {} if self._traffic is None else self._traffic.lanes()

    @cached_property
    def _traffic(self) -> Traffic | None:
        return read_traffic(self.folder)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The main numbers of the run, by name.

        ``bytes_up`` and ``bytes_down`` are bytes in messages; for a simulation, which
        has no messages (``in_messages`` is false), they are payloads. ``payload_up``
        and ``payload_down`` are bytes that codecs made for updates and tasks, and
        ``bytes_uncompressed`` is what these would be as float32. ``declined`` counts
        the tasks that were refused before they were computed.
        """
        return {
            **counts_of(self, self.messages),
            "failed": {name: each.error for name, each in self.failures.items()},
            "skipped": {name: each.why for name, each in self.skipped.items()},
            "missing": [client.name for client in self.coverage.missing],
            "warnings": [*self.diverged, *warnings(self.coverage)],
            **last_values(self.central, self.federated),
        }

    def _repr_html_(self) -> str:
        """Returns the summary, for a notebook."""
        return as_html(self.folder, self.summary, self.best)

    # ---------------------------------------------------------------------- models

    def model(
        self, which: str = "last", *, version: int | None = None
    ) -> dict[str, npt.NDArray[Any]]:
        """Returns the named arrays of a model, frozen weights and buffers among them.

        Args:
            which: ``last``, ``best`` or ``initial``.
            version: the model of this version instead. A run that was not simulated in
                stacks holds every version, unless it dropped old updates
                (``journal.keep_bytes``); others hold those in their snapshots.

        Returns:
            Arrays by name, in the shapes of the layers.

        Raises:
            ConfigError: ``which`` is something else.
            JournalError: the version is not kept; says which ones are.
            ModelError: there is no such model yet.
        """
        if version is not None:
            try:
                return self._version(index(version))
            except TypeError:
                raise ConfigError(
                    f"version {version!r}: expected a whole number"
                ) from None
        if which not in MODELS:
            raise ConfigError(f"model {which!r}: expected one of {', '.join(MODELS)}")
        path = self.folder / "models" / f"{which}.safetensors"
        spec, flat_D = load_model(path)
        return complete(spec.unflatten(flat_D), load_rest(path))

    def _version(self, version: int) -> dict[str, npt.NDArray[Any]]:
        with closing(Journal.open(self.folder, read_only=True)) as journal:
            flat_D, (spec, _) = public_model(journal, version), journal.initial()
            return complete(spec.unflatten(flat_D), journal.rest())
