"""The laws that every client algorithm keeps."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcore.arrays import array_namespace
from fedcore.clients import (
    ClientAlgorithmConfig,
    FedProx,
    Gradient,
    LocalAdam,
    LocalAdamW,
    LocalSGD,
    Trained,
    batches_of_one,
)
from fedcore.rng import Key, seeds
from fedcore.typing import Array, Indices
from tests.fedcore.clients.trained import trained
from tests.laws.registered import named, variants
from tests.laws.vectors import keys, vector

DIM, STEPS = 6, 5
EVERY = variants(
    ClientAlgorithmConfig,
    LocalSGD(steps=3, lr=0.3, momentum=0.9, weight_decay=0.1),
    LocalSGD(epochs=2, batch=4, momentum=0.5, keep_momentum=True),
    FedProx(mu=0.5, momentum=0.9, weight_decay=0.01),
    FedProx(mu=0.5, momentum=0.5, keep_momentum=True),
    LocalSGD(momentum=0.9, nesterov=True, clip_norm=0.5, clip_value=0.4),
    LocalAdam(lr=0.1, weight_decay=0.1, clip_norm=0.5, keep_moments=True),
    LocalAdamW(lr=0.1, weight_decay=0.1),
)
SHUFFLED = [config for config in EVERY if config.build().sampling is None]
PER_EPOCH = [config for config in SHUFFLED if getattr(config, "steps", None) is None]


def towards(goal: Array) -> Gradient:
    """Gradients of ½‖w - goal‖², in a buffer that is used again, as with torch."""
    buffer = goal - goal

    def gradient(w: Array, step: int) -> tuple[Array, Array]:
        buffer[...] = w - goal
        return (buffer * buffer).sum(-1) / 2 + step, buffer

    return gradient


def start_of(config: ClientAlgorithmConfig, shape: tuple[int, ...], seed: int) -> Array:
    """A model, and what a server may publish of the method's companions."""
    vectors = 1 + len(config.companions)
    size = vectors * int(np.prod(shape))
    return vector("gaussian", size, seed).reshape(*shape[:-1], vectors * shape[-1])


def assert_near(found: Array, expected: Array) -> None:
    """Equal up to the order in which sums are rounded."""
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-6)


def train(config: ClientAlgorithmConfig, start: Array, goal: Array) -> Trained:
    """Two tasks one after the other, so that a kept state is used."""
    first = trained(config, start, STEPS, towards(goal))
    return trained(config, start, STEPS, towards(goal), first.state)


@named(EVERY)
def test_an_update_changes_every_vector_that_travels(
    config: ClientAlgorithmConfig,
) -> None:
    start_D, goal_D = start_of(config, (DIM,), 0), vector("laplace", DIM)
    updates_VD = train(config, start_D, goal_D).delta_D.reshape(-1, DIM)
    assert len(updates_VD) == 1 + len(config.companions)
    assert updates_VD.any(axis=1).all()


@named(EVERY)
def test_inputs_are_left_untouched(config: ClientAlgorithmConfig) -> None:
    start_D, goal_D = start_of(config, (DIM,), 0), vector("laplace", DIM)
    start_D.setflags(write=False)
    state = trained(config, start_D, STEPS, towards(goal_D)).state
    before = None if state is None else state.tobytes()
    found = trained(config, start_D, STEPS, towards(goal_D), state)
    assert not np.shares_memory(found.delta_D, start_D)
    assert before is None or state.tobytes() == before


@named(EVERY)
def test_training_goes_downhill(config: ClientAlgorithmConfig) -> None:
    start_D, goal_D = start_of(config, (DIM,), 0), vector("laplace", DIM)
    start_D[DIM:] = 0
    found = trained(config, start_D, STEPS, towards(goal_D))
    moved = np.square(start_D[:DIM] - found.delta_D[:DIM] - goal_D).sum()
    assert moved < np.square(start_D[:DIM] - goal_D).sum()
    assert found.delta_D.shape == start_D.shape
    assert found.delta_D.dtype == np.float32


@named(EVERY)
@given(st.integers(1, 5), st.integers(0, 2**16))
def test_a_stack_is_its_clients_one_by_one(
    config: ClientAlgorithmConfig, clients: int, seed: int
) -> None:
    start_ND = start_of(config, (clients, DIM), seed)
    goal_ND = vector("laplace", clients * DIM, seed).reshape(clients, DIM)
    stack = train(config, start_ND, goal_ND)
    for row in range(clients):
        alone = train(config, start_ND[row], goal_ND[row])
        np.testing.assert_allclose(
            stack.delta_D[row], alone.delta_D, rtol=1e-5, atol=2e-6
        )
        np.testing.assert_allclose(stack.loss[row], alone.loss, rtol=1e-5)
        assert (stack.state is None) == (alone.state is None)
        if alone.state is not None:
            np.testing.assert_allclose(
                stack.state[row], alone.state, rtol=1e-5, atol=2e-6
            )


@named(EVERY)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.integers(0, 2**16))
def test_clients_of_a_stack_end_after_their_own_steps(
    config: ClientAlgorithmConfig, steps: list[int], seed: int
) -> None:
    steps, count = sorted(steps, reverse=True), len(steps)
    start_ND = start_of(config, (count, DIM), seed)
    goal_ND = vector("laplace", count * DIM, seed).reshape(count, DIM)

    def gradient(w_ND: Array, step: int) -> tuple[Array, Array]:
        return towards(goal_ND[: len(w_ND)])(w_ND, step)

    stack = trained(config, start_ND, np.array(steps), gradient)
    for row, own in enumerate(steps):
        alone = trained(config, start_ND[row], own, towards(goal_ND[row]))
        np.testing.assert_allclose(
            stack.delta_D[row], alone.delta_D, rtol=1e-5, atol=2e-6
        )
        np.testing.assert_allclose(stack.loss[row], alone.loss, rtol=1e-5)


@named(EVERY)
def test_torch_tensors_give_what_numpy_gives(config: ClientAlgorithmConfig) -> None:
    torch = pytest.importorskip("torch")
    start_ND = start_of(config, (2, DIM), 0)
    goal_ND = vector("laplace", 2 * DIM).reshape(2, DIM)
    ours = train(config, start_ND, goal_ND)
    theirs = train(config, torch.from_numpy(start_ND), torch.from_numpy(goal_ND))
    assert array_namespace(theirs.delta_D) is not np
    assert theirs.delta_D.dtype == torch.float32
    np.testing.assert_allclose(
        theirs.delta_D.numpy(), ours.delta_D, rtol=1e-5, atol=2e-6
    )
    np.testing.assert_allclose(np.asarray(theirs.loss), ours.loss, rtol=1e-5)


@named(EVERY)
def test_the_loss_is_the_mean_over_the_steps(config: ClientAlgorithmConfig) -> None:
    w_D = np.ones(DIM * (1 + len(config.companions)), np.float32)

    def flat(_: Array, step: int) -> tuple[float, Array]:
        return [4.0, 1.0, 1.0][step], np.zeros(DIM, np.float32)

    assert trained(config, w_D, 3, flat).loss == 2.0
    assert np.isnan(trained(config, w_D, 0, flat).loss)


def planned(
    config: ClientAlgorithmConfig, samples: int, key: Key, work: float = 1.0
) -> list[Indices]:
    steps = config.step_count(samples, work)
    return batches_of_one(config.build(), samples, steps, key)


@named(EVERY)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=6), keys)
def test_a_stack_plans_what_its_clients_plan_one_by_one(
    config: ClientAlgorithmConfig, samples: list[int], key: Key
) -> None:
    own = [key.fold_in(place) for place in range(len(samples))]
    steps = [config.step_count(count) for count in samples]
    plan = config.build().plan(np.array(samples), np.array(steps), seeds(own))
    for place, count in enumerate(samples):
        alone = planned(config, count, own[place])
        assert [r.tolist() for r in plan.of(place)] == [r.tolist() for r in alone]


@named(EVERY)
@given(st.integers(1, 60), keys, st.sampled_from([1.0, 0.5, 0.01]))
def test_a_plan_has_the_promised_steps_of_rows_that_exist(
    config: ClientAlgorithmConfig, samples: int, key: Key, work: float
) -> None:
    plan = planned(config, samples, key, work)
    assert len(plan) == config.step_count(samples, work) >= 1
    for rows in plan:
        assert len(rows) >= 1
        assert len(set(rows.tolist())) == len(rows) or config not in SHUFFLED
        assert 0 <= rows.min() <= rows.max() < samples


@named(EVERY)
@given(st.integers(1, 60), keys)
def test_a_plan_follows_from_the_key(
    config: ClientAlgorithmConfig, samples: int, key: Key
) -> None:
    first, second = (
        [rows.tolist() for rows in planned(config, samples, key)] for _ in range(2)
    )
    assert first == second


@named(EVERY)
def test_another_key_gives_another_plan(config: ClientAlgorithmConfig) -> None:
    plans = {
        str([rows.tolist() for rows in planned(config, 50, Key.root(seed))])
        for seed in range(8)
    }
    assert len(plans) == 8


@named(PER_EPOCH)
@given(st.integers(1, 60), keys)
def test_epochs_use_every_sample_equally_often(
    config: ClientAlgorithmConfig, samples: int, key: Key
) -> None:
    plan = planned(config, samples, key)
    uses = Counter(np.concatenate(plan).tolist())
    assert set(uses) == set(range(samples))
    assert len(set(uses.values())) == 1


@named(EVERY)
def test_less_work_is_fewer_steps_and_never_none(
    config: ClientAlgorithmConfig,
) -> None:
    counts = [config.step_count(100, work) for work in (1.0, 0.5, 0.1, 1e-9)]
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 1
