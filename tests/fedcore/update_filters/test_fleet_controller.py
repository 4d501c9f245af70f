"""FLeet's controller: Damaskinos et al., Middleware 2020, §2.4."""

from typing import Literal

import numpy as np
import pytest

from fedcore.rng import Key
from fedcore.typing import Counts
from fedcore.update_filters import FleetController
from fedcore.update_filters.fleet_controller import ControllerState


def counts(*labels: int) -> Counts:
    return np.array(labels, np.int64)


def seen(
    config: FleetController, *sizes: int, labels: Counts | None = None
) -> ControllerState:
    """The state after updates of so many samples."""
    rule = config.build()
    state: ControllerState = rule.init()
    for size in sizes:
        state = rule.observe(state, size, labels)
    return state


def test_by_default_nothing_is_refused() -> None:
    config = FleetController()
    rule, state = config.build(), seen(FleetController(), 100, 200, 300)
    assert rule.refusal(state, 1, counts(0, 0, 7)) is None


def test_fewer_samples_than_the_percentile_are_refused() -> None:
    config = FleetController(size_percentile=50)
    rule, state = config.build(), seen(config, 10, 20, 30, 40)
    assert rule.refusal(state, 30, None) is None
    refusal = rule.refusal(state, 29, None)
    assert refusal == "29 samples, fewer than the percentile 30"


def test_old_sizes_leave_the_window() -> None:
    config = FleetController(size_percentile=50, window=2)
    rule = config.build()
    assert rule.refusal(seen(config, 100, 100), 10, None) is not None
    assert rule.refusal(seen(config, 100, 100, 5, 5), 10, None) is None


@pytest.mark.parametrize(
    ("side", "redundant", "rare"), [("high", False, True), ("low", True, False)]
)
def test_a_side_says_whether_redundant_or_rare_labels_are_refused(
    side: Literal["low", "high"], redundant: bool, rare: bool
) -> None:
    config = FleetController(similarity_percentile=50, side=side)
    rule = config.build()
    state = seen(config, 1, labels=counts(10, 0))
    # Later updates look half like the labels seen so far.
    for _ in range(3):
        state = rule.observe(state, 1, counts(1, 1))
    assert (
        rule.refusal(state, 1, state.labels_C.astype(np.int64)) is None
    ) is redundant
    assert (rule.refusal(state, 1, counts(0, 9)) is None) is rare


@pytest.mark.parametrize("side", ["low", "high"])
def test_updates_that_are_all_alike_are_all_used(side: Literal["low", "high"]) -> None:
    config = FleetController(
        size_percentile=50, similarity_percentile=50, side=side, window=5
    )
    state = seen(config, *[10] * 20, labels=counts(4, 4))
    assert config.build().refusal(state, 10, counts(4, 4)) is None


def test_updates_without_labels_are_not_refused_for_them() -> None:
    config = FleetController(similarity_percentile=99)
    state = seen(config, 1, 1, 1, labels=counts(5, 5))
    assert config.build().refusal(state, 1, None) is None


@pytest.mark.parametrize("percentile", [10, 30, 60])
def test_about_so_many_per_cent_of_a_steady_stream_are_refused(
    percentile: float,
) -> None:
    rng = Key.root(0).generator()
    by_size = FleetController(size_percentile=percentile)
    by_labels = FleetController(similarity_percentile=percentile)
    for config in (by_size, by_labels):
        rule = config.build()
        state, refused = rule.init(), 0
        for update in range(2000):
            size, labels = int(rng.integers(1, 10_000)), rng.integers(0, 50, 10)
            refused += update >= 1000 and rule.refusal(state, size, labels) is not None
            state = rule.observe(state, size, labels)
        assert refused / 1000 == pytest.approx(percentile / 100, abs=0.05)


def test_each_label_counts_once_whatever_the_weight_of_its_update() -> None:
    config = FleetController()
    assert seen(config, 1, 1, labels=counts(2, 3)).labels_C.tolist() == [4, 6]
