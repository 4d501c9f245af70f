"""The laws that every aggregator keeps."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcore import payloads
from fedcore.aggregators import (
    Aggregator,
    AggregatorConfig,
    Contribution,
    Mixing,
    TrimmedMean,
    WeightedMean,
)
from fedcore.compressors import Identity, RandomK, SignL1, TopK, Uniform
from fedcore.payloads import dense_payload
from fedcore.rng import Key
from fedcore.typing import State, Vector
from tests.laws.registered import named, variants
from tests.laws.trees import reloaded, saved
from tests.laws.vectors import vector

DIM = 6
EVERY = variants(
    AggregatorConfig, TrimmedMean(trim=0), TrimmedMean(trim=0.3), Mixing(alpha=1)
)
AVERAGES = [config for config in EVERY if not config.build().needs]
ROBUST = [config for config in AVERAGES if not isinstance(config, WeightedMean)]
FORMATS = [
    Identity(),
    TopK(ratio=0.5),
    RandomK(ratio=0.5),
    SignL1(),
    Uniform(bits=4, bucket=4),
]

sizes = st.integers(1, 9)
seeds = st.integers(0, 2**16)
# Multiples of 2^-10: their sums are exact.
dyadic = st.lists(st.integers(-(2**12), 2**12), min_size=DIM, max_size=DIM).map(
    lambda whole: np.array(whole, np.float32) * np.float32(2**-10)
)


def contribution(
    q_D: Vector,
    weight: float = 1.0,
    samples: float = 1.0,
    gap_D: Vector | None = None,
    client: int = 0,
) -> Contribution:
    """An update of as many steps as all others, trained on the newest model."""
    gap_D = np.zeros_like(q_D) if gap_D is None else gap_D
    return Contribution(
        dense_payload(q_D), weight, samples, gap_D, str(client), effort=5.0, pace=5.0
    )


def buffer(aggregator: Aggregator, updates: Sequence[Contribution]) -> State:
    """The state after these updates."""
    state = aggregator.init(DIM)
    for update in updates:
        state = aggregator.accumulate(state, update)
    return state


def aggregate(config: AggregatorConfig, updates: Sequence[Contribution]) -> Vector:
    """What these updates become."""
    aggregator = config.build()
    samples = sum(update.samples for update in updates)
    return aggregator.finalize(buffer(aggregator, updates), samples)


def some(count: int, seed: int) -> list[Contribution]:
    """Updates with weights, samples and gaps of all kinds."""
    rng = np.random.default_rng(seed)
    return [
        contribution(
            vector("student_t3", DIM, seed + i),
            weight=float(rng.choice([1.0, 0.5, 0.1])),
            samples=float(rng.integers(1, 20)),
            gap_D=vector("gaussian", DIM, seed + i + 1),
            client=i,
        )
        for i in range(count)
    ]


@named(AVERAGES)
@given(dyadic, st.sampled_from([1, 2, 4, 8]), st.sampled_from([1.0, 4.0]))
def test_equal_updates_aggregate_to_that_update(
    config: AggregatorConfig, q_D: Vector, count: int, samples: float
) -> None:
    updates = [contribution(q_D, samples=samples)] * count
    assert aggregate(config, updates).tolist() == q_D.tolist()


@named(EVERY)
@given(sizes, seeds, st.randoms(use_true_random=False))
def test_the_order_of_arrival_changes_no_more_than_rounding(
    config: AggregatorConfig, count: int, seed: int, random: np.random.Generator
) -> None:
    updates = some(count, seed)
    expected_D = aggregate(config, updates)
    random.shuffle(updates)
    np.testing.assert_allclose(
        aggregate(config, updates), expected_D, rtol=1e-5, atol=1e-5
    )


@named(EVERY)
@given(st.sampled_from([1, 2, 4]), seeds, st.sampled_from([0.5, 0.25]))
def test_a_weight_that_all_updates_have_dampens_the_aggregate(
    config: AggregatorConfig, count: int, seed: int, weight: float
) -> None:
    fresh = [update._replace(weight=1.0) for update in some(count, seed)]
    late = [update._replace(weight=weight) for update in fresh]
    full_D, damped_D = aggregate(config, fresh), aggregate(config, late)
    np.testing.assert_allclose(damped_D, weight * full_D, rtol=1e-6, atol=1e-7)


@named(AVERAGES)
@given(st.sampled_from([1, 2, 4]), seeds)
def test_how_many_steps_all_took_does_not_matter(
    config: AggregatorConfig, count: int, seed: int
) -> None:
    updates = some(count, seed)
    more = [update._replace(effort=50.0, pace=50.0) for update in updates]
    assert aggregate(config, more).tobytes() == aggregate(config, updates).tobytes()


@named(ROBUST)
@given(sizes, seeds)
def test_a_robust_rule_stays_between_the_least_and_the_largest_update(
    config: AggregatorConfig, count: int, seed: int
) -> None:
    updates = some(count, seed)
    dampened_ND = np.stack(
        [payloads.decode(each.payload) * np.float32(each.weight) for each in updates]
    )
    agg_D = aggregate(config, updates)
    slack_D = 4 * np.spacing(np.abs(dampened_ND).max(axis=0))  # a mean is rounded
    assert bool((agg_D >= dampened_ND.min(axis=0) - slack_D).all())
    assert bool((agg_D <= dampened_ND.max(axis=0) + slack_D).all())


@named(EVERY)
@pytest.mark.parametrize("compressor", FORMATS, ids=lambda c: c.kind)
def test_inputs_are_left_untouched(config: AggregatorConfig, compressor: TopK) -> None:
    encode = compressor.build((DIM,)).encode
    delta_D, gap_D = vector("gaussian", DIM), vector("laplace", DIM)
    packed = payloads.pack(encode(delta_D, None, Key.root(1))[0])
    payload = payloads.unpack(packed, (DIM,))
    gap_D.setflags(write=False)
    updates = [Contribution(payload, 0.5, 3.0, gap_D)] * 3
    aggregate(config, updates)
    assert payloads.pack(payload) == packed


@named(EVERY)
@pytest.mark.parametrize("compressor", FORMATS, ids=lambda c: c.kind)
def test_a_message_counts_as_the_vector_that_it_stands_for(
    config: AggregatorConfig, compressor: TopK
) -> None:
    encode = compressor.build((DIM,)).encode
    gap_D = vector("laplace", DIM)
    payload, _ = encode(vector("gaussian", DIM), None, Key.root(1))
    coded = Contribution(payload, 0.5, 3.0, gap_D)
    plain = contribution(payloads.decode(payload), 0.5, 3.0, gap_D)
    assert aggregate(config, [coded]).tolist() == aggregate(config, [plain]).tolist()


@named(EVERY)
@given(sizes, sizes, seeds)
def test_a_saved_buffer_comes_back_equal_and_goes_on_alike(
    config: AggregatorConfig, before: int, since: int, seed: int
) -> None:
    aggregator = config.build()
    state = buffer(aggregator, some(before, seed))
    loaded = reloaded(state, aggregator.init(DIM))
    assert saved(loaded) == saved(state)
    for update in some(since, seed + 1):
        state = aggregator.accumulate(state, update)
        loaded = aggregator.accumulate(loaded, update)
    expected_D = aggregator.finalize(state, 10.0)
    assert aggregator.finalize(loaded, 10.0).tobytes() == expected_D.tobytes()


@named(EVERY)
@given(sizes, seeds)
def test_an_aggregate_is_a_float32_vector(
    config: AggregatorConfig, count: int, seed: int
) -> None:
    agg_D = aggregate(config, some(count, seed))
    assert agg_D.shape == (DIM,)
    assert agg_D.dtype == np.float32


@named(EVERY)
def test_two_buffers_share_no_state(config: AggregatorConfig) -> None:
    aggregator = config.build()
    buffer(aggregator, some(3, 0))
    updates = some(2, 1)
    assert aggregate(config, updates).tobytes() == (
        aggregator.finalize(
            buffer(aggregator, updates), sum(each.samples for each in updates)
        ).tobytes()
    )
