"""Prioritised SGD: what is drawn, what it counts for, and what a client keeps."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from pydantic import ValidationError

from fedcore.clients import LocalSGD, PrioritisedSGD, Sampling, batches_of_one
from fedcore.clients.prioritised_sgd import probabilities
from fedcore.errors import ConfigError, NotStackableError
from fedcore.participant import Trained
from fedcore.recipes import FedBuff
from fedcore.rng import Key, seeds
from fedcore.stacks import StackedTasks, train_stack
from fedcore.training import Trainer
from fedcore.typing import State, Vector
from fedcore.workload import Workload
from tests.fedsim.toys import DIM, gradient, points, toy

SAMPLES, KEY = 24, Key.root(0)
DATA = points(5, SAMPLES)
START_D = np.linspace(-1, 1, DIM, dtype=np.float32)

priorities = arrays.arrays(
    np.float32,
    st.integers(1, 40),
    elements=st.floats(0, 2.0**100, width=32) | st.just(-1.0),
)


def sampling(**settings: Any) -> Sampling:
    found = PrioritisedSGD(**settings).build().sampling
    assert found is not None
    return found


def trained(
    config: Any, kept: State = None, data: Any = DATA, work: Any = None, key: Key = KEY
) -> Trained:
    workload = work or toy()
    model = workload.flat()
    trainer = Trainer(workload, FedBuff(client=config).build(model.spec), model=model)
    return trainer.train(START_D, data, key, kept)


@given(priorities, st.floats(0.01, 1))
def test_probabilities_sum_to_one_and_none_is_below_its_share(
    priorities_n: Vector, uniform: float
) -> None:
    q_n = probabilities(priorities_n, uniform)
    assert q_n.sum() == pytest.approx(1)
    assert (q_n >= uniform / len(q_n) * (1 - 1e-12)).all()


def test_probabilities_are_those_of_the_formula() -> None:
    q_n = probabilities(np.array([3, 1, 0, 0], np.float32), 0.2)
    np.testing.assert_allclose(q_n, [0.65, 0.25, 0.05, 0.05])


def test_a_sample_that_was_not_used_matters_like_the_one_that_matters_most() -> None:
    q_n = probabilities(np.array([3, -1, 1], np.float32), 0.3)
    np.testing.assert_allclose(q_n, [0.4, 0.4, 0.2])


@given(priorities, st.floats(0.05, 1), st.integers(1, 30))
def test_no_weight_is_above_that_of_the_uniform_share(
    priorities_n: Vector, uniform: float, step: int
) -> None:
    rows_B, weights_B = sampling(uniform=uniform).draw(priorities_n, seeds(KEY), step)
    assert ((rows_B >= 0) & (rows_B < len(priorities_n))).all()
    assert (weights_B > 0).all()
    assert (weights_B <= (1 + 1e-6) / uniform).all()


def test_samples_are_drawn_as_often_as_their_probability_says() -> None:
    priorities_n = np.array([5, 1, 0, 2], np.float32)
    drawn = sampling(batch=4, uniform=0.2)
    counts_n = np.zeros(4)
    for step in range(10_000):
        counts_n += np.bincount(
            drawn.draw(priorities_n, seeds(KEY), step).rows_B, None, 4
        )
    expected_n = probabilities(priorities_n, 0.2)
    np.testing.assert_allclose(counts_n / counts_n.sum(), expected_n, atol=0.01)


def mean_gradients(*, unbiased: bool) -> tuple[Any, Any]:
    """The mean of sampled gradients at one model, and the gradient of all samples."""
    x, y = DATA
    each_nD = 2 * x * (x @ START_D - y)[:, None]
    norms_n = np.linalg.norm(each_nD, axis=1)
    drawn = sampling(batch=16, unbiased=unbiased)
    sum_D, steps = np.zeros(DIM), 5_000
    for step in range(steps):
        rows_B, weights_B = drawn.draw(norms_n, seeds(KEY), step)
        sum_D += weights_B @ each_nD[rows_B] / len(rows_B)
    return sum_D / steps, each_nD.mean(axis=0)


def test_the_unbiased_gradient_is_that_of_all_samples_in_expectation() -> None:
    found_D, full_D = mean_gradients(unbiased=True)
    assert np.linalg.norm(found_D - full_D) < 0.02 * np.linalg.norm(full_D)


def test_the_biased_gradient_is_another_one() -> None:
    found_D, full_D = mean_gradients(unbiased=False)
    assert np.linalg.norm(found_D - full_D) > 0.2 * np.linalg.norm(full_D)


@pytest.mark.parametrize("unbiased", [True, False])
def test_the_first_step_is_the_planned_one(unbiased: bool) -> None:
    config = PrioritisedSGD(steps=3, unbiased=unbiased)
    first = sampling(unbiased=unbiased)
    drawn = first.draw(first.init(SAMPLES, None), seeds(KEY), 0)
    plan = batches_of_one(config.build(), SAMPLES, 3, KEY)
    assert drawn.rows_B.tolist() == plan[0].tolist()
    np.testing.assert_allclose(drawn.weights_B, 1, rtol=1e-6)


def test_with_all_the_probability_shared_every_step_is_the_planned_one() -> None:
    drawn = sampling(uniform=1.0)
    plan = batches_of_one(PrioritisedSGD(steps=9).build(), SAMPLES, 9, KEY)
    state = np.arange(SAMPLES, dtype=np.float32)
    found = [drawn.draw(state, seeds(KEY), step).rows_B.tolist() for step in range(9)]
    assert found == [rows.tolist() for rows in plan]


def test_a_task_is_steps_of_the_weighted_mean() -> None:
    config = PrioritisedSGD(lr=0.1, steps=4, batch=5)
    drawn, (x, y) = sampling(batch=5), DATA
    w_D, state = START_D.astype(np.float64), sampling().init(SAMPLES, None)
    losses = []
    for step in range(4):
        rows_B, weights_B = drawn.draw(state, seeds(KEY), step)
        error_B = x[rows_B] @ w_D - y[rows_B]
        each_BD = 2 * x[rows_B] * error_B[:, None]
        losses.append((weights_B * error_B**2).mean())
        state = drawn.learn(state, rows_B, np.linalg.norm(each_BD, axis=1))
        w_D = w_D - 0.1 * (weights_B[:, None] * each_BD).mean(axis=0)
    found = trained(config)
    np.testing.assert_allclose(found.delta_D, START_D - w_D, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.kept, state, rtol=1e-4)
    assert found.loss == pytest.approx(np.mean(losses), rel=1e-4)
    assert found.used == 20 == config.used_by(SAMPLES, 4)


def test_priorities_go_on_from_task_to_task_and_are_not_written_over() -> None:
    config = PrioritisedSGD(steps=2, batch=8)
    first = trained(config)
    assert (first.kept >= 0).sum() < SAMPLES
    before = first.kept.copy()
    second = trained(config, first.kept, key=Key.root(1))
    np.testing.assert_array_equal(first.kept, before)
    assert ((second.kept >= 0) >= (before >= 0)).all()
    assert (second.kept >= 0).sum() > (before >= 0).sum()


def test_priorities_of_other_data_are_forgotten() -> None:
    config = PrioritisedSGD(steps=2, batch=4)
    kept = np.ones(SAMPLES + 1, np.float32)
    assert trained(config, kept).kept.tolist() == trained(config).kept.tolist()


def test_a_norm_that_is_not_finite_tells_nothing() -> None:
    learn = sampling().learn
    norms_B = np.array([np.inf, np.nan, 2], np.float32)
    state = learn(np.ones(4, np.float32), np.array([0, 1, 2]), norms_B)
    assert state.tolist() == [-1, -1, 2, 1]


def test_priorities_of_zero_alone_are_all_alike() -> None:
    np.testing.assert_array_equal(probabilities(np.zeros(4, np.float32), 0.2), 0.25)


def test_labels_are_counted_as_they_were_drawn() -> None:
    x, _ = DATA
    labels = np.arange(SAMPLES) % 3
    found = trained(PrioritisedSGD(steps=3, batch=5), data=(x, labels))
    assert found.counts is not None
    assert found.counts.sum() == 15


def test_biased_steps_reach_the_hard_samples_sooner() -> None:
    x, y = points(1, 200)
    x[:190], y[:190] = 0, 0  # learnt from the beginning
    wanted = (x, y)

    def loss_of(config: Any) -> float:
        delta_D = trained(config, data=wanted).delta_D
        return float(gradient({"w": START_D - delta_D}, x, y)[0])

    plain, biased = (
        loss_of(kind(lr=0.02, steps=60, batch=8, **more))
        for kind, more in ((LocalSGD, {}), (PrioritisedSGD, {"unbiased": False}))
    )
    assert biased < plain / 2


def test_momentum_is_not_kept_beside_the_priorities() -> None:
    with pytest.raises(ValidationError, match="keeps priorities, and no momentum"):
        PrioritisedSGD(momentum=0.9, keep_momentum=True)


def test_a_workload_of_functions_has_no_estimates() -> None:
    with pytest.raises(ConfigError, match="use priority: gradient_norm"):
        trained(PrioritisedSGD(priority="estimate"))


def test_a_training_loop_of_the_users_own_is_refused() -> None:
    own = {"gradient": None, "train": lambda params, data, task: None}
    with pytest.raises(ConfigError, match="prioritised_sgd with these settings needs"):
        trained(PrioritisedSGD(), work=toy(**own))


def test_a_workload_may_bring_weighted_gradients_of_its_own() -> None:
    from fedcore.model import Weighted
    from fedcore.workload import GradientWorkload

    class Own(GradientWorkload):
        def weighted_gradient(self, model: Any, priority: Any) -> Any:
            def found(w_D: Vector, x: Any, y: Any, weights_B: Vector) -> Weighted:
                error_B = x @ w_D - y
                g_D = (2 * x * (weights_B * error_B)[:, None]).mean(axis=0)
                norms_B = 2 * np.abs(error_B) * np.linalg.norm(x, axis=1)
                return Weighted((weights_B * error_B**2).mean(), g_D, norms_B)

            return found

    plain = toy()
    own: Workload = Own(
        initial=plain.initial,  # type: ignore[attr-defined]
        gradient=gradient,
        train_data=plain.train_data,
    )
    exact = trained(PrioritisedSGD(steps=5, batch=6))
    found = trained(PrioritisedSGD(steps=5, batch=6, priority="estimate"), work=own)
    np.testing.assert_allclose(found.delta_D, exact.delta_D, rtol=1e-4, atol=1e-6)


def test_a_stack_is_refused_with_the_reason() -> None:
    tasks = StackedTasks([0], seeds([KEY]), [1], [None], KEY)
    nothing: Any = None
    with pytest.raises(NotStackableError, match="by the gradients of the steps before"):
        train_stack(
            nothing, nothing, PrioritisedSGD(), tasks, START_D, count_labels=False
        )
