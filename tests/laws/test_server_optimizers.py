"""The laws that every server optimiser keeps."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedcore.protocol import LARGEST
from fedcore.server_optimizers import (
    SGD,
    Adam,
    Momentum,
    ScheduleFree,
    ServerOptimizerConfig,
    Yogi,
)
from fedcore.trees import save_tree
from fedcore.typing import State, Vector
from tests.laws.registered import named, variants
from tests.laws.trees import reloaded, saved
from tests.laws.vectors import SHAPES, vector

DIM = 8
EVERY = variants(
    ServerOptimizerConfig,
    SGD(lr=0.3),
    Momentum(lr=0.5, beta=0.0),
    ScheduleFree(beta=1.0, power=0.0),
    Adam(beta_1=0.0, beta_2=0.0),
    Yogi(lr=1.0, tau=1e-8),
)

streams = st.lists(
    st.builds(vector, st.sampled_from(SHAPES), st.just(DIM), st.integers(0, 2**16)),
    max_size=6,
)


def after(config: ServerOptimizerConfig, stream: list[Vector]) -> tuple[Vector, State]:
    """Model and state after these aggregates."""
    optimizer = config.build()
    exact_D, state = vector("gaussian", DIM), optimizer.init(DIM)
    for agg_D in stream:
        exact_D, state = optimizer.update(exact_D, agg_D.copy(), state)
    return exact_D, state


@named(EVERY)
@given(streams)
def test_the_model_is_left_untouched(
    config: ServerOptimizerConfig, stream: list[Vector]
) -> None:
    optimizer = config.build()
    exact_D, state = vector("gaussian", DIM), optimizer.init(DIM)
    for agg_D in stream:
        exact_D.setflags(write=False)
        moved_D, state = optimizer.update(exact_D, agg_D.copy(), state)
        assert moved_D is not exact_D
        exact_D = moved_D


@named(EVERY)
@given(streams, streams)
def test_a_saved_state_comes_back_equal_and_goes_on_alike(
    config: ServerOptimizerConfig, before: list[Vector], since: list[Vector]
) -> None:
    optimizer = config.build()
    exact_D, state = after(config, before)
    loaded = reloaded(state, optimizer.init(DIM))
    assert type(loaded) is type(state)
    assert saved(loaded) == saved(state)
    again_D = exact_D.copy()
    for agg_D in since:
        exact_D, state = optimizer.update(exact_D, agg_D.copy(), state)
        again_D, loaded = optimizer.update(again_D, agg_D.copy(), loaded)
    assert again_D.tobytes() == exact_D.tobytes()


@named(EVERY)
@given(streams)
def test_models_stay_finite_float32(
    config: ServerOptimizerConfig, stream: list[Vector]
) -> None:
    exact_D, _ = after(config, stream)
    assert exact_D.shape == (DIM,)
    assert exact_D.dtype == np.float32
    assert bool(np.isfinite(exact_D).all())


@named(EVERY)
@given(streams.filter(len))
def test_the_first_step_goes_downhill(
    config: ServerOptimizerConfig, stream: list[Vector]
) -> None:
    start_D, _ = after(config, [])
    moved_D, _ = after(config, stream[:1])
    assert bool(((moved_D - start_D) * stream[0] <= 0).all())


@named(EVERY)
@given(streams)
def test_an_optimiser_of_shares_is_the_plain_one_where_all_take_part(
    config: ServerOptimizerConfig, stream: list[Vector]
) -> None:
    optimizer = config.build()
    if optimizer.of_share is None:
        return
    exact_D, state = vector("gaussian", DIM), optimizer.init(DIM)
    for agg_D in stream:
        exact_D, state = optimizer.of_share(1.0, 1.0)(exact_D, agg_D, state)
    assert exact_D.tobytes() == after(config, stream)[0].tobytes()


@named(EVERY)
def test_a_model_at_rest_stays_there(config: ServerOptimizerConfig) -> None:
    start_D, _ = after(config, [])
    moved_D, _ = after(config, [np.zeros(DIM, np.float32)] * 5)
    assert moved_D.tobytes() == start_D.tobytes()


@named(EVERY)
def test_no_aggregate_that_a_verdict_lets_in_makes_a_state_infinite(
    config: ServerOptimizerConfig,
) -> None:
    huge_D = np.full(DIM, LARGEST, np.float32)
    usual_D = np.full(DIM, 0.1, np.float32)
    exact_D, state = after(config, [huge_D, -huge_D, *[usual_D] * 3])
    arrays: dict[str, Any] = {"exact": exact_D}
    save_tree(state, "state", arrays)
    for values in arrays.values():
        assert np.isfinite(values).all()
