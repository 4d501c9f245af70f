"""Local SGD by hand: McMahan et al., AISTATS 2017, with momentum."""

import tracemalloc
from itertools import count

import numpy as np
import pytest
from fedwire.v1 import federation_pb2 as pb
from pydantic import ValidationError

from fedcore.clients import Gradient, LocalSGD, batches_of_one
from fedcore.clients.base import MOST_STEPS
from fedcore.errors import ConfigError
from fedcore.lr_schedules import Linear
from fedcore.params import ParamSpec
from fedcore.recipes import FedAvg
from fedcore.rng import Key, bits, seeds
from fedcore.typing import Array
from tests.fedcore.clients.trained import trained


def slopes(*values: float) -> Gradient:
    """A loss that falls by so much at each step, whatever the model is."""

    def gradient(w_D: Array, step: int) -> tuple[float, Array]:
        return 1.0, np.array([values[step]], np.float32)

    return gradient


def one(value: float) -> Array:
    return np.array([value], np.float32)


def test_plain_steps_by_hand() -> None:
    found = trained(LocalSGD(lr=0.5), one(10), 2, slopes(2, 4))
    assert found.delta_D.tolist() == [3]


def test_momentum_by_hand() -> None:
    # v = 2, then ½·2 + 4 = 5, then ½·5 = 2.5.
    config = LocalSGD(lr=1, momentum=0.5)
    found = trained(config, one(10), 3, slopes(2, 4, 0))
    assert found.delta_D.tolist() == [9.5]
    assert found.state is None


def test_a_kept_buffer_rolls_on_in_the_next_task() -> None:
    config = LocalSGD(lr=1, momentum=0.5, keep_momentum=True)
    first = trained(config, one(10), 1, slopes(4))
    assert first.state.tolist() == [4]
    second = trained(config, one(10), 1, slopes(0), first.state)
    assert second.delta_D.tolist() == [2]


def test_weight_decay_pulls_to_zero() -> None:
    config = LocalSGD(lr=0.5, weight_decay=0.5)
    assert trained(config, one(8), 1, slopes(0)).delta_D.tolist() == [2]


@pytest.mark.parametrize(
    ("config", "samples", "steps"),
    [
        (LocalSGD(), 100, 7),  # one pass over batches of 16, the last one smaller
        (LocalSGD(epochs=3, batch=50), 100, 6),
        (LocalSGD(epochs=3, batch=50), 20, 3),  # all that it has is one batch
        (LocalSGD(steps=5), 1, 5),
        (LocalSGD(steps=5), 10**6, 5),
    ],
)
def test_a_task_has_so_many_steps(config: LocalSGD, samples: int, steps: int) -> None:
    assert config.step_count(samples) == steps
    plan = batches_of_one(config.build(), samples, steps, Key.root(0))
    assert len(plan) == steps


@pytest.mark.parametrize(("work", "steps"), [(1.0, 8), (0.5, 4), (0.25, 2), (0.01, 1)])
def test_late_clients_do_a_share_of_the_work(work: float, steps: int) -> None:
    assert LocalSGD(steps=8).step_count(100, work) == steps
    assert LocalSGD(epochs=2, batch=25).step_count(100, work) == steps


def test_a_pass_ends_with_what_is_left_over() -> None:
    algorithm = LocalSGD(epochs=2, batch=4).build()
    plan = batches_of_one(algorithm, 10, 6, Key.root(0))
    assert [len(rows) for rows in plan] == [4, 4, 2, 4, 4, 2]


def test_samples_are_shuffled_no_more_often_than_their_client_needs() -> None:
    samples_N, steps_N = np.array([25, 40_000]), np.array([20, 20])
    plan = LocalSGD(steps=20, batch=32).build().plan
    tracemalloc.start()
    try:
        batches = plan(samples_N, steps_N, seeds([Key.root(0), Key.root(1)]))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # With room for the large client in each of the tiny one's 20 passes, it is more.
    assert peak < 5 * 8 * 40_000
    assert batches.sizes_NS.tolist() == [[25] * 20, [32] * 20]
    tiny, large = batches.of(0), batches.of(1)
    assert all(sorted(rows_B) == list(range(25)) for rows_B in tiny)
    assert len({*np.concatenate(large)}) == 20 * 32


@pytest.mark.parametrize("steps", [3, 40, 400])
def test_batches_are_the_first_of_shuffles_by_the_seeds_words(steps: int) -> None:
    batch, key = 8, Key.root(3)
    samples_N = np.array([1, 7, 8, 9, 30, 100, 5_000])
    steps_N = np.full(len(samples_N), steps)
    seeds_N = seeds([key.fold_in(place) for place in range(len(samples_N))])
    batches = (
        LocalSGD(steps=steps, batch=batch).build().plan(samples_N, steps_N, seeds_N)
    )
    for client, samples in enumerate(samples_N.tolist()):
        expected = []
        for number in count():
            words = bits(seeds_N[client], number << 40, samples)
            order = np.argsort(words, kind="stable")
            expected += [order[at : at + batch] for at in range(0, samples, batch)]
            if len(expected) >= steps:
                break
        found = batches.of(client)
        assert len(found) == steps
        for rows_B, expected_B in zip(found, expected, strict=False):
            np.testing.assert_array_equal(rows_B, expected_B)


def test_steps_and_epochs_exclude_each_other() -> None:
    with pytest.raises(ValidationError, match="steps or epochs, not both"):
        LocalSGD(steps=1, epochs=1)


def test_only_plain_sgd_can_be_handed_to_an_own_training_loop() -> None:
    assert LocalSGD(steps=3).is_plain
    assert not LocalSGD(momentum=0.9).is_plain
    assert not LocalSGD(weight_decay=0.1).is_plain
    assert not LocalSGD(clip_norm=1.0).is_plain
    assert not LocalSGD(clip_value=1.0).is_plain
    assert not LocalSGD(frozen=("w",)).is_plain
    assert LocalSGD(schedule=Linear(until=5)).is_plain


def test_a_schedule_sets_the_learning_rate_of_a_version() -> None:
    schedule = Linear(after=100, until=200, to=0.1)
    config = LocalSGD(lr=0.5, schedule=schedule)
    versions = (0, 100, 150, 200, 10**6)
    rates = [config.at(version).lr for version in versions]
    assert rates == pytest.approx([0.5, 0.5, 0.275, 0.05, 0.05])
    assert LocalSGD(lr=0.5).at(7).lr == 0.5


def test_nesterov_by_hand() -> None:
    # v = 2, step 2 + 1; v = 1 + 4, step 4 + 2.5; v = 2.5, step 0 + 1.25.
    config = LocalSGD(lr=1, momentum=0.5, nesterov=True)
    found = trained(config, one(20), 3, slopes(2, 4, 0))
    assert found.delta_D.tolist() == [3 + 6.5 + 1.25]
    with pytest.raises(ValidationError, match="nesterov needs a momentum"):
        LocalSGD(nesterov=True)


def test_gradients_are_clipped_before_anything_is_added_to_them() -> None:
    # (3, 4) has the norm 5; at most 1 it is (.6, .8), and .1 of w = 10 comes on top.
    def gradient(w_D: Array, step: int) -> tuple[float, Array]:
        return 1.0, np.array([3, 4], np.float32)

    w_D = np.full(2, 10, np.float32)
    config = LocalSGD(lr=1, clip_norm=1.0, weight_decay=0.1)
    found = trained(config, w_D, 1, gradient)
    assert found.delta_D == pytest.approx([1.6, 1.8], abs=1e-5)
    valued = trained(LocalSGD(lr=1, clip_value=3.5), w_D, 1, gradient)
    assert valued.delta_D == pytest.approx([3, 3.5], abs=1e-5)
    short = trained(LocalSGD(lr=1, clip_norm=6.0), w_D, 1, gradient)
    assert short.delta_D.tolist() == [3, 4]


def test_frozen_tensors_are_found_by_their_names() -> None:
    model = ParamSpec.of({name: np.zeros(3) for name in ("conv.w", "conv.b", "out.w")})
    config = LocalSGD(frozen=("conv*",))
    assert config.frozen_parts(model) == (slice(0, 3), slice(3, 6))
    with pytest.raises(ConfigError, match="like 'head'; the model has conv"):
        FedAvg(client=LocalSGD(frozen=("head",))).build(model)
    with pytest.raises(ConfigError, match="no tensor is left to train"):
        FedAvg(client=LocalSGD(frozen=("*",))).build(model)


def test_a_task_has_no_more_steps_than_a_message_can_tell() -> None:
    assert LocalSGD(epochs=1000, batch=1).step_count(1 << 40) == MOST_STEPS
    pb.PushHeader(steps=MOST_STEPS)
    with pytest.raises(ValueError, match="out of range"):
        pb.PushHeader(steps=MOST_STEPS + 1)
