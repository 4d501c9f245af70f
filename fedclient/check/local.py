"""The computations of a client before it joins: its data, one step, one message."""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from fedwire.convert import epoch_name
from fedwire.keys import cid_of
from fedwire.v1 import federation_pb2 as pb

from fedclient.device.device import joules
from fedclient.silo.worker import SETTING
from fedclient.work.membership import (
    read_algorithm,
    read_version_0,
    require_valid_data,
)
from fedcore.controllers import Assignment
from fedcore.errors import DivergedError, WorkloadError
from fedcore.model import FlatModel
from fedcore.participant import Participant, ParticipantState
from fedcore.protocol import Held, Push
from fedcore.training import Trainer
from fedcore.typing import Counts, Seconds
from fedcore.user_code import user_code
from fedcore.workload import Client, Workload, require_batches

_LEAST = 1e-9  # share of a task's work: this leads to one step
MOST_LABELS = 12  # labels in a line


@dataclass(frozen=True)
class Data:
    """The data that ``train_data`` returned."""

    data: Any
    samples: int
    counts: Counts | None
    seconds: Seconds

    def __str__(self) -> str:
        """Describes the number of samples and their labels."""
        said = f"{self.samples:,} samples in {self.seconds:.2f} s"
        if self.counts is None:
            return f"{said}, no integer labels"
        there = [(label, int(n)) for label, n in enumerate(self.counts) if n]
        shown = [f"{label}: {n:,}" for label, n in there[:MOST_LABELS]]
        more = len(there) - len(shown)
        rest = f" and {more} more" if more > 0 else ""
        return f"{said}; labels {', '.join(shown)}{rest}"


@dataclass(frozen=True)
class Step:
    """One local step, and the message that it leads to."""

    push: Push
    seconds: Seconds
    steps: int
    """The number of steps of a whole task."""
    lacks_energy: bool
    """Whether the run limits the energy of tasks, and this device measures none."""
    derived: bool
    """Whether this client can make version 0, so that it need not be downloaded."""


def read_data(workload: Workload, client: Client) -> Data:
    """Reads the client's data.

    Raises:
        UserCodeError: ``train_data`` raised.
        WorkloadError: it returned no samples.
    """
    began = time.monotonic()
    with user_code("train_data"):
        data = workload.train_data(client)
        samples = workload.samples(data, "train_data")
        count = len(samples)
        counts = samples.label_counts(np.arange(count)) if count else None
    if not count:
        raise WorkloadError("train_data returned no samples")
    return Data(data, count, counts, time.monotonic() - began)


def step(
    workload: Workload,
    model: FlatModel,
    reply: pb.EnrolReply,
    key: bytes,
    client: Client,
    data: Data,
    choices: dict[str, Any],
    checkpoint: Path | None,
    workers: int | None,
) -> Step:
    """Takes one local step from version 0, and makes its message.

    Nothing is written to the client's state.

    Raises:
        LatecomerError: this machine cannot compute a task of this run.
    """
    algorithm = read_algorithm(reply.algorithm, model.spec, choices)
    if workers is not None:
        require_batches(algorithm.config.client, workers, SETTING)
    trainer = Trainer(workload, algorithm, model=model, share_labels=reply.share_labels)
    require_valid_data(workload, algorithm)
    epoch, origin = epoch_name(reply.epoch), reply.origin.hex()
    participant = Participant(
        algorithm, ParticipantState(cid_of(key), reply.run_id, epoch)
    )
    initial_D = read_version_0(checkpoint, model, reply.seed)
    participant.derive(initial_D, origin)
    state = participant.state
    derived = state.held is not None
    if not derived:  # any model does for one step
        here_D = algorithm.spec.extend(initial_D)
        state = replace(state, held=Held(epoch, 0, origin), public_D=here_D)
    state = participant.state = replace(state, given=Assignment(work=_LEAST))
    client, began = replace(client, name=reply.name), time.monotonic()
    trained, base, task_key = trainer.task(state, data.data, reply.seed, client)
    seconds = time.monotonic() - began
    participant.finish(trained, base, task_key)
    if participant.unusable:
        raise DivergedError(participant.unusable)
    config = algorithm.clients.of(reply.name).at(0)
    return Step(
        participant.push(),
        seconds / max(1, trained.steps),
        config.steps_of(data.samples, 1.0, None),
        algorithm.config.uses_energy and joules() is None,
        derived,
    )
