"""Tasks that are judged before they are computed, by what their clients plan.

Damaskinos et al., "FLeet", Middleware 2020, arXiv 2006.07273, §2.4: the controller
sits before the computation. Where a client says in its pull what it has, the update
filter judges the task that it would get. An update of a task that passed is not judged
again; the filter learns of it as it was announced.
"""

from collections.abc import Mapping
from typing import NamedTuple

from fedcore.algorithm import AlgorithmConfig
from fedcore.clients import ClientAlgorithmConfig
from fedcore.controllers import Assignment
from fedcore.coordinator.records import Leased
from fedcore.labels import counts_array, counts_list
from fedcore.protocol import Plan
from fedcore.typing import JSON, Counts


class Announced(NamedTuple):
    """A task as it was judged before it was computed."""

    version: int
    """That of the model which the task trains on."""
    size: int
    """How many samples it uses, as :func:`fedcore.coordinator.updates.size_of`."""
    counts: Counts | None
    """The labels of its client's samples (C,); None: it did not say."""


def announced(
    config: AlgorithmConfig,
    own: ClientAlgorithmConfig,
    plan: Plan,
    given: Assignment,
    version: int,
) -> Announced:
    """Returns the task that a client with this plan would get.

    Args:
        config: of the recipe.
        own: the settings of that client.
        plan: what the client says.
        given: what the controllers at the server give it.
        version: that it would train on.
    """
    size = plan.samples
    if config.uses_device:  # then its update says how many samples the steps used
        client = own.at(version)
        steps = client.steps_of(plan.samples, given.work, given.samples)
        size = client.sized(given.samples).used_by(plan.samples, steps)
    return Announced(version, size, plan.counts)


class Plans:
    """The tasks that passed, until their updates get a verdict; one a client."""

    def __init__(self) -> None:
        self._passed: dict[str, Announced] = {}

    def note(self, cid: str, task: Announced | None) -> None:
        """A client has got a task; None: one that was not judged before."""
        if task is None:
            self._passed.pop(cid, None)
        else:
            self._passed[cid] = task

    def note_lease(self, record: Leased) -> None:
        """A client has got a task, as a record of the journal says."""
        task = None
        if record.planned is not None:
            task = Announced(record.version, record.planned, record.counts)
        self.note(record.cid, task)

    def of(self, cid: str, base: int) -> Announced | None:
        """Returns what was announced of a client's task; None: it was not judged.

        Args:
            cid: the client.
            base: the version that its update was trained on.
        """
        task = self._passed.get(cid)
        return task if task is not None and task.version == base else None

    def dump(self) -> JSON:
        """Returns the tasks that passed, each as [client, version, size, counts]."""
        return [
            [cid, task.version, task.size, counts_list(task.counts)]
            for cid, task in self._passed.items()
        ]

    def load(self, saved: Mapping[str, JSON]) -> None:
        """Takes over what :meth:`dump` returned, from a snapshot's ``plans``."""
        known = saved.get("plans", ())  # an older program judged no plans
        self._passed = {
            cid: Announced(version, size, counts_array(counts))
            for cid, version, size, counts in known
        }
