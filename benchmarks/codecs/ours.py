"""Every compressor of ours, with the settings that a user would choose."""

import numpy as np

from benchmarks.codecs.codec import Codec
from fedcore import payloads
from fedcore.compressors import (
    QSGD,
    STC,
    Cast,
    CompressorConfig,
    DeadZone,
    GaussianK,
    Identity,
    LowRank,
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
from fedcore.rng import Key
from fedcore.typing import Vector

TOP_K = "top_k 1 %"
GAUSSIAN_K = ("gaussian_k 0.1 %", "gaussian_k 1 %")
CONFIGS: dict[str, CompressorConfig] = {
    "identity": Identity(),
    "cast float16": Cast(dtype="float16"),
    "cast bfloat16": Cast(dtype="bfloat16"),
    TOP_K: TopK(ratio=0.01),
    GAUSSIAN_K[0]: GaussianK(ratio=0.001),
    GAUSSIAN_K[1]: GaussianK(ratio=0.01),
    "dead_zone 1 %": DeadZone(ratio=0.01),
    "stc 2 %": STC(ratio=0.02),
    "random_k 5 %": RandomK(ratio=0.05),
    "sign_l1": SignL1(),
    "sign_l2": SignL2(),
    "uniform 8 bits": Uniform(bits=8),
    "uniform 4 bits": Uniform(bits=4),
    "uniform 2 bits": Uniform(bits=2),
    "uniform 8 bits, stochastic": Uniform(bits=8, rounding="stochastic"),
    "uniform 4 bits, stochastic": Uniform(bits=4, rounding="stochastic"),
    "uniform 2 bits, stochastic": Uniform(bits=2, rounding="stochastic"),
    "qsgd 8 bits": QSGD(bits=8),
    "natural": Natural(),
    "rotation, 1 bit": Rotation(),
    "rotation, 4 bits": Rotation(inner=Uniform(bits=4)),
    "low_rank 4": LowRank(rank=4),
    "semi_discrete .2 bits": SemiDiscrete(bits=0.2),
    "per_tensor, stc 2 %": PerTensor(inner=STC(ratio=0.02)),
    "uniform 8 bits, not deflated": Uniform(bits=8, deflate=False),
    "uniform 4 bits, not deflated": Uniform(bits=4, deflate=False),
    "uniform 2 bits, not deflated": Uniform(bits=2, deflate=False),
    "natural, not deflated": Natural(deflate=False),
}


def our_codec(name: str, dim: int) -> Codec:
    """A compressor for one tensor of so many values."""
    layout, key = (dim,), Key.root(0)
    compressor = CONFIGS[name].build(layout)
    return Codec(
        encode=lambda delta_D: compressor.encode(delta_D, None, key)[0],
        pack=payloads.pack,
        unpack=lambda data: payloads.unpack(data, layout),
        decode=payloads.decode,
        add=payloads.add,
        nbytes=len,
    )


def is_exact(delta_D: Vector, name: str = TOP_K) -> bool:
    """Whether the selected set is what a full sort finds first."""
    payload = our_codec(name, len(delta_D)).encode(delta_D)
    chosen_K = payload.arrays["indices"]
    order_D = np.argsort(-np.abs(delta_D), kind="stable")
    return np.array_equal(np.sort(order_D[: len(chosen_K)]), chosen_K)
