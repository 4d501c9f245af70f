"""A recipe's arithmetic for the synchronous rounds of Flower's own loop.

Flower's loop, or a wrapper around a strategy, holds the model, and may change it
between two rounds. Each round therefore begins with the arrays that it is given; the
recipe keeps the choice of clients, the aggregator's state and the server optimiser's
state.
"""

import math
import time
from collections.abc import Sequence
from typing import NamedTuple

from fedcore.algorithm import Algorithm
from fedcore.coordinator.events import Enrolled
from fedcore.coordinator.rounds import Rounds
from fedcore.coordinator.state import Arrived
from fedcore.payloads import dense_payload
from fedcore.protocol import Verdict
from fedcore.typing import Seconds, Vector
from fedrun.run import fresh_name


class Returned(NamedTuple):
    """The result of a node in a round."""

    cid: str
    model_D: Vector
    samples: int
    loss: float | None


class SynchronousRounds:
    """One recipe in rounds, in memory only."""

    def __init__(self, algorithm: Algorithm, initial_D: Vector, seed: int) -> None:
        """Prepares the recipe without beginning a round.

        Args:
            algorithm: an algorithm with exact messages in both directions.
            initial_D: the first model, shape (D,).
            seed: the seed of the choice of clients.
        """
        self.algorithm = algorithm
        self._rounds = Rounds(
            algorithm, initial_D, epoch=fresh_name(), seed=seed, served=False
        )
        self._chosen: list[str] = []
        self._start_D = initial_D

    @property
    def fewest(self) -> int:
        """The number of nodes that a round needs."""
        config = self.algorithm.config
        wanted = config.buffer if config.synchronous else 1
        return max(1, config.min_clients, wanted)

    def begin(self, model_D: Vector, cids: Sequence[str]) -> list[str]:
        """Begins a round; returns the clients that train in it.

        Args:
            model_D: the model that they are given, of any origin.
            cids: the connected clients.
        """
        rounds, now = self._rounds, _now()
        state = rounds.state
        self._start_D = state.exact_D = state.published.public_D = model_D
        if state.bases:
            state.bases[state.version] = model_D
        for cid in list(rounds.leases.present):
            rounds.leases.lose(cid)
        for cid in cids:
            if cid not in state.clients:
                state.note(Enrolled(at=now, cid=cid, name=cid, role="trainer"))
            rounds.leases.arrive(cid)
        self._chosen = [lease.cid for lease in rounds.grant(now).leases]
        return self._chosen

    def end(self, returned: Sequence[Returned]) -> tuple[Vector | None, list[bool]]:
        """Ends a round.

        Args:
            returned: the results of the nodes, in the order of their arrival.

        Returns:
            The next model, or None if no reply counts; and for each reply whether it
            counts.
        """
        rounds, base = self._rounds, self._rounds.state.version
        updates = []
        for each in returned:
            config = self.algorithm.clients.of(each.cid).at(base)
            updates.append(
                Arrived(
                    payload=dense_payload(self._start_D - each.model_D),
                    base=base,
                    samples=each.samples,
                    counts=None,
                    steps=config.step_count(each.samples),
                    client=each.cid,
                    loss=each.loss,
                )
            )
            rounds.deliver(each.cid, base)
        if not updates:
            return None, []
        decisions = rounds.enter(updates, _now())
        rounds.flush(_now())
        counts = [decision.verdict is Verdict.ACCEPTED for decision in decisions]
        is_new = rounds.state.version > base
        return (rounds.state.exact_D if is_new else None), counts


def is_finite(model_D: Vector) -> bool:
    """Returns whether a model can be averaged."""
    return math.isfinite(float(abs(model_D).max(initial=0.0)))


def _now() -> Seconds:
    return time.time()
