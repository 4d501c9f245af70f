"""Bounds the error of a replay without a client, whose others would answer otherwise.

A replay keeps the updates of the other clients, which they computed on models that held
the missing one. On the models without it they would have computed others. The journal
holds no data to tell which, but it does tell how fast updates change with the model:
each client sent updates from several versions. With s the ratio of both changes, as a
root mean square over all clients and weighted by their samples,

    s² = Σ n ‖Δ - Δ first‖² / Σ n ‖W - W first‖²,

and with ε_v the difference of the two models at version v, an update based on version b
would have been another by about s ‖ε_b‖. All these changes together, as a share of the
difference that the replay shows, are the *feedback* of a client's absence:

    Σ_v η Σ_k λ_k n_k s ‖ε_b‖ / Σ_k n_k, over ‖ε‖ at the end.

It adds lengths, so it is what the answers come to if all point the same way.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedcore import payloads
from fedcore.aggregators import WeightedMean
from fedcore.algorithm import AlgorithmConfig
from fedcore.arrays import norm
from fedcore.coordinator import Coordinator
from fedcore.coordinator.events import Decided, Record, Stepped
from fedcore.payloads import Payload
from fedcore.protocol import Verdict
from fedcore.rng import Key
from fedcore.server_optimizers import SGD
from fedcore.typing import Vector
from fedrun.correlation import pearson, spearman

MOST_FEEDBACK = 0.5  # of the difference; beyond it nothing is ranked
LEAST_CORRELATION = 0.9  # that is expected with training again
DEVIATIONS = 2  # standard deviations that the feedback stands for
_DRAWS = 200
_PLACES = 4096  # values of the model that stand for all of them


def unknown_because(config: AlgorithmConfig) -> str:
    """Says why the feedback of a recipe cannot be told; empty if it can."""
    if config.aggregator.kind != WeightedMean().kind:
        return f"algorithm.aggregator is {config.aggregator.kind}, no weighted mean"
    if not isinstance(config.server, SGD):
        return f"algorithm.server is {config.server.kind}, not sgd"
    if config.client.companions or config.uplink.holds == "changes":
        return "clients send more than the updates of a model"
    return ""


class Sensitivity:
    """Measures how fast a run's updates change with their base model."""

    def __init__(self, coordinator: Coordinator) -> None:
        """Begins at version 0 of a run that is restored or replayed."""
        self._coordinator = coordinator
        dim = coordinator.algorithm.model.dim
        self._places = np.arange(dim)
        if dim > _PLACES:
            rng = Key.root(0).fold_in("sensitivity").generator()
            self._places = np.sort(rng.choice(dim, _PLACES, replace=False))
        self._models = {0: self._public()}
        self._first: dict[str, tuple[Vector, Vector]] = {}
        self._changed = self._moved = 0.0

    def _public(self) -> Vector:
        return self._coordinator.state.published.public_D[self._places]

    def observe(self, record: Record, payload: Payload | None) -> None:
        """Takes note of a record that was applied, with the payload of an update."""
        state = self._coordinator.state
        if isinstance(record, Stepped):
            self._models[record.version] = self._public()
            for version in [v for v in self._models if v < state.version - state.limit]:
                del self._models[version]
        elif isinstance(record, Decided) and record.verdict is Verdict.ACCEPTED:
            assert payload is not None
            model_P = self._models.get(record.base)
            if model_P is None:  # the limit was another one
                return
            delta_P = payloads.decode(payload)[self._places]
            first = self._first.setdefault(record.cid, (model_P, delta_P))
            samples = state.algorithm.config.count_update(record.samples)
            self._moved += samples * norm(model_P - first[0]) ** 2
            self._changed += samples * norm(delta_P - first[1]) ** 2

    @property
    def value(self) -> float:
        """s; infinite while no client has sent updates from different models."""
        return math.sqrt(self._changed / self._moved) if self._moved else math.inf


class Exposure:
    """Measures how far from the recorded models the others would have trained."""

    def __init__(self) -> None:
        self._apart = {0: 0.0}  # ‖ε‖, by version
        self._sum = self._samples = 0.0  # of the updates in the buffer
        self._total = 0.0

    def observe(
        self, record: Record, everybody: Coordinator, without: Coordinator
    ) -> None:
        """Takes note of a record that was applied to both.

        Args:
            record: of a version, or of an update that is in both.
            everybody: the run with all clients.
            without: the run without some of them.
        """
        config = without.algorithm.config
        if isinstance(record, Decided) and record.verdict is Verdict.ACCEPTED:
            samples = config.count_update(record.samples)
            self._sum += record.weight * samples * self._apart[record.base]
            self._samples += samples
        elif isinstance(record, Stepped):
            self.close(without)
            self._apart[record.version] = distance(everybody, without)

    def close(self, without: Coordinator) -> None:
        """Notes that the updates in the buffer have made a version."""
        server = without.algorithm.config.server
        if self._samples and isinstance(server, SGD):
            self._total += server.lr * self._sum / self._samples
        self._sum = self._samples = 0.0

    def feedback(self, sensitivity: float, apart: float) -> float:
        """Returns the answers that are possible, as a share of the difference.

        Args:
            sensitivity: s.
            apart: ‖ε‖ at the end.
        """
        if not self._total:  # no other update was based on a model that differs
            return 0.0
        return sensitivity * self._total / apart if apart else math.inf


def model_of(run: Coordinator) -> Vector:
    """Returns the exact model (D,), without the vectors that travel beside it."""
    return run.state.exact_D[: run.algorithm.model.dim]


def distance(one: Coordinator, other: Coordinator) -> float:
    """Returns how far the exact models of two runs are apart."""
    return norm(model_of(one) - model_of(other))


class Estimate(NamedTuple):
    """The effect of one client in a replay, and its largest error."""

    effect: float
    distance: float
    """Of the two models."""
    feedback: float


class Trust(NamedTuple):
    """Says how far the order of the clients in a replay can be trusted."""

    feedback: float = 0.0
    """The largest one of a client."""
    correlation: float = math.nan
    """The lower one of Pearson's and Spearman's that is expected with training again;
    NaN for fewer than two clients."""
    doubts: Sequence[float] = ()
    """By how much each effect may be another one."""
    why_not: str = ""
    """Why there is no ranking; empty: there is one."""
    holds: bool = False
    """Whether each effect is known up to its doubt."""


def trust_in(found: Sequence[Estimate], why_not: str) -> Trust:
    """Judges whether an order of clients would survive the answers of the others.

    An answer is taken to change the metric as much as the most effective one of the
    differences does, for its length.

    Args:
        found: the clients that have updates in the model.
        why_not: a reason against ranking that is known before; empty: there is none.
    """
    feedback = max((each.feedback for each in found), default=0.0)
    slopes = [abs(each.effect) / each.distance for each in found if each.distance]
    steepest = max(filter(math.isfinite, slopes), default=0.0)
    doubts = [each.feedback * each.distance * steepest for each in found]
    correlation = _estimate_correlation([each.effect for each in found], doubts)
    if not why_not and feedback > MOST_FEEDBACK:
        share = f"{feedback:.0%}" if math.isfinite(feedback) else "any share"
        why_not = (
            f"the others' answers could be {share} of the difference that the replay "
            f"shows; clients are ranked up to {MOST_FEEDBACK:.0%}"
        )
    holds = not why_not
    if holds and correlation < LEAST_CORRELATION:
        why_not = (
            f"a correlation of {correlation:.3f} with training again is expected; "
            f"clients are ranked from {LEAST_CORRELATION} on"
        )
    return Trust(feedback, correlation, doubts, why_not, holds)


def _estimate_correlation(effects: Sequence[float], doubts: Sequence[float]) -> float:
    """Returns the lower of two mean correlations, with effects drawn anew."""
    known = [
        (effect, doubt / DEVIATIONS)
        for effect, doubt in zip(effects, doubts, strict=True)
        if math.isfinite(effect + doubt)
    ]
    if len(known) < 2:
        return math.nan
    effect_N, deviation_N = np.array(known).T
    rng = Key.root(0).fold_in("trust").generator()
    drawn = effect_N + deviation_N * rng.standard_normal((_DRAWS, len(known)))
    means = [
        np.mean([how(effect_N, row) for row in drawn]) for how in (pearson, spearman)
    ]
    return float(min(means))
