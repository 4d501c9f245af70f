"""Mutated messages of every format: ``python -m tests.laws.fuzz --payloads 1e6``.

Each is a valid message with flipped bits, a part cut off or spliced in, absurd numbers
where sizes may stand, a random body behind a good header, or a body that was deflated.
It yields a vector of the right shape, or a PayloadError, in little time; some are read
once more under tracemalloc. A failing message is printed as hexadecimal bytes, with its
layout.
"""

import argparse
import random
import struct
import sys
import time
import tracemalloc
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from fedcore import payloads
from fedcore.arrays import top_k_indices
from fedcore.compressors import STC, CompressorConfig, DeadZone, TopK
from fedcore.errors import PayloadError
from fedcore.payloads import Layout, Payload
from fedcore.rng import Key
from fedcore.typing import Indices, Seconds, Vector
from tests.golden.load import golden, golden_bytes
from tests.laws.compressors import ALONE
from tests.laws.vectors import vector

LAYOUTS: tuple[Layout, ...] = ((1,), (3,), (2, 1), (7, 4), (0, 5), (300,), (1500, 700))
LARGE: Layout = (30_000, 20_000)  # for memory: what Python itself takes is small then
WATCHED = 250  # one in so many is read under tracemalloc
# Bytes held at most, for each byte of message and model. An entry of `levels` takes 12
# in memory, and next to none in the message, where a value of the model takes 4. What
# was deflated is there twice for a moment, and takes 4 for each value at most.
READING, WHOLE = 3.5, 10.0
SLACK = 1 << 16  # and so many for Python's own objects, and the window of zlib
LIMIT: Seconds = 0.25  # of the processor, for a model of a few thousand values
NUMBERS = (0, 1, 2, 3, 127, 255, 256, 65535, 65536, 1 << 24, 1 << 31, (1 << 32) - 1)


class Message(NamedTuple):
    """Bytes for a model of this layout."""

    data: bytes
    layout: Layout

    def __str__(self) -> str:
        return f"{self.data.hex()} for layout {self.layout}"


Corpus = dict[str, list[Message]]  # by format


# --------------------------------------------------------------------- what is valid


def corpus(layouts: Sequence[Layout]) -> Corpus:
    """Valid messages for models of these layouts, and the golden ones, by format."""
    found: Corpus = {form.name: [] for form in payloads.formats()}
    names = {form.code: form.name for form in payloads.formats()}
    for message in _valid(layouts):
        found[names[message.data[1]]].append(message)
    return found


def _valid(layouts: Sequence[Layout]) -> Iterator[Message]:
    for layout in layouts:
        for payload in _encoded(layout):
            yield Message(payloads.pack(payload), layout)
    for entry in golden("payloads")["payloads"]:
        layout = tuple(entry["layout"])
        if sum(layout) <= max(map(sum, layouts)):
            yield Message(golden_bytes(entry), layout)


def _encoded(layout: Layout) -> Iterator[Payload]:
    dim, key = sum(layout), Key.root(0)
    sparse = (kind(ratio=r) for kind in (TopK, STC, DeadZone) for r in (0.01, 0.1, 0.6))
    configs: list[CompressorConfig] = [*ALONE, *sparse]
    for shape in ("student_t3", "one_hot"):
        delta_D = vector(shape, dim)
        for config in configs:
            yield config.build(layout).encode(delta_D, None, key)[0]
        for ratio in (0.01, 0.3):
            places = top_k_indices(np.abs(delta_D), max(1, int(ratio * dim)))
            yield payloads.values_payload(dim, places, delta_D[places])
    signs, scales = delta_D > 0, np.ones(len(layout), np.float32)
    yield payloads.sign_payload(signs, scales, layout)
    every, ones = np.arange(dim), np.ones(dim, np.int32)
    yield payloads.levels_payload(dim, every, ones, scales, layout)
    yield payloads.sparse_payload(dim, every[:0], delta_D[:0])


# ----------------------------------------------------------------------- what is junk


def mutated(rng: random.Random, valid: Corpus, name: str) -> Message:
    """A message of this format, spoilt in one way or in a few."""
    message = rng.choice(valid[name])
    data = bytearray(message.data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        rng.choice(MUTATIONS)(rng, data, valid)
    return Message(bytes(data), message.layout)


def _flip(rng: random.Random, data: bytearray, valid: Corpus) -> None:
    for _ in range(rng.choice((1, 1, 2, 8))):
        if data:
            data[_place(rng, data)] ^= 1 << rng.randrange(8)


def _cut(rng: random.Random, data: bytearray, valid: Corpus) -> None:
    del data[rng.randrange(len(data) + 1) :]


def _drop(rng: random.Random, data: bytearray, valid: Corpus) -> None:
    at = _place(rng, data)
    del data[at : at + rng.choice((1, 2, 4, 8, 64))]


def _lengthen(rng: random.Random, data: bytearray, valid: Corpus) -> None:
    at = rng.choice((len(data), _place(rng, data)))
    data[at:at] = rng.randbytes(rng.choice((1, 2, 4, 64)))


def _splice(rng: random.Random, data: bytearray, valid: Corpus) -> None:
    other = rng.choice(rng.choice(list(valid.values()))).data
    at = _place(rng, data)
    data[at:] = other[min(len(other), rng.choice((at, _place(rng, other)))) :]


def _absurd(rng: random.Random, data: bytearray, valid: Corpus) -> None:
    kind = rng.choice("BHHIIIQ")
    number = rng.choice(NUMBERS) * rng.choice((1, 1, 1 << 32))
    number += rng.choice((0, 0, 1, len(data), 8 * len(data)))
    size = struct.calcsize(kind)
    at = _place(rng, data)
    data[at : at + size] = (number % (1 << 8 * size)).to_bytes(size, "little")


def _deflated(rng: random.Random, data: bytearray, valid: Corpus) -> None:
    """The same message in version 2: a body that makes it through is spoilt inside."""
    if len(data) > 6:
        data[:] = deflated_again(bytes(data), rng.choice((1, 1, 2, 4)))


def _bomb(rng: random.Random, data: bytearray, valid: Corpus) -> None:
    """A body that goes on and on, and is larger than it says, or says so."""
    size = rng.choice((1, 1000, 1 << 20))
    data += bytes([rng.randrange(256)]) * size
    data[:] = deflated_again(bytes(data), rng.choice((1, 4)))
    if rng.random() < 0.5:
        data[7:11] = struct.pack("<I", rng.randrange(1 << 12))


def deflated_again(data: bytes, stride: int) -> bytes:
    """A message of version 1 in version 2, whatever it says and however long it is."""
    head, body = data[:6], data[6:]
    apart = b"".join(body[at::stride] for at in range(stride))
    packer = zlib.compressobj(1, zlib.DEFLATED, -15)
    small = packer.compress(apart) + packer.flush()
    return b"\2" + head[1:] + struct.pack("<BI", stride, len(body)) + small


def _random_body(rng: random.Random, data: bytearray, valid: Corpus) -> None:
    at = rng.choice((6, 6, 7, 8, 10, 11, 12, 16, 18, 20))
    size = max(0, len(data) - at) if rng.random() < 0.5 else rng.randrange(100)
    data[at:] = rng.choice((rng.randbytes(size), bytes(size), b"\xff" * size))


def _place(rng: random.Random, data: bytes | bytearray) -> int:
    """Anywhere; but mostly behind the header and near it, where sizes are told."""
    if len(data) > 6 and rng.random() < 0.7:
        return rng.randrange(6, min(len(data), 40))
    return rng.randrange(max(1, len(data)))


Mutation = Callable[[random.Random, bytearray, Corpus], None]
MUTATIONS: tuple[Mutation, ...] = (
    _flip,
    _cut,
    _drop,
    _lengthen,
    _splice,
    _absurd,
    _absurd,
    _random_body,
    _deflated,
    _deflated,
    _bomb,
)


# --------------------------------------------------------------------- what must hold


def read(message: Message) -> bool:
    """Reads and uses a message; whether it was one.

    Raises:
        AssertionError: what it stands for is no vector of the model's.
    """
    try:
        payload = payloads.unpack(message.data, message.layout)
    except PayloadError:
        return False
    dim = sum(message.layout)
    out_D = np.zeros(dim, np.float32)
    support = payloads.support(payload)
    assert support is None or _ascends(support, dim), "a support that does not ascend"
    if payload.format == "values":  # of a model, and no update
        payloads.overwrite(payload, out_D)
        return True
    vector_D = payloads.decode(payload)
    assert (vector_D.shape, vector_D.dtype) == ((dim,), np.float32), "not the model's"
    payloads.add(payload, out_D)
    assert _equal(out_D, vector_D), "added is not what is decoded"
    largest = payloads.magnitude(payload)
    if largest <= float(np.finfo(np.float32).max):  # not if it is NaN
        assert np.abs(vector_D).max(initial=0) <= np.float32(largest), "too large"
    again = payloads.unpack(payloads.pack(payload), message.layout)
    assert _equal(payloads.decode(again), vector_D), "packed again it says another"
    return True


def _ascends(support: Indices, dim: int) -> bool:
    if not len(support):
        return True
    inside = support[0] >= 0 and support[-1] < dim
    return bool(inside and (support[1:] > support[:-1]).all())


def _equal(one_D: Vector, other_D: Vector) -> bool:
    return np.array_equal(one_D, other_D, equal_nan=True)


@dataclass(slots=True)
class Tally:
    """What came of a run."""

    payloads: int = 0
    vectors: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    slowest: Seconds = 0.0
    reading: float = 0.0  # bytes held, for each byte of message and model
    whole: float = 0.0

    def fail(self, message: Message, why: str) -> None:
        """Notes a message that breaks a promise."""
        self.failures.append(f"payload {self.payloads}: {why}: {message}")


def fuzz(count: int, seed: int, say: Callable[[Tally], None] | None = None) -> Tally:
    """Reads so many mutated messages, of all formats in turn."""
    rng, tally = random.Random(seed), Tally()
    small, large = corpus(LAYOUTS), corpus([LARGE])
    names = list(small)
    with np.errstate(all="ignore"):  # NaN and infinity are numbers of a vector, too
        while tally.payloads < count:
            name = names[tally.payloads % len(names)]
            _try(mutated(rng, small, name), name, tally)
            if tally.payloads % WATCHED == 0:
                watched = rng.choice(names)
                message = mutated(rng, large, watched)
                _watch(message if rng.random() < 0.8 else _unspoilt(rng, large), tally)
            tally.payloads += 1
            if say and tally.payloads % 100_000 == 0:
                say(tally)
    return tally


def _unspoilt(rng: random.Random, valid: Corpus) -> Message:
    return rng.choice(rng.choice(list(valid.values())))


def _try(message: Message, name: str, tally: Tally) -> None:
    began = time.thread_time()
    try:
        tally.vectors[name] += read(message)
    except Exception as error:  # noqa: BLE001, any of them is what is looked for
        tally.fail(message, f"{type(error).__name__}: {error}")
    seconds = time.thread_time() - began
    tally.slowest = max(tally.slowest, seconds)
    if seconds > LIMIT:
        tally.fail(message, f"took {seconds:.3f} s")


def _watch(message: Message, tally: Tally) -> None:
    size = len(message.data) + 4 * sum(message.layout)

    def unpack() -> None:
        payloads.unpack(message.data, message.layout)

    def whole() -> None:
        out_D = np.zeros(sum(message.layout), np.float32)
        payload = payloads.unpack(message.data, message.layout)
        if payload.format != "values":
            payloads.add(payload, out_D)

    for call, most, name in ((unpack, READING, "reading"), (whole, WHOLE, "whole")):
        held = _held(call, message, tally)
        setattr(tally, name, max(getattr(tally, name), (held - SLACK) / size))
        if held > most * size + SLACK:
            told = f"{held / size:.2f} bytes for each of message and model"
            tally.fail(message, f"{name}: {told}, at most {most}")


def _held(call: Callable[[], None], message: Message, tally: Tally) -> int:
    """The most bytes that a call held at once."""
    tracemalloc.start()
    try:
        call()
    except PayloadError:
        pass
    except Exception as error:  # noqa: BLE001, as above
        tally.fail(message, f"{type(error).__name__}: {error}")
    finally:
        held = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return held


# ------------------------------------------------------------------------ the command


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status is 1 if a message broke a promise."""
    parser = argparse.ArgumentParser(prog="python -m tests.laws.fuzz")
    parser.add_argument("--payloads", type=float, default=1e6)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    began = time.monotonic()

    def say(tally: Tally) -> None:
        seconds = time.monotonic() - began
        failed = len(tally.failures)
        print(f"{tally.payloads:,} payloads, {seconds:.0f} s: {failed} failures")

    tally = fuzz(int(given.payloads), given.seed, say)
    for failure in tally.failures:
        print(f"seed {given.seed}, {failure}")
    say(tally)
    turns = tally.payloads / max(1, len(tally.vectors))
    shares = ", ".join(f"{n} {v / turns:.0%}" for n, v in tally.vectors.items())
    print(f"vectors: {shares}; all others are a PayloadError")
    print(
        f"slowest {1e3 * tally.slowest:.1f} ms; bytes held for each of message and "
        f"model: {tally.reading:.2f} while reading, {tally.whole:.2f} until added"
    )
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
