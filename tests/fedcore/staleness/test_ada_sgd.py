"""AdaSGD: Damaskinos et al., Middleware 2020, §2.3."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

from fedcore.labels import similarity
from fedcore.staleness import AdaSGD, Inverse
from fedcore.staleness.ada_sgd import AdaSGDState, exponential
from fedcore.typing import Counts
from tests.golden.load import golden

VECTORS = golden("ada_sgd")["vectors"]
every_vector = pytest.mark.parametrize("vector", VECTORS)
every_threshold = pytest.mark.parametrize("threshold", [1, 2, 5, 12, 24, 99])


def counts(*labels: int) -> Counts:
    return np.array(labels, np.int64)


def seen(config: AdaSGD, *staleness: int, labels: Counts | None = None) -> AdaSGDState:
    """The state after updates that were so late, with full weight."""
    policy = config.build()
    state: AdaSGDState = policy.init()
    for late in staleness:
        state = policy.observe(state, late, labels, 1.0)
    return state


@every_vector
def test_the_rate_makes_it_cross_the_inverse_at_half_the_threshold(
    vector: Any,
) -> None:
    beta = -math.log(exponential(1, vector["threshold"]))
    assert beta == pytest.approx(vector["beta"], abs=1e-6)


@every_vector
def test_the_weights_are_those_of_the_paper(vector: Any) -> None:
    for staleness, one_in in vector["one_in"]:
        weight = exponential(staleness, vector["threshold"])
        assert 1 / weight == pytest.approx(one_in, rel=1e-12)


@every_threshold
def test_it_is_above_dyn_sgd_up_to_half_the_threshold_and_below_it_after(
    threshold: int,
) -> None:
    for staleness in range(threshold + 1):
        weight, inverse = exponential(staleness, threshold), 1 / (staleness + 1)
        if staleness <= threshold / 2:
            assert weight >= inverse * (1 - 1e-12)
        if staleness >= threshold / 2:
            assert weight <= inverse * (1 + 1e-12)


@every_threshold
def test_the_clamp_holds_a_straggler_at_the_weight_of_the_threshold(
    threshold: int,
) -> None:
    least = (threshold / 2 + 1) ** -2
    for staleness in (threshold, threshold + 1, 10 * threshold, 10**6):
        assert exponential(staleness, threshold) == pytest.approx(least)
    assert exponential(10 * threshold, threshold, clamp=False) < 1e-2 * least


def test_where_nobody_is_ever_late_everything_counts_in_full() -> None:
    assert [exponential(staleness, 0) for staleness in (0, 1, 50)] == [1.0] * 3
    config = AdaSGD(bootstrap=0)
    assert config.build().weigh(seen(config, 0, 0, 0), 5, None) == 1.0


def test_the_first_updates_are_dampened_as_in_dyn_sgd() -> None:
    config, inverse = AdaSGD(bootstrap=3), Inverse().build()
    weigh = config.build().weigh
    for staleness in range(20):
        expected = inverse.weigh(None, staleness, None)
        assert weigh(seen(config, 12, 12), staleness, None) == expected
    assert 1 / weigh(seen(config, 12, 12, 12), 12, None) == pytest.approx(49)


def test_without_any_past_even_no_bootstrap_is_dyn_sgd() -> None:
    policy = AdaSGD(bootstrap=0).build()
    assert policy.weigh(policy.init(), 4, None) == 1 / 5


@pytest.mark.parametrize(
    ("percentile", "threshold"), [(100, 1000), (99.7, 997), (50, 500), (0.01, 1)]
)
def test_the_threshold_is_the_nearest_rank_of_past_staleness(
    percentile: float, threshold: int
) -> None:
    config = AdaSGD(percentile=percentile, bootstrap=0)
    past = np.random.default_rng(0).permutation(1000) + 1
    weight = config.build().weigh(seen(config, *past.tolist()), 1, None)
    assert weight == pytest.approx(exponential(1, threshold), rel=1e-12)


def test_the_window_forgets_the_oldest_staleness() -> None:
    config = AdaSGD(window=3, bootstrap=0, percentile=100)
    weigh = config.build().weigh
    assert 1 / weigh(seen(config, 24, 12, 12), 24, None) == pytest.approx(169)
    assert 1 / weigh(seen(config, 24, 12, 12, 12), 24, None) == pytest.approx(49)


def test_rare_labels_raise_the_weight_up_to_the_cap() -> None:
    config = AdaSGD(bootstrap=0)
    state = seen(config, 24, labels=counts(0, 100, 100))
    weigh = config.build().weigh
    plain = weigh(state, 24, None)
    assert 1 / plain == pytest.approx(169)
    # Labels never seen: similarity 0, ten times the weight.
    assert weigh(state, 24, counts(7)) == pytest.approx(10 * plain)
    # The same labels: similarity 1, no boost.
    assert weigh(state, 24, counts(0, 3, 3)) == pytest.approx(plain)
    # Half of the labels: similarity √½.
    assert weigh(state, 24, counts(0, 9)) == pytest.approx(plain * math.sqrt(2))


def test_a_boosted_weight_is_at_most_one() -> None:
    config = AdaSGD(bootstrap=0)
    state = seen(config, 24, labels=counts(0, 100))
    assert config.build().weigh(state, 1, counts(7)) == 1.0


def test_the_weight_never_grows_with_the_similarity() -> None:
    config = AdaSGD(bootstrap=0)
    state = seen(config, 24, labels=counts(100, 100))
    mixes = [counts(100 - part, part) for part in range(0, 51, 5)]
    weights = [config.build().weigh(state, 20, mix) for mix in mixes]
    assert all(more <= less for less, more in itertools.pairwise(weights))


def test_the_boost_can_be_turned_off_or_held_by_its_cap() -> None:
    for config, factor in [(AdaSGD(boost=False), 1), (AdaSGD(boost_cap=4), 4)]:
        config = config.model_copy(update={"bootstrap": 0})
        state = seen(config, 24, labels=counts(0, 100))
        weight = config.build().weigh(state, 24, counts(7))
        assert weight == pytest.approx(factor / 169)


def test_past_labels_count_with_the_weight_of_their_update_or_once() -> None:
    for labels, expected in [("weighted", [0.5, 1.0]), ("unweighted", [2.0, 4.0])]:
        policy = AdaSGD.model_validate({"global_labels": labels}).build()
        state = policy.observe(policy.init(), 3, counts(2, 4), 0.25)
        assert state.labels_C.tolist() == expected


def test_a_class_that_was_dampened_away_keeps_its_boost() -> None:
    boosts = {}
    for labels in ("weighted", "unweighted"):
        config = AdaSGD.model_validate({"bootstrap": 0, "global_labels": labels})
        policy = config.build()
        state = seen(config, *[24] * 50, labels=counts(0, 10))
        for _ in range(50):
            state = policy.observe(state, 24, counts(10, 0), 0.01)
        boosts[labels] = policy.weigh(state, 24, counts(10, 0)) * 169
    assert boosts["weighted"] == pytest.approx(10)  # √(1/101) is below the cap
    assert boosts["unweighted"] == pytest.approx(math.sqrt(2))


def test_the_defaults_are_those_of_the_paper() -> None:
    config = AdaSGD()
    assert (config.percentile, config.bootstrap, config.boost_cap) == (99.7, 30, 10)
    assert config.clamp
    assert config.boost
    assert config.global_labels == "weighted"


@pytest.mark.parametrize("scale", [1, 7, 1000])
def test_labels_are_alike_exactly_if_their_distributions_are_equal(scale: int) -> None:
    seen_C = np.array([3.0, 0.0, 5.0])
    assert similarity(scale * counts(3, 0, 5), seen_C) == pytest.approx(1)
    assert similarity(scale * counts(3, 1, 5), seen_C) < 1
    assert similarity(scale * counts(0, 9), seen_C) == 0
