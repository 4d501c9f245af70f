"""``python -m benchmarks.codecs.entropy``: savings of entropy coders on real updates.

A small federation with label skew trains a perceptron once for each codec. Its last
messages, of clients with their error memories and of the server, are packed and
deflated as usual, and given to other coders for comparison. Times are in passes of 10⁷
values.
"""

import argparse
import bz2
import lzma
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.bytes.data import FASHION
from benchmarks.codecs.federation import messages, tasks
from benchmarks.series import join
from fedcore import payloads
from fedcore.compressors import (
    QSGD,
    STC,
    Cast,
    CompressorConfig,
    DeadZone,
    LowRank,
    Natural,
    Rotation,
    SignL1,
    TopK,
    Uniform,
)
from fedcore.payloads import Payload
from fedcore.payloads.base import pack_plain
from fedcore.typing import JSON, Seconds

RESULTS = Path(__file__).parent.parent / "results" / "entropy.json"
CONFIGS: dict[str, CompressorConfig] = {
    "uniform 8 bits": Uniform(bits=8),
    "uniform 4 bits": Uniform(bits=4),
    "uniform 2 bits": Uniform(bits=2),
    "qsgd 8 bits": QSGD(bits=8),
    "natural": Natural(),
    "cast float16": Cast(),
    "cast bfloat16": Cast(dtype="bfloat16"),
    "sign_l1": SignL1(),
    "rotation, 1 bit": Rotation(),
    "rotation, 4 bits": Rotation(inner=Uniform(bits=4)),
    "top_k 1 %": TopK(ratio=0.01),
    "stc 2 %": STC(ratio=0.02),
    "dead_zone 1 %": DeadZone(ratio=0.01),
    "dead_zone 10 %": DeadZone(ratio=0.1),
    "low_rank 2": LowRank(rank=2),
}


def _zlib(level: int, strategy: int) -> Callable[[bytes], bytes]:
    def packed(data: bytes) -> bytes:
        stream = zlib.compressobj(level, zlib.DEFLATED, -15, 8, strategy)
        return stream.compress(data) + stream.flush()

    return packed


Coder = tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]
CODERS: dict[str, Coder] = {
    f"zlib {name}": (_zlib(level, strategy), lambda data: zlib.decompress(data, -15))
    for name, level, strategy in (
        ("Huffman only", 1, zlib.Z_HUFFMAN_ONLY),
        ("RLE", 1, zlib.Z_RLE),
        ("level 1", 1, zlib.Z_DEFAULT_STRATEGY),
        ("level 9", 9, zlib.Z_DEFAULT_STRATEGY),
    )
} | {"bz2": (bz2.compress, bz2.decompress), "lzma": (lzma.compress, lzma.decompress)}


class Row(NamedTuple):
    """Bytes and seconds of one coder."""

    nbytes: int
    encode: Seconds
    decode: Seconds


def measured(
    sent: Sequence[Payload], layout: payloads.Layout
) -> Iterator[tuple[str, Row]]:
    """Each coder's bytes and times for these messages, a message at a time."""
    plain = [payloads.pack(replace(each, deflates=False)) for each in sent]
    yield "as laid out", Row(sum(map(len, plain)), 0.0, 0.0)
    ours = [payloads.pack(each) for each in sent]
    yield (
        "as it travels",
        Row(
            sum(map(len, ours)),
            _seconds(lambda: [payloads.pack(each) for each in sent])
            - _seconds(lambda: [pack_plain(each) for each in sent]),
            _seconds(lambda: _read(ours, layout))
            - _seconds(lambda: _read(plain, layout)),
        ),
    )
    for name, (pack, unpack) in _coders().items():
        packed = [pack(each) for each in plain]
        encode = _seconds(partial(_each, pack, plain))
        decode = _seconds(partial(_each, unpack, packed))
        yield name, Row(sum(map(len, packed)), encode, decode)


def _each(code: Callable[[bytes], bytes], data: Sequence[bytes]) -> None:
    for each in data:
        code(each)


def _read(packed: Sequence[bytes], layout: payloads.Layout) -> None:
    for each in packed:
        payloads.unpack(each, layout)


def _coders() -> dict[str, Coder]:
    try:
        zstandard: Any = import_module("zstandard")
    except ImportError:
        return CODERS
    packer, unpacker = zstandard.ZstdCompressor(level=1), zstandard.ZstdDecompressor()
    return CODERS | {"zstandard 1": (packer.compress, unpacker.decompress)}


def _seconds(work: Callable[[], object]) -> Seconds:
    times = []
    for _ in range(3):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times)


def show(
    title: str, sent: Sequence[Payload], layout: payloads.Layout, passed: Seconds
) -> JSON:
    """Lines of one codec: what is left of the bytes, times, and the link speed."""
    told: JSON = {}
    print(f"{title}, {sent[0].dim:,} values, {len(sent)} messages")
    values = sum(each.dim for each in sent)
    rows = dict(measured(sent, layout))
    whole = rows.pop("as laid out").nbytes
    for name, row in rows.items():
        saved, seconds = whole - row.nbytes, max(row.encode + row.decode, 1e-9)
        to_passes = 1e7 / values / passed
        link = f"pays below {8e-6 * saved / seconds:,.0f} Mbit/s" if saved > 0 else ""
        encode, decode = row.encode * to_passes, row.decode * to_passes
        told[name] = {
            "share": round(row.nbytes / whole, 4),
            "encode, passes": float(f"{encode:.4g}"),
            "decode, passes": float(f"{decode:.4g}"),
        }
        print(
            f"  {name:18} {row.nbytes / len(sent):10,.0f} bytes"
            f" {row.nbytes / whole:6.3f}"
            f"  encode {encode:7.2f}  decode {decode:6.2f}  {link}"
        )
    return told


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints all of it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.codecs.entropy")
    parser.add_argument(
        "--data", type=Path, help=f"folder of {FASHION}, if there is one"
    )
    parser.add_argument("--codecs", nargs="*", choices=CONFIGS, default=[*CONFIGS])
    parser.add_argument(
        "--as-in-torch", action="store_true", help="a row of weights for each output"
    )
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.name}")
    given = parser.parse_args(arguments)
    rows: JSON = {}
    out_D, ones_D = np.zeros(10**7, np.float32), np.ones(10**7, np.float32)
    passed = _seconds(partial(np.add, out_D, ones_D, out=out_D))
    for task, model, parts in tasks(given.data, as_in_torch=given.as_in_torch):
        for name in given.codecs:
            for direction, sent in messages(model, parts, CONFIGS[name]).items():
                found = [message for _, message in sent]
                title = f"{task}, {name} {direction}"
                title += ", as in torch" if given.as_in_torch else ""
                rows[title] = show(title, found, model.spec.sizes, passed)
    if given.save:
        join(RESULTS, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
