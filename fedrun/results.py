"""What came of a run, read from its journal."""

import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from html import escape
from operator import index
from pathlib import Path
from typing import Any

import numpy.typing as npt

from fedcore.algorithm import count_samples
from fedcore.coordinator.records import (
    Closed,
    Decided,
    Enrolled,
    Evaluated,
    HistoryForked,
    Leased,
    Lost,
    RunResumed,
    ServerStarted,
    ServerStopped,
    Skipped,
    Stepped,
    Tallied,
)
from fedcore.coordinator.settings import lower_is_better
from fedcore.errors import ConfigError, JournalError
from fedcore.params import ParamSpec
from fedcore.protocol import Verdict
from fedcore.text import printable
from fedrun.coverage import Coverage
from fedrun.divergence import Divergence, classes_of
from fedrun.failures import Failure, LeftOut, failures_of, left_out_of
from fedrun.files import complete, load_model, load_rest
from fedrun.journal import Configured, Journal, public_model
from fedrun.journal.tally import in_order
from fedrun.optional import needed
from fedrun.traffic import Traffic, Way, in_messages, read_traffic

Table = dict[str, list[Any]]

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
SUPPORT = "_n"  # behind a metric: how many samples it is of
NOT_METRICS = ("seconds", "version", "client", "central", "samples", "clients")


@dataclass(frozen=True)
class Results:
    """The tables of a run: dicts of columns, which a data frame takes as they are."""

    folder: Path

    def __post_init__(self) -> None:
        """The folder may be given as a text."""
        object.__setattr__(self, "folder", Path(self.folder))

    @cached_property
    def records(self) -> list[Any]:
        """All records in order, without their payloads, which may outgrow memory."""
        journal = Journal.open(self.folder, read_only=True)
        try:
            records = [entry.record for entry in journal.store.entries(payloads=False)]
        finally:
            journal.close()
        if not records:
            raise JournalError(f"{self.folder}: the journal is empty")
        if any(isinstance(record, Tallied) for record in records):
            trainers = (r for r in records if isinstance(r, Enrolled))
            cids = [r.cid for r in trainers if r.role == "trainer"]
            records = in_order(records, cids)
        return records

    @cached_property
    def _by_kind(self) -> dict[type, list[Any]]:
        kinds: dict[type, list[Any]] = {}
        for record in self.records:
            kinds.setdefault(type(record), []).append(record)
        return kinds

    def of(self, kind: type) -> list[Any]:
        """All records of a kind, in order, without their payloads."""
        return self._by_kind.get(kind, [])

    @cached_property
    def configured(self) -> Configured:
        """What the run was told last."""
        last: Configured = self.of(Configured)[-1]
        return last

    @cached_property
    def started(self) -> float:
        """When the run began; times in the tables count from here."""
        first: Configured = self.of(Configured)[0]
        return first.at

    @cached_property
    def seconds(self) -> float:
        """How long the run has lasted, up to its last record.

        Servers that start and stop when it has ended do not make it longer.
        """
        last, closed = self.started, False
        for record in self.records:
            if isinstance(record, Closed | RunResumed):
                closed = isinstance(record, Closed)
            if not (closed and isinstance(record, ServerStarted | ServerStopped)):
                last = max(last, float(record.at))
        return last - self.started

    @cached_property
    def dim(self) -> int:
        """How many values the model has."""
        return ParamSpec.from_json(self.configured.spec).dim

    @cached_property
    def names(self) -> dict[str, str]:
        """Client ids and names; a name that several clients have is made distinct."""
        names = {record.cid: printable(record.name) for record in self.of(Enrolled)}
        of = Counter(names.values())
        return {c: n if of[n] == 1 else f"{n} ({c[:8]})" for c, n in names.items()}

    @cached_property
    def evaluators(self) -> set[str]:
        """The ids of evaluators."""
        roles = {record.cid: record.role for record in self.of(Enrolled)}
        return {cid for cid, role in roles.items() if role == "evaluator"}

    @cached_property
    def metrics(self) -> Table:
        """Evaluations: seconds, version, who, samples, and a column for each metric."""
        rows = [
            {
                **self._place(r),
                "version": r.version,
                "central": r.cid in self.evaluators,
                "samples": r.samples,
                **_values(r),
            }
            for r in self.of(Evaluated)
        ]
        return _columns(rows)

    @cached_property
    def metric_names(self) -> list[str]:
        """What was measured."""
        return [name for name in self.metrics if name not in NOT_METRICS]

    @cached_property
    def central(self) -> Table:
        """The evaluations by evaluators, in the order of versions."""
        table = self.metrics
        rows = [i for i, yes in enumerate(table.get("central", [])) if yes]
        rows.sort(key=lambda i: int(table["version"][i]))
        return {name: [column[i] for i in rows] for name, column in table.items()}

    @cached_property
    def federated(self) -> Table:
        """Evaluations by clients: for each version the mean, weighted by samples.

        Beside each metric its ``NAME_n`` says how many samples it is of: those of the
        clients that have a number. What a client measured twice counts once.
        """
        rows = [
            {
                "seconds": max(r.at for r in records.values()) - self.started,
                "version": version,
                "clients": len(records),
                "samples": sum(r.samples for r in records.values()),
                **_merged(list(records.values())),
            }
            for version, records in sorted(self._own_evaluations.items())
        ]
        return _columns(rows)

    @cached_property
    def by_client(self) -> Table:
        """What each client measured last: seconds, version, samples, metrics."""
        newest: dict[str, Evaluated] = {}
        for _, records in sorted(self._own_evaluations.items()):
            newest |= records
        rows = [
            {
                **self._place(r),
                "version": r.version,
                "samples": r.samples,
                **_values(r),
            }
            for r in newest.values()
        ]
        return _columns(sorted(rows, key=lambda row: str(row["client"])))

    @cached_property
    def _own_evaluations(self) -> dict[int, dict[str, Evaluated]]:
        """By version and client: what was measured by those that train."""
        found: dict[int, dict[str, Evaluated]] = {}
        for r in self.of(Evaluated):
            if r.cid not in self.evaluators:
                found.setdefault(r.version, {})[r.cid] = r
        return found

    @cached_property
    def versions(self) -> Table:
        """Published versions."""
        rows = [
            {
                "seconds": r.at - self.started,
                "version": r.version,
                "reason": r.reason,
                "updates": r.count,
                "message_bytes": r.nbytes,
                "gap_norm": r.gap_norm,
            }
            for r in self.of(Stepped)
        ]
        return _columns(rows)

    @cached_property
    def updates(self) -> Table:
        """Updates with their verdicts."""
        rows = [
            {
                **self._place(r),
                "sequence": r.seq,
                "base": r.base,
                "staleness": r.staleness,
                "verdict": r.verdict.value,
                "weight": r.weight,
                "reason": r.reason,
                "samples": r.samples,
                "steps": r.steps,
                "loss": r.loss,
                "bytes": r.nbytes,
                "update_norm": r.update_norm,
                "memory_norm": r.memory_norm,
                "oldest": r.oldest,
            }
            for r in self.of(Decided)
        ]
        return _columns(rows)

    @cached_property
    def tasks(self) -> Table:
        """Tasks that were handed out, with the bytes of the model that went along."""
        rows = [
            {
                **self._place(r),
                "version": r.version,
                "task": r.task,
                "patch": r.patch,
                "bytes": r.nbytes,
            }
            for r in self.of(Leased)
        ]
        return _columns(rows)

    @cached_property
    def losses(self) -> Table:
        """When clients were lost."""
        return _columns([self._place(r) for r in self.of(Lost)])

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
        """Who is in the model: the shares of clients and labels, and who is missing.

        All updates count by the newest settings: sums of samples and of updates would
        not add up.
        """
        algorithm = self.configured.config.get("algorithm", {})
        weigh_by, cap = algorithm.get("weigh_by"), algorithm.get("samples_cap")
        coverage = Coverage(lambda samples: count_samples(samples, weigh_by, cap))
        for record in self.records:
            coverage.observe(record)
        return coverage

    @cached_property
    def shares(self) -> Table:
        """What each client has in the model, and when its last update was accepted."""
        coverage = self.coverage
        rows = [
            {
                "client": self.names.get(cid, cid),
                "updates": client.updates,
                "share": coverage.share(cid),
                "recent": coverage.recent_share(cid),
                "version": client.version,
                "seconds": None if client.at is None else client.at - self.started,
            }
            for cid, client in coverage.clients.items()
        ]
        return _columns(rows)

    @cached_property
    def labels(self) -> Table:
        """What each label has in the model, where clients told which ones they used."""
        rows = [
            {"label": label, **found._asdict()}
            for label, found in self.coverage.labels.items()
        ]
        return _columns(rows)

    @cached_property
    def best(self) -> dict[str, tuple[float, int]]:
        """The best central value of each metric, and the version that had it."""
        found = {}
        for name in self.metric_names:
            pairs = zip(self.central[name], self.central["version"], strict=True)
            known = [pair for pair in pairs if is_number(pair[0])]
            if known:
                pick = min if lower_is_better(name) else max
                found[name] = pick(known, key=lambda pair: pair[0])
        return found

    @cached_property
    def failures(self) -> dict[str, Failure]:
        """By name, clients whose code raised or whose updates were of no use."""
        return failures_of(self.records, self.names)

    @cached_property
    def skipped(self) -> dict[str, LeftOut]:
        """Clients whose code left samples out: how many, and the last reason."""
        return left_out_of(self.of(Skipped), self.names)

    @cached_property
    def messages(self) -> dict[Way, int] | None:
        """Bytes in messages, ``up`` and ``down``, as the server counted them.

        All that travelled with a payload and beside it; ``None`` where there were no
        messages, as in a simulation.
        """
        return None if self._traffic is None else in_messages(self._traffic.lanes())

    @cached_property
    def _traffic(self) -> Traffic | None:
        return read_traffic(self.folder)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The run in a few numbers.

        ``bytes_up`` and ``bytes_down`` are those that travelled in messages; of a
        simulation, which has no messages (``in_messages`` is false), the payloads.
        ``payload_up`` and ``payload_down`` are what codecs made for updates and tasks,
        and ``bytes_uncompressed`` what these would have been as float32.
        """
        decided, tasks = self.of(Decided), self.of(Leased)
        verdicts = Counter(record.verdict.value for record in decided)
        exchanges = len(decided) + sum(record.nbytes > 0 for record in tasks)
        payload_up = sum(record.nbytes for record in decided)
        payload_down = sum(record.nbytes for record in tasks)
        messages = self.messages or {"up": payload_up, "down": payload_down}
        return {
            "run": self.configured.run_id,
            "ended": self._end,
            "seconds": self.seconds,
            "versions": len(self.of(Stepped)),
            "clients": len(self.names) - len(self.evaluators),
            "updates": dict(verdicts),
            "accepted": verdicts[Verdict.ACCEPTED.value],
            "bytes_up": messages["up"],
            "bytes_down": messages["down"],
            "in_messages": self.messages is not None,
            "payload_up": payload_up,
            "payload_down": payload_down,
            "bytes_uncompressed": 4 * self.dim * exchanges,
            "failed": {name: each.error for name, each in self.failures.items()},
            "skipped": {name: each.why for name, each in self.skipped.items()},
            "restored": len(self.of(HistoryForked)),
            "missing": [client.name for client in self.coverage.missing],
            "warnings": [*self.diverged, *self.coverage.warnings],
            "metrics": {
                name: self.central[name][-1]
                for name in self.metric_names
                if self.central[name] and self.central[name][-1] is not None
            },
            "samples": next(reversed(self.central.get("samples", [])), 0),
            "federated": self._last_by_clients,
        }

    @cached_property
    def _last_by_clients(self) -> dict[str, float]:
        """The last row of :attr:`federated`; nothing where no clients evaluate."""
        return {
            name: column[-1]
            for name, column in self.federated.items()
            if name != "seconds" and column[-1] is not None
        }

    def frame(self, name: str = "metrics") -> Any:
        """A table as a pandas data frame.

        Args:
            name: one of ``metrics``, ``central``, ``federated``, ``by_client``,
                ``versions``, ``updates``, ``tasks``, ``losses``, ``shares`` and
                ``labels``.

        Raises:
            ConfigError: there is no such table, or pandas is not installed.
        """
        if name not in FRAMES:
            raise ConfigError(f"frame {name!r}: expected one of {', '.join(FRAMES)}")
        pandas = needed("pandas", "frames", "Results.frame")
        return pandas.DataFrame(getattr(self, name))

    def _repr_html_(self) -> str:
        """The run in a few lines, for a notebook."""
        summary = self.summary
        counted = ["payload_up", "payload_down"]
        if summary["in_messages"]:
            counted = ["bytes_up", "bytes_down", *counted]
        facts = {
            "ended": summary["ended"] or "not yet",
            "seconds": f"{summary['seconds']:,.4g}",
            **{n: f"{summary[n]:,}" for n in ("versions", "clients", "accepted")},
            **{n: f"{summary[n]:,}" for n in counted},
            **{f"final {n}": f"{v:.4g}" for n, v in summary["metrics"].items()},
            **{f"best {n}": f"{v:.4g} at {at:,}" for n, (v, at) in self.best.items()},
        }
        rows = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>"
            for name, value in facts.items()
        )
        return f"<table><caption>{escape(str(self.folder))}</caption>{rows}</table>"

    def _place(self, record: Any) -> dict[str, Any]:
        """When it was, and which client."""
        who = self.names.get(record.cid, record.cid)
        return {"seconds": record.at - self.started, "client": who}

    @cached_property
    def _end(self) -> str | None:
        """Why the run ended; None while it may go on."""
        ends = [r for r in self.records if isinstance(r, Closed | RunResumed)]
        return ends[-1].reason if ends and isinstance(ends[-1], Closed) else None

    def model(
        self, which: str = "last", *, version: int | None = None
    ) -> dict[str, npt.NDArray[Any]]:
        """The named arrays of the last model, or of another one.

        Frozen weights and buffers are among them.

        Args:
            which: ``last``, ``best`` or ``initial``.
            version: the model of this version instead. A run that was not simulated in
                stacks holds every version, unless it dropped old updates
                (``journal.keep_bytes``); others hold those in their snapshots.

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
        journal = Journal.open(self.folder, read_only=True)
        try:
            flat_D, (spec, _) = public_model(journal, version), journal.initial()
            return complete(spec.unflatten(flat_D), journal.rest())
        finally:
            journal.close()


def is_number(value: float | None) -> bool:
    """Whether something was measured: neither None nor NaN nor infinite."""
    return value is not None and math.isfinite(value)


def _values(record: Evaluated) -> dict[str, float]:
    """What was measured; a metric cannot take the name of another column."""
    values = {printable(k): v for k, v in record.values.items()}
    return {k: v for k, v in values.items() if k not in NOT_METRICS}


def _merged(records: list[Evaluated]) -> dict[str, float]:
    """The mean of each metric over clients that have one, weighted by their samples.

    Each is followed by its n. NaN of 0 samples where no client has a number.
    """
    names = dict.fromkeys(name for record in records for name in _values(record))
    sums: dict[str, float] = {}
    weights: dict[str, int] = {}
    alike = not any(record.samples for record in records)
    for record in records:
        weight = 1 if alike else record.samples
        for name, value in _values(record).items():
            if weight and is_number(value):
                sums[name] = sums.get(name, 0.0) + weight * value
                weights[name] = weights.get(name, 0) + weight
    found: dict[str, float] = {}
    for name in names:
        weight = weights.get(name, 0)
        found[name] = sums[name] / weight if weight else math.nan
        found[name + SUPPORT] = 0 if alike else weight
    return found


def _columns(rows: list[dict[str, Any]]) -> Table:
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: [row.get(name) for row in rows] for name in names}
