"""Measures encoding and decoding with real updates of a model."""

import statistics
from collections.abc import Callable
from itertools import count
from time import perf_counter
from typing import NamedTuple

from fedcore.compressors import CompressorConfig
from fedcore.payloads import decode, pack, unpack
from fedcore.rng import Key
from fedstudies.codecs.pairs import Pair
from fedstudies.first_updates import Sample

FEWEST, MOST = 5, 50  # repetitions
ENOUGH = 0.1  # seconds for one codec, beyond the fewest repetitions


class CodecTimes(NamedTuple):
    """Median milliseconds: from a vector to bytes, and from bytes to a vector."""

    encode: float
    decode: float


class PairTimes(NamedTuple):
    """The times of both directions."""

    up: CodecTimes
    down: CodecTimes

    @property
    def encode(self) -> float:
        """Milliseconds to encode an update, and a version."""
        return self.up.encode + self.down.encode

    @property
    def decode(self) -> float:
        """Milliseconds to decode an update, and a version."""
        return self.up.decode + self.down.decode


def pair_times(
    pair: Pair, sample: Sample, known: dict[str, CodecTimes] | None = None
) -> PairTimes:
    """Returns the times of a pair.

    Args:
        pair: the codecs.
        sample: real updates.
        known: the times of codecs by their settings; those of this pair are added.
    """
    known = {} if known is None else known

    def times(method: CompressorConfig) -> CodecTimes:
        name = method.model_dump_json()
        if name not in known:
            known[name] = codec_times(method, sample)
        return known[name]

    return PairTimes(times(pair.uplink), times(pair.downlink))


def codec_times(
    method: CompressorConfig, sample: Sample, clock: Callable[[], float] = perf_counter
) -> CodecTimes:
    """Returns the median times over repetitions, without the first one.

    Args:
        method: the codec. Its error memory goes on from repetition to repetition.
        sample: real updates.
        clock: returns seconds.
    """
    compressor, key = method.build_for(sample.spec), Key.root(0)
    state = compressor.init(sample.spec.dim)
    encodes: list[float] = []
    decodes: list[float] = []
    for turn in count():
        delta_D = sample.deltas[turn % len(sample.deltas)]
        began = clock()
        payload, state = compressor.encode(delta_D, state, key.fold_in(turn))
        message = pack(payload)
        sent = clock()
        decode(unpack(message, sample.layout))
        done = clock()
        if turn:  # the first one finds cold caches
            encodes.append(1e3 * (sent - began))
            decodes.append(1e3 * (done - sent))
        spent = sum(encodes) + sum(decodes)
        if turn >= FEWEST and (turn >= MOST or spent >= 1e3 * ENOUGH):
            break
    return CodecTimes(statistics.median(encodes), statistics.median(decodes))
