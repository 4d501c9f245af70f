"""Compression of float32 vectors by other libraries, if they are installed.

torch's hooks compress gradients for DistributedDataParallel; their arithmetic is
repeated here without the processes around it. The general compressors get the raw
floats. The project needs none of these libraries.
"""

import math
import zlib
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.codecs.codec import Codec
from fedcore.typing import Vector

RANK = 4  # of PowerSGD, as in its paper's tables


def _zlib() -> Codec:
    return Codec(
        encode=lambda delta_D: zlib.compress(delta_D.data, 1),
        decode=lambda data: np.frombuffer(zlib.decompress(data), np.float32),
        nbytes=len,
    )


def _zstandard() -> Codec:
    zstandard: Any = import_module("zstandard")
    packer, unpacker = zstandard.ZstdCompressor(level=1), zstandard.ZstdDecompressor()
    return Codec(
        encode=lambda delta_D: packer.compress(delta_D.data),
        decode=lambda data: np.frombuffer(unpacker.decompress(data), np.float32),
        nbytes=len,
    )


def _blosc() -> Codec:
    blosc: Any = import_module("numcodecs.blosc")
    blosc.set_nthreads(1)
    codec = blosc.Blosc(cname="zstd", clevel=1, shuffle=blosc.BITSHUFFLE)
    return Codec(
        encode=codec.encode,
        decode=lambda data: np.frombuffer(codec.decode(data), np.float32),
        nbytes=len,
    )


def _torch() -> Any:
    torch: Any = import_module("torch")
    torch.set_num_threads(1)
    return torch


def _half(dtype: str) -> Codec:
    torch = _torch()
    half = getattr(torch, dtype)
    return Codec(
        encode=lambda delta_D: torch.from_numpy(delta_D).to(half),
        decode=lambda half_D: half_D.to(torch.float32).numpy(),
        nbytes=lambda half_D: 2 * len(half_D),
    )


def _power_sgd() -> Codec:
    """One step of the power iteration, as of powerSGD_hook without warm start."""
    torch = _torch()

    def encode(delta_D: Vector) -> Any:
        dim = len(delta_D)
        rows = math.ceil(math.sqrt(dim))
        matrix = torch.zeros(rows * math.ceil(dim / rows))
        matrix[:dim] = torch.from_numpy(delta_D)
        matrix = matrix.view(rows, -1)
        start = torch.manual_seed(0)
        right = torch.randn(matrix.shape[1], RANK, generator=start)
        left, _ = torch.linalg.qr(matrix @ right)
        return left, matrix.T @ left, dim

    def decode(message: Any) -> Vector:
        left, right, dim = message
        found_D: Vector = (left @ right.T).view(-1)[:dim].numpy()
        return found_D

    return Codec(
        encode=encode,
        decode=decode,
        nbytes=lambda message: 4 * (message[0].numel() + message[1].numel()),
    )


def _blockwise() -> Codec:
    torch, functional = _torch(), import_module("bitsandbytes.functional")
    return Codec(
        encode=lambda delta_D: functional.quantize_blockwise(torch.from_numpy(delta_D)),
        decode=lambda found: functional.dequantize_blockwise(*found).numpy(),
        nbytes=lambda found: found[0].numel() + 4 * found[1].absmax.numel(),
    )


def _hivemind() -> Codec:
    torch, compression = _torch(), import_module("hivemind.compression")
    codec = compression.Uniform8BitQuantization()

    def encode(delta_D: Vector) -> Any:
        tensor = torch.from_numpy(delta_D)
        return codec.compress(tensor, compression.CompressionInfo.from_tensor(tensor))

    def decode(message: Any) -> Vector:
        """As its extract(), which does not run with NumPy 2.4."""
        count = int(np.frombuffer(message.buffer, np.int64, 1)[0])
        codebook = np.frombuffer(message.buffer, np.float32, count, 8)
        codes = np.frombuffer(message.buffer, np.uint8, offset=8 + codebook.nbytes)
        return codebook[codes]

    return Codec(
        encode=encode,
        decode=decode,
        nbytes=lambda message: message.ByteSize(),
    )


def _openfl() -> Codec:
    """Its pipeline of sparsity, ternary values and gzip."""
    pipelines = import_module("openfl.pipelines.stc_pipeline")
    pipeline = pipelines.STCPipeline(p_sparsity=0.02)
    return Codec(
        encode=pipeline.forward,
        decode=lambda found: pipeline.backward(found[0], list(found[1])),
        nbytes=lambda found: len(found[0]),
    )


PEERS: dict[str, Callable[[], Codec]] = {
    "zlib, level 1": _zlib,
    "zstandard, level 1": _zstandard,
    "numcodecs Blosc, bits shuffled": _blosc,
    "torch fp16_compress_hook": lambda: _half("float16"),
    "torch bf16_compress_hook": lambda: _half("bfloat16"),
    f"torch PowerSGD, rank {RANK}": _power_sgd,
    "bitsandbytes, 8 bits blockwise": _blockwise,
    "hivemind, 8 bits uniform": _hivemind,
    "OpenFL STC pipeline, 2 %": _openfl,
}


def peer(name: str) -> Codec | None:
    """The peer, or None where it cannot be imported."""
    try:
        return PEERS[name]()
    except ImportError:
        return None


def topk(delta_D: Vector, k: int) -> Callable[[], object] | None:
    """torch.topk of the magnitudes, or None."""
    try:
        torch = _torch()
    except ImportError:
        return None
    x_D = torch.from_numpy(delta_D)
    return lambda: torch.topk(x_D.abs(), k, sorted=False)
