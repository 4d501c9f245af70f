"""Sums of published messages: exact, cheap, and in little room."""

from collections.abc import Sequence

import numpy as np
import pytest

from fedcore import payloads
from fedcore.compressors import DeadZone, SemiDiscrete
from fedcore.compressors.base import CompressorConfig
from fedcore.coordinator.published import ENTRY, Sums
from fedcore.payloads import Payload, pack, unpack
from fedcore.rng import Key
from fedcore.typing import Array

DIM = 300


def messages(downlink: CompressorConfig, count: int) -> dict[int, bytes]:
    """Packed messages of the versions 1 to ``count``."""
    rng, encode = np.random.default_rng(0), downlink.build((DIM,)).encode
    return {
        version: pack(
            encode(rng.standard_t(3, DIM).astype(np.float32), None, Key.root(0))[0]
        )
        for version in range(1, count + 1)
    }


def total(found: dict[int, bytes], start: int, end: int) -> Array:
    """The sum of the messages after ``start``, one by one."""
    parts = [found[version] for version in range(start + 1, end + 1)]
    return np.sum([payloads.decode(unpack(part, (DIM,))) for part in parts], axis=0)


def upto(found: dict[int, bytes], end: int) -> dict[int, bytes]:
    return {version: found[version] for version in found if version <= end}


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many messages each sum was made of."""
    counts: list[int] = []
    merged = payloads.merge

    def counted(parts: Sequence[Payload]) -> Payload | None:
        counts.append(len(parts))
        return merged(parts)

    monkeypatch.setattr(payloads, "merge", counted)
    return counts


def test_whatever_was_asked_before_a_sum_is_that_of_all_missed_messages() -> None:
    found, sums = messages(DeadZone(ratio=0.01), 30), Sums((DIM,))
    rng, end = np.random.default_rng(1), 2
    while end <= 30:
        start = int(rng.integers(0, end))
        sum_D = sums.over(start, upto(found, end))
        assert sum_D is not None
        np.testing.assert_array_equal(payloads.decode(sum_D), total(found, start, end))
        end += int(rng.random() < 0.3)


def test_a_new_version_costs_one_addition_for_each_that_somebody_holds(
    added: list[int],
) -> None:
    found, sums = messages(DeadZone(ratio=0.02), 20), Sums((DIM,))
    sums.over(3, upto(found, 10))
    assert added.pop() == 7
    sums.over(3, upto(found, 11))
    assert added.pop() == 2  # what is known, and the new one


def test_a_sum_is_made_of_the_nearest_one_that_is_known(added: list[int]) -> None:
    found, sums = messages(DeadZone(ratio=0.004), 20), Sums((DIM,))
    sums.over(10, found)
    assert added.pop() == 10
    sums.over(9, found)  # one more than after 10
    assert added.pop() == 2
    sums.over(12, found)  # two less
    assert added.pop() == 3
    sums.over(18, found)  # two alone are nearer than what is known
    assert added.pop() == 2


def nearest(sums: Sums, start: int, end: int, oldest: int) -> int:
    """Of how many parts a sum is made, beginning with the nearest one known."""
    lacking = [end - start]  # where nothing is known
    for known, (until, _) in sums._known.items():
        if known == start:
            lacking.append(end - until)
        elif until == end and (known > start or known + 1 >= oldest):
            lacking.append(abs(known - start))
    least = min(lacking)
    return least if least == lacking[0] else least + 1


def test_no_sum_takes_more_additions_than_it_must(added: list[int]) -> None:
    found, sums = messages(DeadZone(ratio=0.004), 40), Sums((DIM,))
    rng, end = np.random.default_rng(3), 3
    while end <= 40:
        oldest = max(1, end - 12)
        start = int(rng.integers(oldest - 1, end))
        expected = nearest(sums, start, end, oldest)
        recent = {v: found[v] for v in range(oldest, end + 1)}
        sum_D = sums.over(start, recent)
        assert sum_D is not None
        np.testing.assert_array_equal(payloads.decode(sum_D), total(found, start, end))
        assert added.pop() == expected
        end += int(rng.random() < 0.2)


def test_sums_that_just_fit_are_kept() -> None:
    found, sums = messages(DeadZone(ratio=0.02), 9), Sums((DIM,))
    sums.over(3, found)
    after = Sums((DIM,))
    after.over(5, found)
    sums._room = sums._size + after._size
    sums.over(5, found)
    assert list(sums._known) == [3, 5]
    sums._room -= 1
    sums.over(5, found)
    assert list(sums._known) == [5]


def test_a_sum_whose_messages_are_gone_is_not_taken_apart(added: list[int]) -> None:
    found, sums = messages(DeadZone(ratio=0.02), 20), Sums((DIM,))
    sums.over(8, found)
    del added[:]
    late = {version: message for version, message in found.items() if version > 10}
    sum_D = sums.over(11, late)
    assert added == [9]
    assert sum_D is not None
    np.testing.assert_array_equal(payloads.decode(sum_D), total(found, 11, 20))


def test_messages_of_which_nothing_cancels_are_put_together_each_time(
    added: list[int],
) -> None:
    found, sums = messages(SemiDiscrete(bits=0.1), 9), Sums((DIM,))
    assert not payloads.cancels(unpack(found[9], (DIM,)))
    for _ in range(2):
        sum_D = sums.over(4, found)
        assert sum_D is not None
        assert added.pop() == 5
        np.testing.assert_array_equal(payloads.decode(sum_D), total(found, 4, 9))


def test_sums_take_the_room_of_one_model_and_the_oldest_goes_first(
    added: list[int],
) -> None:
    found, sums = messages(DeadZone(ratio=0.02), 40), Sums((DIM,))
    sizes: dict[int, int] = {}
    for start in range(30, 0, -1):
        sum_D = sums.over(start, found)
        assert sum_D is not None
        sizes.pop(start, None)
        sizes[start] = ENTRY * len(sum_D.arrays["indices"])
        while sum(sizes.values()) > 4 * DIM and len(sizes) > 1:
            sizes.pop(next(iter(sizes)))
        assert list(sums._known) == list(sizes)
        assert sums._size == sum(sizes.values())
    assert len(sizes) < 30


def test_one_sum_is_kept_though_it_is_larger_than_the_room() -> None:
    found, sums = messages(DeadZone(ratio=0.9), 3), Sums((DIM,))
    for start in (0, 1, 1):
        sums.over(start, found)
        assert list(sums._known) == [start]
    assert sums._size == ENTRY * len(sums._known[1][1].arrays["indices"])


def test_messages_of_two_formats_have_no_sum() -> None:
    mixed = messages(DeadZone(ratio=0.02), 3) | {
        2: messages(SemiDiscrete(bits=0.1), 2)[2]
    }
    sums = Sums((DIM,))
    assert sums.over(0, mixed) is None
    assert sums._size == 0
