"""What the array API lacks, for NumPy and torch alike."""

from typing import Any

import numpy as np
import pytest

from fedcore.arrays import (
    above,
    array_namespace,
    as_numpy,
    finite,
    is_numpy,
    largest_indices,
    like,
    norm,
    pieces,
    scatter,
    take,
    top_k_indices,
)


def torch_tensor(values: Any) -> Any:
    return pytest.importorskip("torch").from_numpy(np.asarray(values))


libraries = pytest.mark.parametrize("make", [np.asarray, torch_tensor])


@libraries
def test_the_largest_lie_where_the_indices_say(make: Any) -> None:
    magnitude = np.array([[5, 1, 4, 2], [0, 9, 8, 7]], np.float32)
    assert as_numpy(top_k_indices(make(magnitude), 2)).tolist() == [[0, 2], [1, 2]]
    assert as_numpy(top_k_indices(make(magnitude[0]), 4)).tolist() == [0, 1, 2, 3]


def test_a_guess_that_finds_many_times_too_many_is_used() -> None:
    rng, found = np.random.default_rng(0), list[Any]()
    x_D = rng.random(1 << 20, np.float32)
    unseen = np.setdiff1d(rng.permutation(1 << 20)[:50_000], np.arange(0, 1 << 20, 128))
    x_D[unseen] += 2  # the sample holds none of them

    def spy(x_D: Any, threshold: int, most: int) -> Any:
        found.append(above(x_D, threshold, most))
        return found[-1]

    places_K = largest_indices(x_D, 100, spy)
    assert sorted(places_K) == sorted(np.argsort(-x_D)[:100])
    assert len(found[0]) > 40_000


@libraries
def test_scattering_undoes_taking(make: Any) -> None:
    x = make(np.array([[1, 2, 3], [4, 5, 6]], np.float32))
    indices = make(np.array([[0, 2], [1, 2]]))
    taken = take(x, indices)
    assert as_numpy(taken).tolist() == [[1, 3], [5, 6]]
    assert as_numpy(scatter(3, indices, taken)).tolist() == [[1, 0, 3], [0, 5, 6]]


@libraries
def test_values_follow_their_reference(make: Any) -> None:
    reference = make(np.zeros(1, np.float32))
    there = like(np.array([1, 2]), reference)
    assert type(there) is type(reference)
    assert is_numpy(there) == (make is np.asarray)
    assert hasattr(array_namespace(reference), "concat")


@libraries
def test_one_bad_value_makes_a_vector_not_finite(make: Any) -> None:
    assert finite(make(np.array([1.0, 3e38], np.float32)))
    for bad in (np.nan, np.inf, -np.inf):
        assert not finite(make(np.array([1.0, bad], np.float32)))


@libraries
def test_a_norm_is_summed_in_double_precision(make: Any) -> None:
    assert norm(make(np.array([3.0, 4.0], np.float32))) == 5.0
    assert norm(make(np.full(4, 1e30, np.float32))) == pytest.approx(2e30)
    assert norm(make(np.full(4, 1e-30, np.float32))) == pytest.approx(2e-30)
    assert norm(make(np.ones(1 << 16, np.float64))) == 256.0


@pytest.mark.parametrize("size", [7, 5000, 1 << 15, 100_000])
@pytest.mark.parametrize("share", [0.0, 0.02, 1.0])
def test_the_k_largest_are_found_and_of_equal_ones_the_first(
    size: int, share: float
) -> None:
    rng = np.random.default_rng(size)
    values = np.abs(rng.standard_normal(size)).round(2).astype(np.float32)
    values[rng.random(size) >= share] = 0
    values[size // 2] = np.inf
    for k in (1, size // 3, size):
        best_first = np.argsort(-values, kind="stable")[:k]
        assert top_k_indices(values, k).tolist() == sorted(best_first.tolist())


def test_pieces_are_whole_units_and_cover_the_last_axis() -> None:
    for shape in [(200_000,), (3, 100_000), (500, 2410), (7,), (0,), (4, 0)]:
        parts = pieces(np.zeros(shape, np.float32), unit=24)
        assert sum(part.stop - part.start for part in parts) == shape[-1]
        assert all(part.start % 24 == 0 for part in parts)
    assert pieces(torch_tensor(np.zeros(200_000))) == [slice(0, 200_000)]
