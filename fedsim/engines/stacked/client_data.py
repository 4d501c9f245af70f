"""The samples of clients, read when they are given their first task."""

from collections.abc import Callable, Sequence
from functools import partial

from fedcore.clients import ClientAlgorithmConfig, ClientSettings, in_common_steps
from fedcore.errors import WorkloadError
from fedcore.pool import Pool
from fedcore.protocol import Plan
from fedcore.typing import Counts
from fedcore.update_filters.base import UpdateFilterConfig
from fedcore.user_code import user_code
from fedcore.workload import Client, Workload


class ClientData:
    """The samples of all clients that have been read so far."""

    def __init__(
        self,
        workload: Workload,
        pool: Pool,
        client: Callable[[int], Client],
        settings: ClientSettings,
        names: Sequence[str],
        judges: UpdateFilterConfig,
        *,
        share_labels: bool,
    ) -> None:
        self._workload, self._pool, self._client = workload, pool, client
        self._all, self._which = settings.all, list(map(settings.number_of, names))
        self.samples = [0] * len(names)  # 0: not read yet
        self._judges, self._share_labels = judges, share_labels
        self._version, self._settings = 0, self._at(0)  # of the last task
        # The size of a whole task, by the number of the client's settings and its
        # samples.
        self._steps: dict[tuple[int, int], tuple[int, float]] = {}

    def read(self, who: int) -> None:
        """Reads a client's samples.

        Raises:
            WorkloadError: the user's code failed, or these are no samples.
        """
        client = self._client(who)
        whose = f"train_data of {client.name}"
        with user_code(whose):
            data = self._workload.train_data(client)
            samples = self._workload.samples(data, whose)
            self._pool.add(who, samples)
        self.samples[who] = len(samples)

    def plan(self, who: int) -> Plan | None:
        """Returns the plan that a client announces; None if its data cannot be read."""
        if not self.samples[who]:
            try:
                self.read(who)
            except WorkloadError:
                return None  # the task will raise it again, and reports it then
        tells = partial(self.label_counts, who) if self._share_labels else None
        return self._judges.plan(self.samples[who], tells)

    def steps(
        self, who: int, version: int, share: float = 1.0, wanted: int | None = None
    ) -> tuple[int, float]:
        """Returns a task's number of steps, and the common steps that take as long.

        Args:
            who: the client.
            version: the version that it trains on.
            share: its share of the work.
            wanted: the number of samples that the whole task uses; None for the usual
                number.
        """
        count, which = self.samples[who], self._which[who]
        if version != self._version:
            settings = self._at(version)
            if settings != self._settings:
                self._steps.clear()
            self._version, self._settings = version, settings
        if share != 1.0 or wanted is not None:
            steps = self._settings[which].steps_of(count, share, wanted)
            return steps, self._effort(which, count, steps, wanted)
        known = self._steps.get((which, count))
        if known is None:
            steps = self._settings[which].step_count(count)
            known = steps, self._effort(which, count, steps, None)
            self._steps[which, count] = known
        return known

    def _effort(
        self, which: int, samples: int, steps: int, wanted: int | None
    ) -> float:
        own = self._settings[which]
        if not which:  # most clients: nothing to compare
            return own.in_usual_steps(samples, steps, wanted)
        return in_common_steps(self._all[0], own, samples, steps, wanted)

    def used(self, who: int, steps: int, wanted: int | None) -> int:
        """Returns the samples that the steps use, for the task last asked about."""
        own = self._settings[self._which[who]]
        return own.with_samples(wanted).used_by(self.samples[who], steps)

    def _at(self, version: int) -> list[ClientAlgorithmConfig]:
        """Returns all settings, for tasks on a version."""
        return [settings.at(version) for settings in self._all]

    def label_counts(self, who: int) -> Counts | None:
        """Returns how often each class is among a client's samples."""
        return self._pool.counts(who)
