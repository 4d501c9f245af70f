"""One row of a population."""

from dataclasses import dataclass

from fedcore.typing import Seconds
from fedcore.workload import Client
from fedsim.population.availability import Change
from fedsim.population.population import Population


@dataclass(slots=True)
class Device:
    """A view of one device; name and place may be others than in the population."""

    population: Population
    who: int
    name: str
    index: int  # its place among ``count`` clients, where data is shared out
    count: int

    @property
    def client(self) -> Client:
        """How it asks for its data."""
        return Client(self.name, self.index, self.count, self.population.args)

    def compute(self, task: int, steps: int) -> Seconds:
        """How long its task takes to compute."""
        return self.population.compute(self.who, task, steps)

    def download(self, nbytes: int) -> Seconds:
        """How long a download takes, the request included."""
        return self.population.download(self.who, nbytes)

    def upload(self, nbytes: int) -> Seconds:
        """How long an upload takes."""
        return self.population.upload(self.who, nbytes)

    @property
    def latency(self) -> Seconds:
        """How long a message without content takes."""
        return self.population.latency(self.who)

    def dropout(self, task: int) -> float | None:
        """The share of its computing after which it is lost."""
        return self.population.dropout(self.who, task)

    def upload_breaks(self, task: int, attempt: int) -> float | None:
        """The share of its upload after which that breaks."""
        return self.population.upload_breaks(self.who, task, attempt)

    def ack_lost(self, task: int, attempt: int) -> bool:
        """Whether it never hears the verdict."""
        return self.population.ack_lost(self.who, task, attempt)

    def away(self, task: int) -> Seconds:
        """How long it stays away after it was lost."""
        return self.population.away(self.who, task)

    def next_change(self, after: Seconds) -> Change | None:
        """When it comes or goes next."""
        return self.population.next_change(self.who, after)

    def is_there(self, at: Seconds) -> bool:
        """Whether it is there."""
        return self.population.is_there(self.who, at)


def devices_of(population: Population) -> list[Device]:
    """All devices, one by one."""
    return [
        Device(population, who, name, *population.place(who))
        for who, name in enumerate(population.names)
    ]
