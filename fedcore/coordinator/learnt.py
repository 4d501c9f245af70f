"""What roles have learnt from verdicts, on which later verdicts and tasks depend."""

import math
from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from fedcore.algorithm import Algorithm
from fedcore.controllers import TaskReport
from fedcore.coordinator import records
from fedcore.coordinator.plans import Plans
from fedcore.coordinator.updates import Decision, Finished, size_of
from fedcore.protocol import Verdict
from fedcore.trees import Arrays, load_tree, save_tree
from fedcore.typing import JSON, Counts, Seconds, State

ROLES = ("staleness", "update_filter", "controllers", "selection")
_REPORTED = (Verdict.ACCEPTED, Verdict.REJECTED_STALE, Verdict.REJECTED_POLICY)


class Learnt:
    """The states of the staleness policy, update filter, controllers and selection."""

    def __init__(self, algorithm: Algorithm) -> None:
        self._algorithm = algorithm
        self.staleness = algorithm.staleness.init()
        self.update_filter = algorithm.update_filter.init()
        self.controllers: State = None
        self.selection = algorithm.selection.init()
        self.plans = Plans()

    def learn(self, decision: Decision, cid: str, task: Finished, at: Seconds) -> None:
        """Lets all roles learn from a decision on an update.

        Args:
            decision: what became of it.
            cid: of its client.
            task: what it was computed by.
            at: when it was decided.
        """
        verdict, weight, staleness, _ = decision
        algorithm, counts = self._algorithm, task.counts
        size = size_of(task.samples, task.measured)
        if (plan := self.plans.of(cid, task.base)) is not None:
            size, counts = plan.size, plan.counts
        self.plans.note(cid, None)
        if verdict is Verdict.ACCEPTED:
            self.staleness = algorithm.staleness.observe(
                self.staleness, staleness, task.counts, weight
            )
            self.update_filter = algorithm.update_filter.observe(
                self.update_filter, size, counts
            )
        elif verdict is Verdict.REJECTED_POLICY:
            self._refuse(size, counts)
        if algorithm.observes_tasks and verdict is not Verdict.REJECTED_CLOSED:
            self._report(verdict, cid, task, at)

    def decline(self, record: records.Declined) -> None:
        """Applies that a task was refused before it was computed."""
        self.plans.note(record.cid, None)
        self._refuse(record.planned, record.counts)

    def _refuse(self, size: int, counts: Counts | None) -> None:
        refused = self._algorithm.update_filter.refused
        if refused is not None:
            self.update_filter = refused(self.update_filter, size, counts)

    def _report(self, verdict: Verdict, cid: str, task: Finished, at: Seconds) -> None:
        """Tells the roles that learn from tasks.

        Of an update that is no honest one, the selection learns that it came.
        """
        report = TaskReport(at=at, client=cid, base=task.base, steps=0)
        if verdict in _REPORTED:
            loss = task.loss
            report = report._replace(
                steps=task.steps,
                loss=loss if loss is not None and math.isfinite(loss) else None,
                measured=task.measured,
                samples=task.samples,
            )
        controller = self._algorithm.server_controller
        selection = self._algorithm.selection
        if controller is not None and verdict in _REPORTED:
            self.controllers = controller.observe(self.controllers, report)
        if selection.observe is not None:
            self.selection = selection.observe(self.selection, report)

    def amend(self, algorithm: Algorithm) -> None:
        """Takes over other settings; roles whose settings changed start again."""
        old, new = self._algorithm.config, algorithm.config
        self._algorithm = algorithm
        if old.staleness != new.staleness:
            self.staleness = algorithm.staleness.init()
        if old.update_filter != new.update_filter:
            self.update_filter = algorithm.update_filter.init()
        if old.selection != new.selection:
            self.selection = algorithm.selection.init()
        if old.controllers != new.controllers and isinstance(self.controllers, dict):
            same = {each.kind for each in new.controllers if each in old.controllers}
            self.controllers = {
                kind: state for kind, state in self.controllers.items() if kind in same
            }

    def dump(self, arrays: Arrays) -> JSON:
        """The states of the roles as JSON; their arrays join the others."""
        return {role: save_tree(getattr(self, role), role, arrays) for role in ROLES}

    def load(self, known: JSON, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Takes over what :meth:`dump` returned; an older program had fewer roles."""
        for role in ROLES:
            tree = load_tree(getattr(self, role), known.get(role), arrays)
            setattr(self, role, tree)
