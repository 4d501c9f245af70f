"""Who evaluates which version: evaluators that wait, and trainers on the side.

None of this is durable: after a restart, whatever was not measured is given again.
"""

from fedcore.coordinator.settings import EvaluateConfig
from fedcore.protocol import Pull
from fedcore.typing import JSON


class Examinations:
    """The evaluators that wait for a version, and what was given to whom."""

    def __init__(self) -> None:
        self.waiting: dict[str, Pull] = {}
        self._measured: int | None = None  # the newest version that was, as last told
        self._asked: dict[str, int] = {}  # the newest version a trainer shall evaluate
        self._told: dict[str, int] = {}  # the newest version that one has evaluated

    def arrive(self, pull: Pull, measured: int | None) -> None:
        """An evaluator waits; what it was given and did not measure is due again."""
        self.waiting[pull.cid] = pull
        self._measured = measured

    def withdraw(self, cid: str) -> Pull | None:
        """An evaluator waits no more."""
        return self.waiting.pop(cid, None)

    def grant(self, version: int, config: EvaluateConfig) -> list[Pull]:
        """The evaluators that shall measure this version now."""
        measured = self._measured
        if measured is not None and version - measured < config.every_versions:
            return []
        granted = list(self.waiting.values())
        self.waiting.clear()
        return granted

    def asks(self, cid: str, version: int, config: EvaluateConfig) -> bool:
        """Whether this trainer shall evaluate the version that it is given."""
        every = config.every_versions
        if not config.clients or version - self._asked.get(cid, -every) < every:
            return False
        self._asked[cid] = version
        return True

    def note(self, cid: str, version: int) -> None:
        """A trainer has evaluated a version."""
        self._told[cid] = version

    def asks_at_end(self, cid: str, version: int, config: EvaluateConfig) -> bool:
        """Whether this trainer shall evaluate the last version, which this is."""
        return config.clients and self._told.get(cid) != version

    def dump(self) -> JSON:
        """What trainers were asked and have told, for one who does not forget it."""
        return {"asked": self._asked, "told": self._told}

    def load(self, saved: JSON) -> None:
        """What :meth:`dump` gave."""
        self._asked, self._told = dict(saved["asked"]), dict(saved["told"])
