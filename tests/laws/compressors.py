"""The compressors that the laws are tried on, alone and in error memories."""

from typing import Any

import numpy as np

from fedcore.compressors import (
    EF21,
    QSGD,
    STC,
    Compressor,
    CompressorConfig,
    Context,
    Cyclic,
    ErrorFeedback,
    Gaia,
    GaussianK,
    Identity,
    LowRank,
    MemoryConfig,
    Natural,
    PerTensor,
    RandomK,
    Rotation,
    SemiDiscrete,
    SignL1,
    SignL2,
    TopK,
    Uniform,
)
from fedcore.payloads import Layout, Payload
from fedcore.rng import Key
from fedcore.typing import Array, State
from tests.laws.registered import variants
from tests.laws.vectors import Given, vector


def is_unbiased(config: CompressorConfig) -> bool:
    """Whether it is right on average; a contraction, as its settings say, may be so."""
    match config:
        case PerTensor() | Rotation(scale="inner"):
            return is_unbiased(config.inner)
        case Uniform():
            return config.rounding == "stochastic"
        case Natural() | QSGD() | Identity():
            return True
        case _:
            return config.bias == "unbiased"


ALONE = [
    config
    for config in variants(
        CompressorConfig,
        TopK(ratio=0.2),
        RandomK(ratio=0.3),
        RandomK(ratio=0.3, unbiased=True),
        Uniform(bits=8, bucket=5),
        Uniform(bits=4, bucket=5, rounding="stochastic"),
        Uniform(bits=2, bucket=5),
        Uniform(bits=2, bucket=2, rounding="stochastic"),
        GaussianK(ratio=0.2),
        QSGD(bits=8, bucket=5),
        QSGD(bits=4, bucket=200),
        QSGD(bits=2, bucket=3),
        QSGD(bits=2, bucket=5),
        Rotation(inner=SignL1(per="vector")),
        Rotation(inner=SignL1(per="vector"), scale="unbiased"),
        Rotation(inner=SignL2()),
        Rotation(inner=Uniform(bits=4, bucket=64)),
        Rotation(inner=Uniform(bits=2, bucket=64, rounding="stochastic")),
        Rotation(inner=Natural()),
        PerTensor(inner=TopK(ratio=0.2), exact_below=4),
        PerTensor(inner=TopK(ratio=0.2), exact=("0",), together=True),
        PerTensor(inner=RandomK(ratio=0.3), exact=("[1-9]",)),
        PerTensor(inner=RandomK(ratio=0.3, unbiased=True)),
        PerTensor(inner=STC(ratio=0.1), exact_below=4, together=True),
        PerTensor(inner=GaussianK(ratio=0.2)),
        PerTensor(inner=SignL1(), exact=("0", "2"), together=True),
        PerTensor(inner=SignL2()),
        PerTensor(inner=QSGD(bits=4, bucket=200)),
        PerTensor(inner=Natural(), exact=("1",), together=True),
        PerTensor(inner=Rotation()),
        LowRank(rank=1),
        LowRank(rank=1, iterations=1),
        PerTensor(inner=LowRank(rank=1), exact_below=4),
        SemiDiscrete(bits=2),
        SemiDiscrete(bits=1, iterations=1),
        PerTensor(inner=SemiDiscrete(bits=1.5), exact_below=4),
        Gaia(threshold=1.0),
        Cyclic(ratio=0.3),
        Cyclic(ratio=0.3, inner=SignL1(per="vector")),
        Cyclic(ratio=0.3, inner=Uniform(bits=4, bucket=5)),
        Cyclic(ratio=0.3, inner=Identity()),
        PerTensor(inner=Cyclic(ratio=0.3), exact_below=4),
        PerTensor(inner=Gaia(threshold=1.0), exact_below=4),
    )
    if not isinstance(config, MemoryConfig)
]
CONTRACTIONS = [config for config in ALONE if config.bias == "contraction"]
UNBIASED = [config for config in ALONE if is_unbiased(config)]
REMEMBERED = [ErrorFeedback(inner=config) for config in CONTRACTIONS]
FOLLOWED = [EF21(inner=config) for config in (TopK(ratio=0.2), SignL1(), Gaia())]
EVERY = [*ALONE, *REMEMBERED, *FOLLOWED]


def encode(config: CompressorConfig, given: Given, key: Key) -> tuple[Payload, State]:
    """The message about one update, and the memory that is left."""
    return in_context(config, given.layout).encode(
        given.delta_D, memory(config, given.memory_D), key
    )


def in_context(config: CompressorConfig, layout: Layout) -> Compressor:
    """The compressor of a sender that holds a model and has sent a message before."""
    compressor, dim = config.build(layout), sum(layout)

    def context() -> Context:
        public_D, before_D = vector("laplace", dim, 1), vector("gaussian", dim, 2)
        memory_D = memory(config, np.zeros(dim, np.float32))
        message, _ = compressor.encode(before_D, memory_D, Key.root(3))
        recall = compressor.recall
        return Context(4, public_D, None if recall is None else recall(message))

    return compressor.at(context)


def innermost(config: CompressorConfig) -> CompressorConfig:
    """What is inside memories and parts."""
    while isinstance(config, MemoryConfig | PerTensor):
        config = config.inner
    return config


def memory(config: CompressorConfig, memory_D: Any) -> Array | None:
    """The memory, where the compressor has one."""
    return memory_D if isinstance(config, MemoryConfig) else None


def _seen(config: CompressorConfig) -> tuple[str, bool, bool]:
    """What a memory sees of the codec inside: a format, and whether it is told more."""
    compressor = config.build((9, 15))
    message, _ = compressor.encode(vector("laplace", 24), None, Key.root(0))
    return message.format, compressor.adapt is not None, compressor.recall is not None


# A memory around one codec of each kind that it can tell from others is tried as all
# codecs are; memories around the rest are tried together, in one test for each law.
_FIRST = {_seen(config): config for config in reversed(CONTRACTIONS)}
TRIED = [
    *ALONE,
    *(each for each in REMEMBERED if each.inner in _FIRST.values()),
    *FOLLOWED,
]
REST = [config for config in EVERY if config not in TRIED]
