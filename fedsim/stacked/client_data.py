"""What clients hold: their samples, read when they are given their first task."""

from collections.abc import Callable

from fedcore.clients import ClientAlgorithmConfig
from fedcore.pool import Pool
from fedcore.typing import Counts
from fedcore.user_code import user_code
from fedcore.workload import Client, Workload


class ClientData:
    """The samples of all clients, as far as they were read."""

    def __init__(
        self,
        workload: Workload,
        pool: Pool,
        client: Callable[[int], Client],
        algorithm: ClientAlgorithmConfig,
        count: int,
    ) -> None:
        self._workload, self._pool, self._client = workload, pool, client
        self._algorithm = algorithm
        self.samples = [0] * count  # 0: not read yet
        self._version, self._settings = 0, algorithm.at(0)  # of the last task
        self._steps: dict[int, int] = {}  # of a whole task, by its samples

    def read(self, who: int) -> None:
        """Reads a client's samples.

        Raises:
            UserCodeError: the user's function raised.
        """
        client = self._client(who)
        whose = f"train_data of {client.name}"
        with user_code(whose):
            data = self._workload.train_data(client)
            samples = self._workload.samples(data, whose)
            self._pool.add(who, samples)
        self.samples[who] = len(samples)

    def steps(
        self, who: int, version: int, share: float = 1.0, wanted: int | None = None
    ) -> int:
        """How many steps a task on a version has.

        Args:
            who: the client.
            version: that it trains on.
            share: of its work.
            wanted: how many samples the whole task uses; None: the usual number.
        """
        count = self.samples[who]
        if version != self._version:
            settings = self._algorithm.at(version)
            if settings != self._settings:
                self._steps.clear()
            self._version, self._settings = version, settings
        if share != 1.0 or wanted is not None:
            return self._settings.steps_of(count, share, wanted)
        if count not in self._steps:
            self._steps[count] = self._settings.step_count(count)
        return self._steps[count]

    def effort(self, who: int, steps: int, wanted: int | None) -> float:
        """How many usual steps take as long as a task whose steps were asked last."""
        return self._settings.in_usual_steps(self.samples[who], steps, wanted)

    def used(self, who: int, steps: int, wanted: int | None) -> int:
        """How many samples the steps use of a task whose steps were asked last."""
        return self._settings.sized(wanted).used_by(self.samples[who], steps)

    def label_counts(self, who: int) -> Counts | None:
        """How often each class is among a client's samples."""
        return self._pool.counts(who)
