"""Federations that lose uploads, with right and wrong reactions of the clients."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from benchmarks.claims.setup import Federation, Trainee, digits, in_rounds
from fedcore.compressors import CompressorConfig, Identity
from fedcore.participant import Trained
from fedcore.partitions import Partition, dirichlet, shards
from fedcore.protocol import ModelName
from fedcore.rng import Key
from fedcore.typing import Vector

RARE = range(3)


class CommitsAtSend(Trainee):
    """Wrong: the residual is the memory as soon as the message is on its way."""

    def finish(self, trained: Trained, base: ModelName, key: Key) -> bool:
        """Sends, and settles before the server did."""
        sends = super().finish(trained, base, key)
        pending = self.state.pending
        if sends and pending is not None and pending.residual_D is not None:
            nothing = np.zeros_like(pending.residual_D)
            pending_now = replace(pending, residual_D=nothing)
            self.state = replace(
                self.state, memory_D=pending.residual_D, pending=pending_now
            )
        return sends

    def upload_lost(self) -> None:
        """The message is forgotten."""
        self.state = replace(self.state, pending=None)


class Discards(Trainee):
    """Wrong: a lost upload is undone as if its round had never been."""

    _before: Vector | None = None

    def finish(self, trained: Trained, base: ModelName, key: Key) -> bool:
        """Sends, and remembers the memory as it was."""
        self._before = self.state.memory_D
        return super().finish(trained, base, key)

    def upload_lost(self) -> None:
        """The work of the round is gone, the memory as before."""
        self.state = replace(self.state, memory_D=self._before, pending=None)


FoldsBack = Trainee
POLICIES: dict[str, type[Trainee]] = {
    "commit at send": CommitsAtSend,
    "discard": Discards,
    "fold back": FoldsBack,
}


class Outcome(NamedTuple):
    """The metrics of one run."""

    early: float  # recall of the rare classes at a third of the rounds
    accuracy: float
    loss: float
    late: float  # recall of the rare classes at the end


class Setting(NamedTuple):
    """The settings of one row of the tables."""

    uplink: CompressorConfig
    trainee: type[Trainee] = FoldsBack
    probability: float = 0.8
    staleness_limit: int = 0  # above 0, what is sent again may come late and count


def rare_uploads_lost(setting: Setting, rounds: int, seed: int) -> Outcome:
    """Only clients with many images of the rare classes lose uploads."""
    y = digits("train")[1]
    parts = shards(y, clients=20, seed=seed)
    rare = [float(np.isin(y[rows], RARE).mean()) > 0.4 for rows in parts]
    chances = [setting.probability * is_rare for is_rare in rare]
    return train(setting, parts, 8, chances, rounds, seed)


def any_upload_lost(setting: Setting, rounds: int, seed: int) -> Outcome:
    """All clients lose uploads alike."""
    parts = dirichlet(digits("train")[1], clients=50, alpha=0.3, seed=seed)
    chances = [setting.probability] * len(parts)
    return train(setting, parts, 10, chances, rounds, seed)


def train(
    setting: Setting,
    parts: Partition,
    cohort: int,
    chances: Sequence[float],
    rounds: int,
    seed: int,
) -> Outcome:
    """One run; ``chances`` are each client's of losing an upload."""
    config = in_rounds(cohort, setting.uplink, Identity()).model_copy(
        update={"staleness_limit": setting.staleness_limit}
    )
    federation = Federation(
        config,
        parts,
        seed,
        trainee=setting.trainee,
    )
    fate, early = Key.root(seed).fold_in("fate").generator(), 0.0
    for number in range(1, rounds + 1):
        unlucky_N = fate.random(len(parts)) < chances  # the same for all policies
        federation.round(unlucky_N)
        if number == rounds // 3:
            early = federation.quality().recall(RARE)
    last = federation.quality()
    return Outcome(early, last.accuracy, last.loss, last.recall(RARE))
