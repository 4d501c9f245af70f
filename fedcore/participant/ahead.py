"""Steps that a client takes while its message travels, and when they may be used.

Where the steps of a task begin with what the client has kept
(:attr:`fedcore.clients.ClientAlgorithmConfig.overlaps`), they may be taken before the
message in flight was decided on and a new model has come. They are used only if nothing
has changed that they depend on; otherwise they are taken again.
"""

from typing import NamedTuple

import numpy as np

from fedcore.algorithm import Algorithm
from fedcore.clients import split_kept
from fedcore.participant.keeping import assigned
from fedcore.participant.state import ParticipantState
from fedcore.typing import State


class Start(NamedTuple):
    """What the steps of a client's next task depend on."""

    kept: State
    """The very object that the participant's state holds."""
    seq: int
    """Of the message that the task will make."""
    work: float
    """The share of the local work."""
    samples: int | None
    """How many samples a controller wants; None: as the settings say."""


def start_ahead(algorithm: Algorithm, state: ParticipantState) -> Start | None:
    """Returns what the next task's steps begin with; None: they need its model."""
    if not algorithm.config.client.overlaps:
        return None
    initial_L = np.empty(0, np.float32) if algorithm.model.local else None
    if split_kept(state.kept, initial_L)[0] is None:
        return None
    given = assigned(algorithm, state)
    return Start(state.kept, state.seq + 1, given.work, given.samples)


def may_use(algorithm: Algorithm, state: ParticipantState, start: Start) -> bool:
    """Returns whether steps from this start are those of the next task."""
    now = start_ahead(algorithm, state)
    return now is not None and now.kept is start.kept and now[1:] == start[1:]
