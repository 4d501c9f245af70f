"""The tasks of a recorded run: what a repetition needs beside the data."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from fedcore.coordinator.events import Decided, Enrolled, HistoryForked, Stepped
from fedcore.errors import ConfigError
from fedcore.params import ParamSpec
from fedcore.protocol import Verdict
from fedcore.typing import Vector
from fedcore.workload import Client
from fedrun.config import FederationConfig, parse_config
from fedrun.journal import Configured, Journal, public_model
from fedview.results import Results


class AcceptedUpdate(NamedTuple):
    """An accepted update."""

    client: str
    seq: int
    """The number of the client's message, of which the task's randomness follows."""
    base: int
    weight: float
    """λ."""
    samples: float
    """n, as the recipe counts it."""
    steps: int


@dataclass(frozen=True)
class Schedule:
    """The versions of a run, each with the updates that it was made of."""

    config: FederationConfig
    spec: ParamSpec
    initial_D: Vector
    last_D: Vector
    """The model of the last version here."""
    clients: Mapping[str, Client]
    rounds: tuple[tuple[AcceptedUpdate, ...], ...]

    def count_updates(self, client: str) -> int:
        """Returns how many updates of a client are in the model."""
        return sum(task.client == client for tasks in self.rounds for task in tasks)

    def oldest_needed(self) -> list[int]:
        """Returns for each version the oldest one on which a later update is based."""
        needed: list[int] = []
        oldest = len(self.rounds)
        for version in range(len(self.rounds) - 1, -1, -1):
            needed.append(oldest)
            bases = [task.base for task in self.rounds[version]]
            oldest = min([oldest, *bases, version])
        return needed[::-1]


def read_schedule(
    folder: Path, args: Mapping[str, str] | None = None, versions: int | None = None
) -> Schedule:
    """Reads the schedule of a recorded run.

    Args:
        folder: of the run.
        args: what ``train_data`` finds in ``client.args``; None: those of the record.
        versions: how many of the first versions to read; None: all.

    Raises:
        ConfigError: the run made no version, or its history was restored on the way.
    """
    with closing(Journal.open(folder, read_only=True)) as journal:
        journal.require_sound()
        records = Results(folder).records
        spec, initial_D = journal.initial()
        configured = [r for r in records if isinstance(r, Configured)]
        config = parse_config(dict(configured[-1].config))
        if any(isinstance(record, HistoryForked) for record in records):
            raise ConfigError(
                f"influence: {folder} was restored from a backup on its way, so its "
                "updates do not follow from the record; audit another run"
            )
        if any(
            parse_config(dict(r.config)).algorithm != config.algorithm
            for r in configured
        ):
            raise ConfigError(
                f"influence: the algorithm of {folder} was changed on its way; audit a "
                "run of one algorithm"
            )
        rounds = _rounds(records, config, versions)
        if not rounds:
            raise ConfigError(f"influence: {folder} made no version")
        last_D = public_model(journal, len(rounds))
    given = config.simulate.args if args is None else args
    clients = {
        record.name: Client(record.name, record.index, record.count, given)
        for record in records
        if isinstance(record, Enrolled) and record.role == "trainer"
    }
    return Schedule(config, spec, initial_D, last_D, clients, tuple(rounds))


def _rounds(
    records: Sequence[object], config: FederationConfig, versions: int | None
) -> list[tuple[AcceptedUpdate, ...]]:
    names: dict[str, str] = {}
    rounds: list[tuple[AcceptedUpdate, ...]] = []
    buffer: list[AcceptedUpdate] = []
    for record in records:
        if isinstance(record, Enrolled):
            names[record.cid] = record.name
        elif isinstance(record, Decided) and record.verdict is Verdict.ACCEPTED:
            samples = config.algorithm.count_update(record.samples)
            buffer.append(
                AcceptedUpdate(
                    names[record.cid],
                    record.seq,
                    record.base,
                    record.weight,
                    samples,
                    record.steps,
                )
            )
        elif isinstance(record, Stepped):
            rounds.append(tuple(buffer))
            buffer = []
            if len(rounds) == versions:
                break
    return rounds
