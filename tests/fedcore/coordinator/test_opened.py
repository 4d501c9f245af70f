"""What an update says, found out beforehand."""

import numpy as np
import pytest

from fedcore.coordinator.rounds import open_update
from fedcore.errors import PayloadError
from fedcore.payloads import (
    decode,
    dense_payload,
    low_rank_payload,
    pack,
    values_payload,
)
from fedcore.protocol import LARGEST
from tests.fedcore.coordinator.desk import SPEC

ABSURD = "the update holds NaN, infinite or absurdly large values"


def of_rank_2(p_RM: list[list[float]], q_RN: list[list[float]]) -> bytes:
    """A 2 by 2 matrix as a product."""
    factors = np.array(p_RM, np.float32), np.array(q_RN, np.float32)
    return pack(low_rank_payload(*factors))


def test_a_payload_is_read_and_made_ready_to_be_added() -> None:
    opened = open_update(of_rank_2([[1, 2], [0, 0]], [[3, 5], [0, 0]]), SPEC)
    assert (opened.absurd, opened.error) == ("", None)
    assert opened.payload is not None
    assert opened.payload.format == "dense"
    assert decode(opened.payload).tolist() == [3.0, 5.0, 6.0, 10.0]


@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_value_that_counts_is_two_to_the_hundredth(sign: int) -> None:
    assert float(np.float32(2.0**100)) == LARGEST
    beyond = np.nextafter(np.float32(LARGEST), np.float32(np.inf))
    for value, absurd in ((np.float32(LARGEST), ""), (beyond, f"{ABSURD} in 'w'")):
        payload = dense_payload(np.full(4, sign * value, np.float32))
        assert open_update(pack(payload), SPEC).absurd == absurd


@pytest.mark.parametrize(
    ("p_RM", "q_RN"),
    [
        ([[2.0**90, 0], [0, 0]], [[2.0**90, 0], [0, 0]]),
        ([[np.inf, 0], [0, 0]], [[0, 1], [0, 0]]),
    ],
    ids=["overflow", "invalid"],
)
def test_nothing_is_said_to_the_log_of_a_product_that_is_no_number(
    p_RM: list[list[float]], q_RN: list[list[float]]
) -> None:
    opened = open_update(of_rank_2(p_RM, q_RN), SPEC)  # warnings are errors here
    assert (opened.error, opened.absurd) == (None, f"{ABSURD} in 'w'")
    assert opened.payload is not None
    assert opened.payload.format == "low_rank"


def test_new_values_are_not_measured() -> None:
    """They are no update in any case."""
    values = np.array([2.0**120], np.float32)
    opened = open_update(pack(values_payload(4, np.array([0]), values)), SPEC)
    assert (opened.absurd, opened.error) == ("", None)


def test_what_cannot_be_read_is_told_and_not_raised() -> None:
    opened = open_update(b"\x01\x63\x04\0\0\0", SPEC)
    assert opened.payload is None
    assert isinstance(opened.error, PayloadError)
    packed = pack(dense_payload(np.ones(4, np.float32)))
    assert isinstance(open_update(packed, SPEC, {"sparse": 4}).error, PayloadError)
    assert open_update(packed, SPEC, {"dense": 4}).error is None
