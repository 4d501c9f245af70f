"""A coded shuffle delivers the very bytes, in fewer of them."""

import numpy as np
import pytest

from fedcore.coding import mean_rates, saving, shuffle_coded
from fedcore.errors import ConfigError
from fedcore.rng import Key

KEY = Key.root(0)


def rows(count: int, width: int = 8) -> np.ndarray:
    drawn = np.random.default_rng(0).integers(0, 256, (count, width))
    return drawn.astype(np.uint8)


@pytest.mark.parametrize("workers", [2, 3, 5])
@pytest.mark.parametrize("cached", [0.5, 0.7, 1.0])
def test_every_worker_decodes_what_it_needs(workers: int, cached: float) -> None:
    data = rows(30 * workers)
    found = shuffle_coded(data, workers, cached, KEY)
    for needed, decoded in zip(found.needed, found.decoded, strict=True):
        np.testing.assert_array_equal(decoded, data[needed])
    assert found.coded_nbytes % 8 == 0  # each broadcast is as long as a row
    assert found.coded_nbytes <= found.uncoded_nbytes


def test_a_worker_needs_what_its_new_part_has_beyond_its_old_one() -> None:
    old = np.split(np.arange(40), 4)
    found = shuffle_coded(rows(40), 4, 0.25, KEY, old)
    for before, part, needed in zip(old, found.parts, found.needed, strict=True):
        np.testing.assert_array_equal(needed, np.setdiff1d(part, before))
    assert sorted(np.concatenate(found.parts)) == [*range(40)]


def test_what_travels_is_near_what_is_expected_of_many_rows() -> None:
    data = rows(24_000, width=1)
    found = shuffle_coded(data, 4, 0.5, KEY)
    uncoded, coded = mean_rates(4, 0.5)
    assert found.uncoded_nbytes / data.size == pytest.approx(uncoded, rel=0.02)
    assert found.coded_nbytes / data.size == pytest.approx(coded, rel=0.05)


def test_the_expected_rate_is_the_mean_over_how_many_keep_a_row() -> None:
    from math import comb

    n, cached = 7, 0.4
    p = (cached - 1 / n) / (1 - 1 / n)
    mean = sum(
        comb(n - 2, b) * p**b * (1 - p) ** (n - 2 - b) / (2 + b) for b in range(n - 1)
    )
    _, coded = mean_rates(n, cached)
    assert coded == pytest.approx((1 - 1 / n) * (1 - p) * mean)


def test_a_cache_of_nothing_but_the_own_rows_pairs_rows() -> None:
    _, coded = mean_rates(6, 1 / 6)
    assert coded == pytest.approx(5 / 12)
    _, near = mean_rates(6, 1 / 6 + 1.5e-4)
    assert near == pytest.approx(coded, rel=1e-3)


def test_the_saving_tends_to_that_of_the_paper() -> None:
    n, cached = 200, 0.5
    assert saving(n, cached, n) == pytest.approx((cached + 1 / n) * n, rel=0.02)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: mean_rates(1, 1.0), "among 2 workers or more; .* got 1"),
        (lambda: mean_rates(4, 0.2), "a cache of 0.2 .*: expected 1/4"),
        (lambda: mean_rates(4, 1.2), "a cache of 1.2"),
        (lambda: saving(4, 0.5, 5), "multicast gain of 5 .*: expected 1 to 4"),
        (lambda: saving(4, 1.0, 4), "nothing has to travel"),
        (lambda: shuffle_coded(rows(10), 4, 0.5, KEY), "10 rows among 4 workers"),
        (lambda: shuffle_coded(rows(22), 11, 0.5, KEY), "2 to 10 workers"),
    ],
)
def test_wrong_numbers_are_refused(wrong: object, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        wrong()  # type: ignore[operator]
