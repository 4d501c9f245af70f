"""Which versions clients evaluate, and what they may report of their tasks.

A report counts if the server has asked this client for it: metrics once for each
version that it was to evaluate, an error and a number of samples left out once for each
task. So what one client can add to the journal is bounded by the tasks that it gets.

Nothing here is durable: after a restart, a version that was given to an evaluator and
not evaluated is given again, and clients report of the tasks that they get then.
"""

from collections.abc import Iterable
from typing import Literal

from fedcore.coordinator.settings import EvaluateConfig
from fedcore.typing import JSON

MOST_ASKED = 16  # versions that one client may still report on
Trouble = Literal["failed", "skipped"]
_ANY: frozenset[Trouble] = frozenset({"failed", "skipped"})


class Evaluations:
    """The evaluators that wait for a version, and what clients were asked."""

    def __init__(self, config: EvaluateConfig) -> None:
        self.config = config
        self.waiting: dict[str, None] = {}  # evaluators, in the order of arrival
        self._evaluated: int | None = None  # the newest version that an evaluator has
        self._asked: dict[str, int] = {}  # the newest version a trainer was to evaluate
        self._reported: dict[str, int] = {}  # the newest version that it has evaluated
        self._due: dict[str, dict[int, None]] = {}  # what a client has not reported yet
        self._may: dict[str, frozenset[Trouble]] = {}  # tell of the newest task

    def arrive(self, cid: str, evaluated: int | None) -> None:
        """An evaluator waits for a version that is due.

        Args:
            cid: the evaluator. What it was given before and has not evaluated is due.
            evaluated: the newest version that was evaluated, if there is one.
        """
        self.waiting[cid] = None
        self._evaluated = evaluated

    def withdraw(self, cid: str) -> None:
        """An evaluator no longer waits."""
        self.waiting.pop(cid, None)

    def grant(self, version: int) -> list[str]:
        """The waiting evaluators, if this version is due; they wait no longer."""
        evaluated = self._evaluated
        if evaluated is not None and version - evaluated < self.config.every_versions:
            return []
        granted = list(self.waiting)
        self.waiting.clear()
        return granted

    def asks(self, cid: str, version: int) -> bool:
        """Whether a trainer shall evaluate the version that it is given for a task."""
        every = self.config.every_versions
        if not self.config.clients or version - self._asked.get(cid, -every) < every:
            return False
        self._asked[cid] = version
        self.ask(cid, version)
        return True

    def asks_at_end(self, cid: str, version: int) -> bool:
        """Whether a trainer shall evaluate this version, which is the last one."""
        return self.config.clients and self._reported.get(cid) != version

    def begin(self, cids: Iterable[str]) -> None:
        """Notes that clients get tasks; each may report each kind of trouble once."""
        self._may |= dict.fromkeys(cids, _ANY)

    def has_trouble(self, cid: str, what: Trouble) -> bool:
        """Returns whether a client may report this trouble, and notes that it has."""
        may = self._may.get(cid, frozenset())
        if what not in may:
            return False
        self._may[cid] = may - {what}
        return True

    def ask(self, cid: str, version: int) -> None:
        """Notes that a client is to evaluate a version: it may report on it once."""
        self.begin([cid])
        due = self._due.setdefault(cid, {})
        due.pop(version, None)
        due[version] = None
        while len(due) > MOST_ASKED:
            del due[next(iter(due))]

    def is_due(self, cid: str, version: int) -> bool:
        """Returns whether a client may report on a version, and notes that it has."""
        due = self._due.get(cid, {})
        if version not in due:
            return False
        del due[version]
        if not due:
            del self._due[cid]
        return True

    def note(self, cid: str, version: int) -> None:
        """A trainer has evaluated a version."""
        self._reported[cid] = version

    def dump(self) -> JSON:
        """What clients were asked and have reported, for :meth:`load`."""
        return {
            "asked": self._asked,
            "told": self._reported,
            "due": {cid: list(versions) for cid, versions in self._due.items()},
            "may": {
                what: sorted(cid for cid, may in self._may.items() if what in may)
                for what in sorted(_ANY)
            },
        }

    def load(self, saved: JSON) -> None:
        """Takes over what :meth:`dump` returned."""
        self._asked, self._reported = dict(saved["asked"]), dict(saved["told"])
        due, may = saved.get("due", {}), saved.get("may", {})  # an older one had none
        self._due = {cid: dict.fromkeys(versions) for cid, versions in due.items()}
        self._may = {}
        for what, cids in may.items():
            for cid in cids:
                self._may[cid] = self._may.get(cid, frozenset()) | {what}
