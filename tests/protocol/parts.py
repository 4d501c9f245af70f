"""The federation that the model check runs: tiny, and exact in float32.

Updates are small whole numbers, weights powers of two, the buffer a power of two
and most codecs exact, so every sum is a dyadic number that float32 holds exactly and
the conservation laws can be asserted with ``==``. Every other registered contraction
is drawn as well, now and then: its messages are means, norms or products, its sums
are rounded, and the laws hold within ``TOLERANCE``.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedcore.algorithm import Algorithm, AlgorithmConfig
from fedcore.clients import LocalSGD, OverlapLocalSGD
from fedcore.compressors import (
    STC,
    Cast,
    CompressorConfig,
    DeadZone,
    ErrorFeedback,
    Gaia,
    GaussianK,
    Identity,
    Natural,
    PerTensor,
    RandomK,
    TopK,
    Uniform,
)
from fedcore.config import kind_of, methods
from fedcore.params import ParamSpec
from fedcore.recipes import Latecomer
from fedcore.server_optimizers import SGD, Adam, Momentum
from fedcore.server_optimizers.base import ServerOptimizerConfig
from fedcore.staleness.base import StalenessConfig, StalenessPolicy
from fedcore.update_filters.base import UpdateFilter, UpdateFilterConfig

SPEC = ParamSpec.of({"a": np.zeros((4, 5), np.float32), "b": np.zeros(20, np.float32)})
INITIAL = np.arange(SPEC.dim, dtype=np.float32)
REFUSED_SAMPLES = 13  # what the update filter below refuses
BUFFER = 2
LIMIT = 4
SAMPLES_CAP = 4


def halved(staleness: int, stale: int) -> float:
    """λ = 2^-min(τ, 2), and half of it while the stale updates so far are odd."""
    return 2.0 ** -(min(staleness, 2) + stale % 2)


def is_unlucky(samples: int, accepted: int) -> bool:
    """Of thirteen samples, while the accepted updates so far are even."""
    return samples == REFUSED_SAMPLES and accepted % 2 == 0


class Halving(StalenessConfig):
    """Remembers how many stale updates there were."""

    kind: Literal["halving_for_the_model_check"] = "halving_for_the_model_check"

    def build(self) -> StalenessPolicy:
        return StalenessPolicy(
            init=lambda: 0,
            weigh=lambda stale, staleness, counts: halved(staleness, stale),
            observe=lambda stale, staleness, counts, weight: stale + (staleness > 0),
        )


class Superstitious(UpdateFilterConfig):
    """Refuses unlucky updates; remembers how many it let in."""

    kind: Literal["superstitious_for_the_model_check"] = (
        "superstitious_for_the_model_check"
    )

    def build(self) -> UpdateFilter:
        return UpdateFilter(
            init=lambda: 0,
            refusal=lambda accepted, samples, counts: (
                "bad luck" if is_unlucky(samples, accepted) else None
            ),
            observe=lambda accepted, samples, counts: accepted + 1,
        )


EXACT: dict[str, CompressorConfig] = {  # of dyadic values they make dyadic values
    "top_k": TopK(ratio=0.1),
    "random_k": RandomK(ratio=0.1),
    "dead_zone": DeadZone(ratio=0.1),
    "gaussian_k": GaussianK(ratio=0.1),
    "gaia": Gaia(threshold=0.5, decay="none"),
    "stc": STC(ratio=0.025),  # the mean of one value
    "uniform": Uniform(bits=2, bucket=8),  # the step is the largest value
    "natural": Natural(),
    "cast": Cast(dtype="bfloat16"),
    "per_tensor": PerTensor(inner=TopK(ratio=0.1)),
    "identity": Identity(),
}
TOLERANCE = 0.01  # a mistake is off by an eighth or more


def _others() -> dict[str, CompressorConfig]:
    """All other registered contractions, but those with a memory of their own."""
    found: dict[str, CompressorConfig] = {}
    for method in methods(CompressorConfig):
        config = method.example()
        assert isinstance(config, CompressorConfig)
        known = kind_of(method) in EXACT or not method.__module__.startswith("fedcore.")
        remembers = config.build((1,)).init(1) is not None
        if not (known or remembers) and config.bias == "contraction":
            found[kind_of(method)] = config
    return found


ROUNDED: dict[str, CompressorConfig] = {
    **_others(),
    "stc of means": STC(ratio=0.1),
    "uniform, 4 bits": Uniform(bits=4, bucket=8),
}
CODECS = {**EXACT, **ROUNDED}


@dataclass(frozen=True)
class Rules:
    """How a version is made of the buffer, written down a second time in the ghost."""

    server: str = "sgd"
    weigh_by: Literal["updates", "samples"] = "updates"

    @property
    def is_exact(self) -> bool:
        """Whether all numbers stay dyadic."""
        return self == PLAIN


PLAIN = Rules()
SERVERS: dict[str, ServerOptimizerConfig] = {
    "sgd": SGD(),
    "momentum": Momentum(lr=1.0, beta=0.5),
    "adam": Adam(lr=1.0, beta_1=0.5, beta_2=0.5, tau=1.0),
}


def tolerance_of(rules: Rules, *codecs: str) -> float:
    """How far the books may be off."""
    return 0.0 if rules.is_exact and EXACT.keys() >= set(codecs) else TOLERANCE


def algorithm_config(
    uplink: str,
    downlink: str,
    rules: Rules,
    *,
    deadline: bool,
    synchronous: bool,
    overlap: bool = False,
    places: int | None = None,
    minimum: int = 1,
) -> AlgorithmConfig:
    """A recipe whose numbers are all dyadic, by rule; its cap never binds.

    With ``overlap``, clients have a model of their own in place of an error memory.
    """
    inner = CODECS[uplink]
    remembers = inner if overlap else ErrorFeedback(inner=inner, cap=1e30)
    return Latecomer(
        client=OverlapLocalSGD(alpha=0.5) if overlap else LocalSGD(),
        server=SERVERS[rules.server],
        weigh_by=rules.weigh_by,
        samples_cap=SAMPLES_CAP,
        buffer=BUFFER,
        minimum=minimum,
        synchronous=synchronous,
        over_selection=1.5 if synchronous else 1.0,
        places=places,
        deadline=5.0 if deadline else None,
        staleness_limit=0 if synchronous else LIMIT,
        staleness=Halving(),
        update_filter=Superstitious(),
        uplink=remembers,
        downlink=CODECS[downlink],
    )


def build(config: AlgorithmConfig) -> Algorithm:
    """The algorithm on the tiny model."""
    return config.build(SPEC)
