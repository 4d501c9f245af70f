"""A codec as the benchmark sees it, ours or a peer's, and its measurements."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.codecs.vectors import relative_error
from benchmarks.speed.measure import Figure, Work, in_turn
from fedcore.typing import Seconds, Vector

PASS = "pass"
STAGES = ("encode", "pack", "unpack", "decode", "add")
_AT_ONCE = 1 << 23  # values that are gone through before the clock is read


@dataclass(frozen=True, slots=True, kw_only=True)
class Codec:
    """How a vector becomes a message and bytes, and a vector again.

    A peer has no bytes of its own, and adds what it decoded.
    """

    encode: Callable[[Vector], Any]
    decode: Callable[[Any], Vector]
    nbytes: Callable[[Any], int]
    pack: Callable[[Any], Any] | None = None
    unpack: Callable[[Any], Any] | None = None
    add: Callable[[Any, Vector], None] | None = None


class Measured(NamedTuple):
    """Of one codec and one vector; times are in passes over that vector."""

    nbytes: int
    bits: float  # a value
    error: float  # squared, relative
    passes: dict[str, Figure]

    def time(self, *stages: str) -> float:
        """The median of these stages together, in passes."""
        known = [self.passes[stage].values for stage in stages if stage in self.passes]
        return Figure([sum(values) for values in zip(*known, strict=True)]).median


def measure(codec: Codec, delta_D: Vector, rounds: int) -> Measured:
    """Bytes and error of a vector; times of all stages, and of a pass, in turn."""
    message = codec.encode(delta_D)
    data = codec.pack(message) if codec.pack else message
    read = codec.unpack(data) if codec.unpack else message
    found_D, out_D = codec.decode(read), np.zeros_like(delta_D)
    calls: dict[str, tuple[Callable[..., Any] | None, tuple[Any, ...]]] = {
        "encode": (codec.encode, (delta_D,)),
        "pack": (codec.pack, (message,)),
        "unpack": (codec.unpack, (data,)),
        "decode": (codec.decode, (read,)),
        "add": (codec.add, (read, out_D)),
    }
    works = {
        stage: _repeated(partial(call, *given), len(delta_D))
        for stage, (call, given) in calls.items()
        if call is not None
    }
    seconds = in_turn({PASS: one_pass(delta_D), **works}, rounds)
    unit = seconds.pop(PASS)
    nbytes = codec.nbytes(data)
    return Measured(
        nbytes,
        8 * nbytes / len(delta_D),
        relative_error(found_D, delta_D),
        {stage: figure.over(unit) for stage, figure in seconds.items()},
    )


def one_pass(delta_D: Vector) -> Work:
    """The unit: an addition in place, of this vector."""
    out_D = np.zeros_like(delta_D)
    return _repeated(partial(np.add, out_D, delta_D, out=out_D), len(delta_D))


def _repeated(work: Work, dim: int) -> Work:
    """Processor time, which others on the machine disturb less; the mean of a few."""
    times = min(8, max(1, _AT_ONCE // dim))

    def works() -> Seconds:
        began = time.process_time()
        for _ in range(times):
            work()
        return (time.process_time() - began) / times

    return works
