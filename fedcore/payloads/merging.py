"""One message in place of many, where that leads to the same bits.

Float32 numbers do not add up, but whole multiples of powers of two do, as long as none
of the sums needs more than 24 bits.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fedcore.payloads import levels, semi_discrete
from fedcore.payloads.base import Payload

Exact = tuple[Any, npt.NDArray[np.float64]]  # places, and the values there


def merged(messages: Sequence[Payload]) -> Payload | None:
    """One message that is the exact sum of these, or None if there is none."""
    formats = {message.format for message in messages}
    if formats == {"levels"}:
        return levels.summed(messages)
    if formats == {"semi_discrete"}:
        return semi_discrete.joined(messages)
    return None


def exact(message: Payload) -> Exact | None:
    """What a message says that may be merged with others; None if it may not."""
    if message.format == "levels":
        values_K = levels.level_values(message)
        return message.arrays["indices"], np.asarray(values_K, np.float64)
    if message.format == "semi_discrete":
        return slice(None), semi_discrete.exact_values(message)
    return None


def cancels(message: Payload) -> bool:
    """Whether a sum becomes smaller by taking this message away from it again."""
    return message.format == "levels"
