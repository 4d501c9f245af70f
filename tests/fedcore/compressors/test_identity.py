"""No compression."""

import numpy as np

from fedcore import payloads
from fedcore.compressors import Identity
from fedcore.rng import Key


def test_everything_travels_in_four_bytes_a_value() -> None:
    delta_D = np.array([1.5, -0.0, 3e-45, 7.0], np.float32)
    payload, state = Identity().build((3, 1)).encode(delta_D, None, Key.root(0))
    assert state is None
    assert payload.nbytes == 6 + 4 * 4
    assert payloads.decode(payload).tobytes() == delta_D.tobytes()


def test_it_is_a_contraction_and_may_sit_in_a_memory() -> None:
    assert Identity().bias == "contraction"
