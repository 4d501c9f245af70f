"""The data of simulated clients, read when they are first asked for."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedcore.typing import Counts
from fedcore.user_code import user_code
from fedcore.workload import Client, Workload


class ClientData:
    """The data that ``train_data`` gives to each client.

    All methods raise a UserCodeError if the user's code raised.
    """

    def __init__(self, workload: Workload, clients: Sequence[Client]) -> None:
        self._workload, self._clients = workload, clients
        self._data: dict[int, Any] = {}
        self._counts: dict[int, int] = {}

    def of(self, who: int) -> Any:
        """Returns a client's data."""
        if who not in self._data:
            client = self._clients[who]
            with user_code(f"train_data of {client.name}"):
                self._data[who] = self._workload.train_data(client)
        return self._data[who]

    def count(self, who: int) -> int:
        """Returns the number of a client's samples."""
        if who not in self._counts:
            data, whose = self.of(who), f"train_data of {self._clients[who].name}"
            with user_code(whose):
                self._counts[who] = len(self._workload.samples(data, whose))
        return self._counts[who]

    def label_counts(self, who: int) -> Counts | None:
        """Returns how often each class is in a client's data; None without labels."""
        data = self.of(who)
        with user_code(f"train_data of {self._clients[who].name}"):
            samples = self._workload.samples(data, "train_data")
            return samples.label_counts(np.arange(len(samples)))
