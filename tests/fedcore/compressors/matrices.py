"""What compressors that look for structure make of matrices."""

import numpy as np

from fedcore import payloads
from fedcore.compressors import CompressorConfig
from fedcore.params import ParamSpec
from fedcore.payloads import Payload
from fedcore.rng import Key
from fedcore.typing import Vector


def message(
    config: CompressorConfig, delta_D: Vector, spec: ParamSpec, seed: int = 0
) -> Payload:
    """What travels of an update of this model, over the wire."""
    compressor = config.build_for(spec)
    payload, _ = compressor.encode(delta_D, compressor.init(spec.dim), Key.root(seed))
    return payloads.unpack(payloads.pack(payload), spec.sizes)


def approximated(config: CompressorConfig, m_MN: Vector, seed: int = 0) -> Vector:
    """The matrix that arrives."""
    spec = ParamSpec.of({"m": m_MN})
    payload = message(config, m_MN.reshape(-1), spec, seed)
    approximation: Vector = payloads.decode(payload).reshape(m_MN.shape)
    return approximation


def lost(config: CompressorConfig, m_MN: Vector, seed: int = 0) -> float:
    """The share of the squared norm that does not arrive."""
    off = np.square(approximated(config, m_MN, seed) - m_MN, dtype=np.float64).sum()
    return float(off / np.square(m_MN, dtype=np.float64).sum())


def gaussian(rows: int, columns: int, seed: int = 0) -> Vector:
    """A matrix of normal numbers."""
    drawn = np.random.default_rng(seed).standard_normal((rows, columns))
    return drawn.astype(np.float32)
