"""The Pareto front and the pair to take."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedstudies.codecs.choose import Point, pareto_front, recommend
from fedstudies.statistics import standard_error

NOTHING = Point(50, math.nan)
# Uncompressed, then: a little worse, as good, much worse, dominated, twice the bytes.
HAND_MADE = [
    Point(1000, 0.900),
    Point(100, 0.896),
    Point(200, 0.900),
    Point(10, 0.700),
    Point(250, 0.899),
    Point(2000, 0.901),
]


def test_on_the_front_nothing_is_better_in_both() -> None:
    assert pareto_front(HAND_MADE) == [False, True, True, True, False, True]


def test_equal_points_are_on_the_front_together() -> None:
    assert pareto_front([Point(1, 1), Point(1, 1)]) == [True, True]
    assert pareto_front([Point(1, 1), Point(1, 2), Point(2, 2)]) == [False, True, False]


def test_what_learnt_nothing_is_neither_on_the_front_nor_in_its_way() -> None:
    assert pareto_front([Point(1000, 0.9), NOTHING]) == [True, False]
    assert recommend([Point(1000, 0.9), NOTHING], 1.0) == 0


@pytest.mark.parametrize(
    ("tolerance", "place"), [(0.005, 1), (0.004, 1), (0.003, 2), (0.0, 2), (0.2, 3)]
)
def test_the_fewest_bytes_within_the_tolerance_are_taken(
    tolerance: float, place: int
) -> None:
    assert recommend(HAND_MADE, tolerance) == place


def test_a_loss_of_exactly_the_tolerance_is_accepted() -> None:
    points = [Point(1000, 0.95), Point(100, 0.95 - 0.005)]
    assert recommend(points, 0.005) == 1
    points = [Point(1000, 0.3), Point(100, 0.1 + 0.2 - 0.005)]
    assert recommend(points, 0.005) == 1


def test_a_loss_to_be_minimised_is_a_negative_score() -> None:
    points = [Point(1000, -0.25), Point(100, -0.254), Point(10, -0.26)]
    assert recommend(points, 0.005) == 1


def test_of_equal_bytes_the_better_and_then_the_earlier_one_is_taken() -> None:
    points = [Point(1000, 0.9), Point(10, 0.897), Point(10, 0.899), Point(10, 0.899)]
    assert recommend(points, 0.005) == 2


def test_where_the_first_one_learnt_nothing_none_is_taken() -> None:
    assert recommend([NOTHING, Point(10, 0.9)], 0.005) is None
    assert recommend([], 0.005) is None


def test_the_error_of_the_mean_is_that_of_the_seeds_differences() -> None:
    assert standard_error([]) is None
    assert standard_error([0.1]) is None
    assert standard_error([0.25, 0.25, 0.25]) == 0
    assert standard_error([1.0, 3.0]) == pytest.approx(1.0)  # s = √2, over √2


# ------------------------------------------------------------------------ properties

FEW = st.integers(0, 6).map(float)  # so that there are ties
POINTS = st.lists(
    st.builds(
        Point,
        st.one_of(FEW.map(lambda n: n + 1), st.floats(1, 1e9)),
        st.one_of(FEW, st.floats(-10, 10), st.just(math.nan)),
    ),
    min_size=1,
    max_size=12,
)


def learnt(points: list[Point]) -> list[Point]:
    return [point for point in points if not math.isnan(point.score)]


@given(POINTS)
def test_whatever_is_not_on_the_front_is_beaten_by_something_on_it(
    points: list[Point],
) -> None:
    flags = pareto_front(points)
    best = [point for point, on_it in zip(points, flags, strict=True) if on_it]
    assert bool(best) == bool(learnt(points))
    for point in learnt(points):
        beaten = any(
            other != point
            and other.nbytes <= point.nbytes
            and other.score >= point.score
            for other in best
        )
        assert beaten == (point not in best)


@given(POINTS)
def test_along_the_front_more_bytes_are_better_scores(points: list[Point]) -> None:
    flags = pareto_front(points)
    best = sorted({p for p, on_it in zip(points, flags, strict=True) if on_it})
    for cheap, dear in pairwise(best):
        assert cheap.nbytes < dear.nbytes
        assert cheap.score < dear.score


@given(POINTS, st.floats(0, 5))
def test_the_pair_to_take_is_good_enough_and_none_that_is_has_fewer_bytes(
    points: list[Point], tolerance: float
) -> None:
    place = recommend(points, tolerance)
    if math.isnan(points[0].score):
        assert place is None
        return
    assert place is not None
    taken = points[place]
    assert taken.score >= points[0].score - tolerance - 1e-6
    assert taken.nbytes <= points[0].nbytes
    for point in learnt(points):
        if point.nbytes < taken.nbytes:
            assert point.score < points[0].score - tolerance


@given(POINTS, st.floats(0, 5))
def test_the_pair_to_take_is_on_the_front(
    points: list[Point], tolerance: float
) -> None:
    place = recommend(points, tolerance)
    assert place is None or pareto_front(points)[place]


@given(POINTS, st.floats(0, 5), st.floats(0, 5))
def test_whoever_accepts_more_never_gets_more_bytes(
    points: list[Point], one: float, other: float
) -> None:
    strict, mild = (recommend(points, t) for t in sorted((one, other)))
    if strict is not None and mild is not None:
        assert points[mild].nbytes <= points[strict].nbytes


@given(POINTS, st.floats(0, 5), st.randoms(use_true_random=False))
def test_the_order_of_the_others_changes_nothing_but_places(
    points: list[Point], tolerance: float, random: object
) -> None:
    rest = points[1:]
    random.shuffle(rest)  # type: ignore[attr-defined]
    shuffled = [points[0], *rest]
    before, after = recommend(points, tolerance), recommend(shuffled, tolerance)
    assert (before is None) == (after is None)
    if before is not None and after is not None:
        assert points[before] == shuffled[after]
