"""Messages between processes: arrays that stay where they are, and rooms used again."""

import gc
import random
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.engines.stacked.channel import Channel

MAPS = Path("/proc/self/maps")
counted = pytest.mark.skipif(not MAPS.exists(), reason="mappings are counted on Linux")


class Ends:
    """Both ends, in one process."""

    def __init__(self) -> None:
        ours, theirs = Pipe()
        self.sender, self.receiver = Channel(ours), Channel(theirs)

    def told(self, message: Any) -> Any:
        """What arrives, once it is answered."""
        self.sender.send(message)
        found = self.receiver.receive()
        self.receiver.send("read")
        assert self.sender.receive() == "read"
        return found


def rooms() -> int:
    """How many are mapped, by either end."""
    gc.collect()  # those of other tests
    return MAPS.read_text().count("memfd:latecomer")


def test_messages_of_any_size_come_through_and_may_be_written_into() -> None:
    ends = Ends()
    for count in (0, 3, 1000, 5, 100_000, 1000):
        rows = [np.arange(count, dtype=np.float32) + i for i in range(3)]
        got = ends.told({"rows": rows, "also": np.ones((count, 2), np.int8)})
        for row, copy in zip(rows, got["rows"], strict=True):
            np.testing.assert_array_equal(row, copy)
            copy += 1
        assert got["also"].sum() == 2 * count
    ends.receiver.close()
    with pytest.raises((EOFError, OSError)):
        ends.sender.receive()
    ends.sender.close()


def test_arrays_that_somebody_has_are_not_written_over() -> None:
    ends, kept, rng = Ends(), dict[int, list[Any]](), random.Random(0)
    for number in range(60):
        sizes = (50_000 + 9_000 * (number % 7), 700, 40_000)
        arrays = ends.told([np.full(size, number, np.int32) for size in sizes])
        kept[number] = arrays[number % 3 :]  # all, or a part
        if len(kept) > 8:
            del kept[rng.choice(list(kept))]
        for since, found in kept.items():
            assert all((array == since).all() for array in found)


@counted
def test_a_room_is_used_again_when_nobody_is_in_it() -> None:
    ends, before = Ends(), rooms()
    held = [ends.told(np.full(10_000, 7)) for _ in range(3)]
    assert rooms() == before + 2 * 3  # three at each end
    for number in range(50):
        assert (ends.told(np.full(9_000 + number, number)) == number).all()
    assert rooms() <= before + 2 * 5
    assert all((array == 7).all() for array in held)


@counted
def test_a_small_array_does_not_hold_the_room_of_a_large_one() -> None:
    ends, before = Ends(), rooms()
    small = [
        ends.told((np.full(1_000, number), np.zeros(100_000)))[0]
        for number in range(20)
    ]
    assert rooms() <= before + 2 * 2
    assert [int(array[0]) for array in small] == list(range(20))


@counted
def test_a_receiver_that_keeps_everything_stays_in_few_rooms() -> None:
    ends, before = Ends(), rooms()
    kept = [ends.told(np.full(1_000, number)) for number in range(500)]
    assert rooms() <= before + 2 * 10
    assert [int(array[0]) for array in kept] == list(range(500))


def test_small_messages_that_are_kept_do_not_hold_the_rooms_of_large_ones() -> None:
    ends, kept = Ends(), list[Any]()
    for number in range(30):
        ends.told(np.zeros(500_000))
        kept.append(ends.told(np.full(200, number)))
    assert sum(len(room.memory) for room in ends.sender._ours) < 2.1 * 8 * 500_000
    assert [int(array[0]) for array in kept] == list(range(30))
