"""The records of a run, read once from its journal."""

from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from fedcore.coordinator.events import (
    Closed,
    Enrolled,
    RunResumed,
    ServerStarted,
    ServerStopped,
    Tallied,
)
from fedcore.errors import CorruptJournalError, JournalError
from fedcore.params import ParamSpec
from fedcore.text import printable
from fedrun.journal import Configured, Journal
from fedrun.journal.tally import in_order

_REAL_CLOCK = 1e8  # seconds since 1970 are more than this
_END_OF_CALENDAR = 253_402_300_800  # the year 10,000
Value = TypeVar("Value")


@dataclass(frozen=True)
class Records:
    """The records of a run, and facts about the run."""

    folder: Path

    def __post_init__(self) -> None:
        """Accepts the folder as text, too."""
        object.__setattr__(self, "folder", Path(self.folder))

    @cached_property
    def records(self) -> list[Any]:
        """All records in order, without payloads, which may not fit into memory."""
        with closing(Journal.open(self.folder, read_only=True)) as journal:
            records = [entry.record for entry in journal.store.entries(payloads=False)]
        if not records:
            raise JournalError(f"{self.folder}: the journal is empty")
        if any(isinstance(record, Tallied) for record in records):
            trainers = (r for r in records if isinstance(r, Enrolled))
            cids = [r.cid for r in trainers if r.role == "trainer"]
            try:
                records = in_order(records, cids)
            except ValueError as error:
                raise CorruptJournalError(f"{self.folder}: {error}") from error
        return records

    @cached_property
    def _by_kind(self) -> dict[type, list[Any]]:
        kinds: dict[type, list[Any]] = {}
        for record in self.records:
            kinds.setdefault(type(record), []).append(record)
        return kinds

    def of(self, kind: type) -> list[Any]:
        """Returns all records of a kind, in order, without their payloads."""
        return self._by_kind.get(kind, [])

    @cached_property
    def configured(self) -> Configured:
        """The newest configuration of the run."""
        last: Configured = self.of(Configured)[-1]
        return last

    def setting(self, *path: str, default: Value) -> Value:
        """Returns a setting of the run as it was written, by whatever program.

        Args:
            path: of its name, section by section.
            default: is returned where there is none, or one of another type.
        """
        found: Any = self.configured.config
        for name in path:
            found = found.get(name) if isinstance(found, Mapping) else None
        if isinstance(default, float) and type(found) is int and abs(found) < 2**63:
            found = float(found)
        return found if isinstance(found, type(default)) else default

    @cached_property
    def started(self) -> float:
        """When the run began; times in the tables count from here."""
        first: Configured = self.of(Configured)[0]
        return first.at

    @cached_property
    def has_virtual_time(self) -> bool:
        """Whether a simulation made the run, on a virtual clock that began at 0."""
        is_date = _REAL_CLOCK <= self.started < _END_OF_CALENDAR
        return not self.of(ServerStarted) and not is_date

    @cached_property
    def seconds(self) -> float:
        """The seconds from the start of the run to its last record.

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
        """The number of values of the model."""
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
    def end(self) -> str | None:
        """Why the run ended; None while it may go on."""
        ends = [r for r in self.records if isinstance(r, Closed | RunResumed)]
        return ends[-1].reason if ends and isinstance(ends[-1], Closed) else None

    def place(self, record: Any) -> dict[str, Any]:
        """Returns the columns ``seconds`` and ``client`` of a record."""
        place = {"seconds": record.at - self.started}
        cid = getattr(record, "cid", None)
        return place if cid is None else {**place, "client": self.names.get(cid, cid)}
