"""The frame of the quantisers: buckets of whole multiples of a step."""

from fedcore.compressors.base import Keys
from fedcore.kernels import quantise as levels_and_steps
from fedcore.kernels.buckets import Measure
from fedcore.payloads import Payload, quantised_payload
from fedcore.payloads.quantised import levels
from fedcore.rng import seeds
from fedcore.typing import Array


def quantise(
    delta_D: Array, key: Keys | None, bits: int, bucket: int, measure: Measure
) -> Payload:
    """Returns whole multiples of a bucket's ``measure`` / L, where L = 2^(bits-1) - 1.

    With a key values are rounded up and down at random with the right mean, without
    one to the nearest.
    """
    words = None if key is None else seeds(key)
    whole, steps = levels_and_steps(delta_D, bucket, levels(bits), measure, words)
    return quantised_payload(delta_D.shape[-1], bits, bucket, steps, whole)
