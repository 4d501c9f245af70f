"""Every registered compressor that an error memory accepts, and its settings here.

The list comes from the registry, so that a new method joins by itself, with its example
in both directions unless it is named below. The settings are harsh (fewer values, fewer
bits, lower rank than usual), because a memory only matters there.
"""

from typing import NamedTuple

from fedcore.compressors import (
    QSGD,
    STC,
    Cast,
    CompressorConfig,
    DeadZone,
    ErrorFeedback,
    Gaia,
    GaussianK,
    Identity,
    LowRank,
    MemoryConfig,
    PerTensor,
    RandomK,
    Rotation,
    SemiDiscrete,
    TopK,
    Uniform,
)
from fedcore.config import Method, kind_of, methods


class Codec(NamedTuple):
    """A compressor for each direction."""

    uplink: CompressorConfig
    downlink: CompressorConfig
    memory: type[MemoryConfig] = ErrorFeedback

    @property
    def remembered(self) -> CompressorConfig:
        """The uplink with a memory."""
        return self.memory.model_validate({"inner": self.uplink})


def _both(config: CompressorConfig) -> Codec:
    return Codec(config, config)


_SETTINGS: dict[str, dict[str, Codec]] = {
    "top_k": {"top_k 1 %, 5 %": Codec(TopK(ratio=0.01), TopK(ratio=0.05))},
    "random_k": {
        "random_k 5 %, 20 %": Codec(RandomK(ratio=0.05), RandomK(ratio=0.2)),
        "random_k 10 %, 25 %": Codec(RandomK(ratio=0.1), RandomK(ratio=0.25)),
    },
    "gaussian_k": {
        "gaussian_k 1 %, 5 %": Codec(GaussianK(ratio=0.01), GaussianK(ratio=0.05)),
    },
    "gaia": {"gaia .2": _both(Gaia(threshold=0.2, decay="none"))},
    "stc": {"stc 1 %, 5 %": Codec(STC(ratio=0.01), STC(ratio=0.05))},
    "dead_zone": {
        "dead_zone 1 %, 5 %": Codec(DeadZone(ratio=0.01), DeadZone(ratio=0.05)),
    },
    "uniform": {
        f"uniform {bits} bits": _both(Uniform(bits=bits)) for bits in (8, 4, 2)
    },
    "qsgd": {
        "qsgd 8 bits": _both(QSGD()),
        "qsgd 4 bits, buckets of 64": _both(QSGD(bits=4, bucket=64)),
    },
    "low_rank": {"low_rank 1": _both(LowRank(rank=1))},
    "semi_discrete": {"semi_discrete .3 bits": _both(SemiDiscrete(bits=0.3))},
    "cast": {
        "cast float16": _both(Cast()),
        "cast bfloat16": _both(Cast(dtype="bfloat16")),
    },
    "rotation": {
        "rotation, sign": _both(Rotation()),
        "rotation, 2 bits": _both(Rotation(inner=Uniform(bits=2))),
    },
    "per_tensor": {
        "per_tensor, top_k 1 %, 5 %": Codec(
            PerTensor(inner=TopK(ratio=0.01)), PerTensor(inner=TopK(ratio=0.05))
        ),
    },
}


def every_codec() -> dict[str, Codec]:
    """All of them, by name, in the order of their kinds; memories are none."""
    found: dict[str, Codec] = {}
    for method in sorted(methods(CompressorConfig), key=kind_of):
        ours = method.__module__.startswith("fedcore.")
        if ours and not issubclass(method, Identity | MemoryConfig):
            kind = kind_of(method)
            found.update(_SETTINGS.get(kind) or {kind: _example(method)})
    return {name: codec for name, codec in found.items() if _contracts(codec)}


def _example(method: type[Method]) -> Codec:
    config = method.example()
    assert isinstance(config, CompressorConfig)
    return _both(config)


def _contracts(codec: Codec) -> bool:
    return {codec.uplink.bias, codec.downlink.bias} == {"contraction"}
