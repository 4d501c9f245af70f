"""The arguments and the result of a training loop of the user's own."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, SupportsIndex

from fedcore.errors import WorkloadError
from fedcore.params import Tensors
from fedcore.protocol import MOST_COUNTED
from fedcore.text import printable
from fedcore.user_code import LONGEST_WHY
from fedcore.workload.task import NOBODY, Client


@dataclass(frozen=True, slots=True)
class TrainingTask:
    """The arguments of a training loop of the user's own.

    Attributes:
        seed: for all that the loop draws; the same task has the same seed everywhere.
        steps: the number of local steps that the recipe asks for.
        lr: the recipe's learning rate.
        batch: the recipe's number of samples in a batch.
        client: the client whose task it is.
        version: the version of the model that the task begins with.
        state: what the loop returned as ``Trained.state`` the last time, on this
            client; empty at first. It is saved with the client's message.
    """

    seed: int
    steps: int
    lr: float
    batch: int
    client: Client = NOBODY
    version: int = 0
    state: Mapping[str, Any] = field(default_factory=dict)
    skipped: list[tuple[int, str]] = field(default_factory=list, repr=False)

    def skip(self, samples: SupportsIndex, why: object) -> None:
        """Says that some samples are left out, such as the one bad file of a thousand.

        The task goes on; the server shows the client with the number and the reason.

        Args:
            samples: how many, 1 or more.
            why: in a line, such as "scan_17.png: truncated", or what was raised.

        Raises:
            WorkloadError: the number is out of range, or the reason is empty.
        """
        count = int(samples) if isinstance(samples, SupportsIndex) else 0
        if not 0 < count <= MOST_COUNTED:
            raise WorkloadError(
                f"skip({samples!r}, ...): expected a whole number, 1 to {MOST_COUNTED}"
            )
        said = "" if why is None else str(why).strip()
        reason = printable(said)[:LONGEST_WHY]
        if not reason:
            raise WorkloadError(f"skip({samples!r}, {why!r}): expected a reason")
        self.skipped.append((count, reason))


@dataclass(frozen=True, slots=True)
class Trained:
    """The result of a training loop of the user's own.

    Attributes:
        params: the trained parameters, by name.
        samples: how many samples the loop has used.
        loss: the mean training loss, if there is one.
        state: what the loop wants to keep for this client's next task, such as an
            optimiser's moments: arrays, numbers and texts by name. It is never sent.
        metrics: of the training, as numbers by name. They are sent with the update and
            stand in the journal; ``Results.updates`` shows them as ``metrics.NAME``.
    """

    params: Tensors
    samples: int
    loss: float | None = None
    state: Mapping[str, Any] | None = None
    metrics: Mapping[str, Any] | None = None
