"""Missed messages travel as their sum, where none of them was rounded."""

import numpy as np
import pytest

from fedcore.compressors import DeadZone, SemiDiscrete, TopK
from fedcore.compressors.base import CompressorConfig
from fedcore.coordinator.published import Published
from fedcore.params import on_grid
from fedcore.patch import apply_patch, moves_exactly, publish
from fedcore.payloads import level_values, levels_payload, pack
from fedcore.protocol import Held
from fedcore.rng import Key
from fedcore.typing import Vector

DIM = 400


def history(
    downlink: CompressorConfig, start_D: Vector, versions: int
) -> tuple[Published, list[Vector]]:
    """A model that is published so often, and all its versions."""
    published = Published(start_D, epoch="e" * 16, layout=(DIM,))
    encode = downlink.build((DIM,)).encode
    rng, models = np.random.default_rng(0), [start_D]
    exact_D = start_D
    for _ in range(versions):
        moved_D = rng.standard_t(3, DIM).astype(np.float32) / 50
        exact_D = (exact_D - moved_D).astype(np.float32)
        gap_D = published.public_D - exact_D
        payload, _ = encode(gap_D, None, Key.root(0))
        public_D = publish(published.public_D, payload)
        published.publish(public_D, pack(payload), payload)
        models.append(public_D)
    return published, models


def start(seed: int = 1) -> Vector:
    normal_D = np.random.default_rng(seed).standard_normal(DIM)
    return (normal_D / 10).astype(np.float32)


@pytest.mark.parametrize(
    ("downlink", "missed"),
    [
        (DeadZone(ratio=0.05), 2),
        (DeadZone(ratio=0.05), 5),
        (DeadZone(ratio=0.05), 20),
        (SemiDiscrete(bits=0.1), 2),
        (SemiDiscrete(bits=0.1), 9),
    ],
)
def test_the_sum_leads_to_the_same_bits_in_fewer_bytes(
    downlink: CompressorConfig, missed: int
) -> None:
    published, models = history(downlink, on_grid(start()), 60)
    held_D = models[60 - missed]
    held = Held("e" * 16, 60 - missed, published.ring[60 - missed].digest)
    patch = published.patch(held)
    assert (patch.kind, len(patch.messages())) == ("replay", 1)
    one_by_one = sum(entry.message_bytes for entry in published.ring[-missed:])
    assert patch.nbytes < one_by_one
    arrived_D = apply_patch(held_D, patch.kind, patch.messages(), (DIM,))
    assert arrived_D.tobytes() == published.public_D.tobytes()


@pytest.mark.parametrize("downlink", [DeadZone(ratio=0.02), SemiDiscrete(bits=0.1)])
def test_every_order_of_asking_gives_the_same_sums(downlink: CompressorConfig) -> None:
    published, models = history(downlink, on_grid(start()), 30)
    rng = np.random.default_rng(5)
    for _ in range(60):
        version = int(rng.integers(1, published.version - 1))
        patch = published.patch(Held("e" * 16, version, published.ring[version].digest))
        arrived_D = apply_patch(models[version], patch.kind, patch.messages(), (DIM,))
        assert arrived_D.tobytes() == published.public_D.tobytes()
        if rng.random() < 0.3:  # the next version; what is known is used again
            gap_D = rng.standard_t(3, DIM).astype(np.float32)
            payload, _ = downlink.build((DIM,)).encode(gap_D, None, Key.root(0))
            public_D = publish(published.public_D, payload)
            published.publish(public_D, pack(payload), payload)
            models.append(public_D)


@pytest.mark.parametrize("downlink", [DeadZone(ratio=0.05), SemiDiscrete(bits=0.1)])
def test_a_model_off_the_grid_is_rounded_and_gets_no_sum(
    downlink: CompressorConfig,
) -> None:
    published, models = history(downlink, start(), 20)
    assert not all(entry.exact for entry in published.ring[1:])
    patch = published.patch(Held("e" * 16, 10, published.ring[10].digest))
    arrived_D = apply_patch(models[10], patch.kind, patch.messages(), (DIM,))
    assert arrived_D.tobytes() == published.public_D.tobytes()
    assert len(patch.messages()) > 1 or patch.kind != "replay"


def test_off_the_grid_a_sum_would_lead_elsewhere() -> None:
    # The negative control: the same messages, added up all the same.
    published, models = history(DeadZone(ratio=0.5), start(), 20)
    sum_D = sum((models[i] - models[i + 1]).astype(np.float64) for i in range(10, 20))
    jumped_D = models[10] - np.asarray(sum_D).astype(np.float32)
    assert jumped_D.tobytes() != published.public_D.tobytes()


def test_messages_of_other_compressors_are_replayed() -> None:
    published, _ = history(TopK(ratio=0.05), on_grid(start()), 5)
    assert not any(entry.exact for entry in published.ring)


@pytest.mark.parametrize(
    ("before", "step", "exact"),
    [
        (1.0, 0.5, True),
        (1.0, 2.0**-20, True),
        (1.0, 2.0**-25, False),  # the step is lost
        (1e-18, 0.5, False),  # what was there is lost
        (0.1, 0.5, False),  # its last bits are lost
        (0.0, 0.5, True),
        (-0.0, 0.5, False),  # and back it would be 0.0, which has other bits
    ],
)
def test_a_move_is_exact_if_nothing_was_rounded(
    before: float, step: float, exact: bool
) -> None:
    before_D = np.array([before], np.float32)
    message = levels_payload(
        1, np.array([0]), np.array([1], np.int32), np.array([step], np.float32), (1,)
    )
    assert level_values(message).tolist() == [step]
    assert moves_exactly(before_D, message, publish(before_D, message)) == exact


def test_more_terms_than_a_message_may_have_are_replayed() -> None:
    published, models = history(SemiDiscrete(bits=0.5), on_grid(start()), 40)
    assert all(entry.exact for entry in published.ring[1:])
    patch = published.patch(Held("e" * 16, 20, published.ring[20].digest))
    assert (patch.kind, len(patch.messages())) == ("replay", 20)
    arrived_D = apply_patch(models[20], patch.kind, patch.messages(), (DIM,))
    assert arrived_D.tobytes() == published.public_D.tobytes()


@pytest.mark.parametrize("room", [0, 1000, None])
def test_past_messages_take_no_more_room_than_they_have(room: int | None) -> None:
    downlink, initial_D = DeadZone(ratio=0.05), on_grid(start())
    published, models = history(downlink, initial_D, 10)
    published.keep(room)
    message, _ = downlink.build((DIM,)).encode(start(7), None, Key.root(0))
    longer_D = publish(models[-1], message)
    published.publish(longer_D, pack(message), message)
    kept = sum(entry.message_bytes for entry in published.ring)
    assert kept <= (4 * DIM if room is None else room)
    for version, held_D in enumerate(models):  # whoever missed more gets values
        held = Held("e" * 16, version, published.ring[version].digest)
        patch = published.patch(held)
        arrived_D = apply_patch(held_D, patch.kind, patch.messages(), (DIM,))
        assert arrived_D.tobytes() == longer_D.tobytes()
