"""A recipe's arithmetic for the synchronous rounds of Flower's own loop.

Flower's loop, or a wrapper around a strategy, holds the model, and may change it
between two rounds. So each round begins with the arrays that it is given; the recipe
keeps what belongs to it: who trains, the aggregator's state and the server
optimiser's.
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
    """What a node returned in a round."""

    cid: str
    model_D: Vector
    samples: int
    loss: float | None


class SynchronousRounds:
    """One recipe in rounds, in memory alone."""

    def __init__(self, algorithm: Algorithm, initial_D: Vector, seed: int) -> None:
        """No round has begun.

        Args:
            algorithm: with exact messages both ways.
            initial_D: the first model, shape (D,).
            seed: of the choice of clients.
        """
        self.algorithm = algorithm
        self._rounds = Rounds(
            algorithm, initial_D, epoch=fresh_name(), seed=seed, served=False
        )
        self._chosen: list[str] = []
        self._start_D = initial_D

    @property
    def fewest(self) -> int:
        """How many nodes must be there for a round."""
        config = self.algorithm.config
        wanted = config.buffer if config.synchronous else 1
        return max(1, config.min_clients, wanted)

    def begin(self, model_D: Vector, cids: Sequence[str]) -> list[str]:
        """Begins a round; returns the clients that train in it.

        Args:
            model_D: the model that they are given, whoever has made it.
            cids: the clients that are there.
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
            returned: what nodes returned, in the order in which they did.

        Returns:
            The next model, and for each reply whether it counts. None: none does.
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
                    steps=config.step_count(1),
                    folded=False,
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
    """Whether a model can be averaged."""
    return math.isfinite(float(abs(model_D).max(initial=0.0)))


def _now() -> Seconds:
    return time.time()
