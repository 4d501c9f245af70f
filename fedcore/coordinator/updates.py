"""What the server knows of an update when it decides on it."""

from typing import NamedTuple, Protocol

from fedcore.algorithm import Algorithm
from fedcore.clients import ClientAlgorithmConfig
from fedcore.measured import Measured
from fedcore.payloads import Payload
from fedcore.protocol import Verdict
from fedcore.typing import Counts


class Finished(Protocol):
    """A task that has ended with an update."""

    @property
    def base(self) -> int:
        """The version that it was trained on."""

    @property
    def steps(self) -> int:
        """The number of local steps; 0: it is what a leaving client's memory held."""

    @property
    def samples(self) -> int:
        """The number of samples that it was trained on."""

    @property
    def counts(self) -> Counts | None:
        """The number of samples of each class."""

    @property
    def loss(self) -> float | None:
        """The mean training loss; None or NaN: unknown."""

    @property
    def measured(self) -> Measured | None:
        """What the training took; None: unknown."""


class Flaw(NamedTuple):
    """What is wrong with an update itself, whatever the state of the server is."""

    verdict: Verdict
    reason: str
    is_kept: bool = False  # the record keeps its bytes, to find the mistake by them


NO_TASK = Flaw(Verdict.REJECTED_POLICY, "no task stands behind this update")


class Decision(NamedTuple):
    """What the server decided on an update."""

    verdict: Verdict
    weight: float  # λ
    staleness: int  # in versions
    reason: str = ""


class Update(Finished, Protocol):
    """An update that waits for its decision."""

    @property
    def flaw(self) -> Flaw | None:
        """What is wrong with it; None: its values are finite and not too large."""

    @property
    def payload(self) -> Payload | None:
        """Its values; None if they are a row of a stack, or cannot be read."""

    @property
    def folded(self) -> bool:
        """Whether it holds mass of updates that were rejected."""

    @property
    def client(self) -> str:
        """The id of the client that has sent it."""


def size_of(samples: int, measured: Measured | None) -> int:
    """Returns the size of a task: the samples that its steps used, if that is known.

    Args:
        samples: the client's.
        measured: what the training took; None: unknown.
    """
    return measured.samples if measured is not None and measured.samples else samples


class Arrived(NamedTuple):
    """An update that arrived as a message."""

    payload: Payload | None
    base: int
    samples: int
    counts: Counts | None
    steps: int
    folded: bool
    client: str
    loss: float | None = None
    measured: Measured | None = None
    flaw: Flaw | None = None
    task: bool = True
    """Whether a task stands behind it."""


def efforts(
    algorithm: Algorithm, update: Update, own: ClientAlgorithmConfig
) -> dict[str, float]:
    """Returns what a contribution says of the steps of an update.

    Args:
        algorithm: the federation's.
        update: what has arrived.
        own: its client's settings.
    """
    if not update.steps:  # it is what a leaving client's memory held
        return {}
    steps, client = update.steps, own.at(update.base)
    found = {"work": steps / client.step_count(update.samples)}
    if "pace" in algorithm.aggregator.needs:
        found["effort"] = found["pace"] = client.effort(steps)
        most = algorithm.config.most_steps(update.samples, update.base, own)
        if steps > most:
            found["pace"] = client.effort(most)
    return found
