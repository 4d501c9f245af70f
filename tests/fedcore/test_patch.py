"""Bringing a public model up to date, bit for bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcore import payloads
from fedcore.compressors import (
    CompressorConfig,
    Identity,
    RandomK,
    SignL1,
    TopK,
    Uniform,
)
from fedcore.errors import PayloadError
from fedcore.patch import apply_patch, publish
from fedcore.payloads import dense_payload, sparse_payload, values_payload
from fedcore.protocol import PatchKind
from fedcore.rng import Key
from fedcore.typing import Vector
from tests.laws.vectors import vector

LAYOUT, DIM = (300, 0, 200), 500
DOWNLINKS: list[CompressorConfig] = [
    TopK(ratio=0.05),
    RandomK(ratio=0.1),
    SignL1(),
    Uniform(),
    Uniform(bits=2, bucket=7),
    Identity(),
]
each_downlink = pytest.mark.parametrize("downlink", DOWNLINKS, ids=lambda c: c.kind)


def history(
    downlink: CompressorConfig, versions: int
) -> tuple[list[Vector], list[bytes]]:
    """The public models of a run, and the messages between them."""
    encode = downlink.build(LAYOUT).encode
    models, messages = [vector("gaussian", DIM)], []
    for version in range(versions):
        gap_D = vector("laplace", DIM, version)
        payload, _ = encode(gap_D, None, Key.root(version))
        messages.append(payloads.pack(payload))
        models.append(publish(models[-1], payload))
    return models, messages


def overwrite(models: list[Vector], messages: list[bytes]) -> bytes | None:
    """The newest values of all that was touched, or None if all of it was."""
    touched: set[int] = set()
    for message in messages:
        support = payloads.support(payloads.unpack(message, LAYOUT))
        if support is None:
            return None
        touched |= set(support.tolist())
    indices = np.array(sorted(touched), np.int64)
    return payloads.pack(values_payload(DIM, indices, models[-1][indices]))


@each_downlink
@pytest.mark.parametrize("start", [0, 17, 49, 50])
def test_replay_overwrite_and_full_model_agree_bit_for_bit(
    downlink: CompressorConfig, start: int
) -> None:
    models, messages = history(downlink, 50)
    held_D, newest = models[start], models[-1].tobytes()
    missed = messages[start:]
    full = [payloads.pack(dense_payload(models[-1]))]
    assert apply_patch(held_D, "replay", missed, LAYOUT).tobytes() == newest
    assert apply_patch(None, "full", full, LAYOUT).tobytes() == newest
    values = overwrite(models[start:], missed)
    if values is not None:
        assert apply_patch(held_D, "overwrite", [values], LAYOUT).tobytes() == newest


def test_the_sum_of_the_missed_messages_would_be_another_model() -> None:
    models, messages = history(Identity(), 50)
    sum_D = np.zeros(DIM, np.float32)
    for message in messages:
        payloads.add(payloads.unpack(message, LAYOUT), sum_D)
    differ = (models[0] - sum_D != models[-1]).mean()
    assert differ > 0.5
    np.testing.assert_allclose(models[0] - sum_D, models[-1], atol=1e-4)


def test_with_exact_numbers_the_wrong_sum_would_not_be_noticed() -> None:
    rng = np.random.default_rng(0)
    model_D: Vector = rng.integers(-1024, 1024, DIM).astype(np.float32)
    summed_D = model_D.copy()
    sum_D = np.zeros(DIM, np.float32)
    for _ in range(50):
        message = rng.integers(-1024, 1024, DIM).astype(np.float32) / 1024
        model_D = publish(model_D, dense_payload(message))
        sum_D += message
    assert (summed_D - sum_D == model_D).all()


def test_the_old_model_and_the_message_are_left_untouched() -> None:
    models, messages = history(TopK(), 3)
    before = models[0].tobytes()
    models[0].setflags(write=False)
    apply_patch(models[0], "replay", messages, LAYOUT)
    apply_patch(models[0], "overwrite", [overwrite(models, messages) or b""], LAYOUT)
    assert models[0].tobytes() == before
    assert apply_patch(models[0], "none", [], LAYOUT) is models[0]  # no copy


def test_a_full_model_is_a_vector_of_its_own() -> None:
    packed = payloads.pack(dense_payload(np.ones(DIM, np.float32)))
    model_D = apply_patch(None, "full", [packed], LAYOUT)
    model_D[0] = 2
    assert payloads.decode(payloads.unpack(packed, LAYOUT))[0] == 1


@pytest.mark.parametrize("kind", ["none", "replay", "overwrite"])
def test_a_patch_needs_a_model_to_apply_to(kind: PatchKind) -> None:
    with pytest.raises(PayloadError, match=f"'{kind}' needs a model"):
        apply_patch(None, kind, [], LAYOUT)


def test_only_new_values_can_overwrite_and_they_can_do_nothing_else() -> None:
    held_D, indices = np.zeros(DIM, np.float32), np.array([3])
    update = payloads.pack(sparse_payload(DIM, indices, np.ones(1, np.float32)))
    with pytest.raises(PayloadError, match="'sparse' holds no new values"):
        apply_patch(held_D, "overwrite", [update], LAYOUT)
    values = payloads.pack(values_payload(DIM, indices, np.ones(1, np.float32)))
    for kind in ("replay", "full"):
        with pytest.raises(PayloadError, match="no update"):
            apply_patch(held_D, kind, [values], LAYOUT)


def test_an_overwritten_value_may_become_zero() -> None:
    held_D = np.ones(DIM, np.float32)
    zero = payloads.pack(values_payload(DIM, np.array([7]), np.zeros(1, np.float32)))
    moved_D = apply_patch(held_D, "overwrite", [zero], LAYOUT)
    assert np.flatnonzero(moved_D == 0).tolist() == [7]


@given(
    st.sampled_from(["full", "replay", "overwrite"]),
    st.binary(max_size=40),
    st.sampled_from([b"", b"\1\0\3\0\0\0", b"\1\1\3\0\0\0", b"\1\5\3\0\0\0"]),
)
def test_junk_is_a_payload_error_and_changes_nothing(
    kind: PatchKind, body: bytes, head: bytes
) -> None:
    held_D = np.ones(3, np.float32)
    held_D.setflags(write=False)
    try:
        with np.errstate(all="ignore"):
            moved_D = apply_patch(held_D, kind, [head + body], (3,))
    except PayloadError:
        return
    assert moved_D.shape == (3,)
    assert moved_D.dtype == np.float32
