"""Strong and weak scaling."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcore.errors import ConfigError
from fedcore.planning.scaling import (
    amdahl,
    amdahl_share,
    best_workers,
    karp_flatt,
    scaling,
)

WORKERS = (1, 2, 4, 8, 16)
SHARES = st.floats(0, 1)


@given(SHARES)
def test_the_fit_finds_the_share_of_a_law_that_holds(serial: float) -> None:
    speedups = {n: amdahl(serial, n) for n in WORKERS}
    assert amdahl_share(speedups) == pytest.approx(serial, abs=1e-9)
    for n in WORKERS[1:]:
        assert karp_flatt(speedups[n], n) == pytest.approx(serial, abs=1e-9)


def test_amdahls_own_numbers() -> None:
    assert amdahl(0.05, 10**9) == pytest.approx(20)
    assert amdahl(0, 8) == 8
    assert amdahl(1, 8) == 1


def test_karp_flatt_grows_where_the_overhead_does() -> None:
    times = {n: 1 / n + 0.01 * n for n in WORKERS}
    found = scaling(times, dict.fromkeys(WORKERS, 1.0)).karp_flatt
    known = [each for each in found if each is not None]
    assert found[0] is None
    assert known == sorted(known)


def test_the_report_holds_speed_ups_and_efficiencies() -> None:
    found = scaling({4: 5.0, 1: 10.0}, {1: 1.0, 4: 2.0})
    assert found.workers == (1, 4)
    assert found.speedups == [1, 2]
    assert found.efficiencies == [1, 0.5]
    assert found.scaled_speedups == [1, 2]
    assert found.serial_share == pytest.approx((0.5 - 0.25) / 0.75)


def test_without_a_single_worker_the_fewest_are_the_reference() -> None:
    assert scaling({2: 4.0, 4: 2.0}, {2: 1.0, 4: 1.0}).speedups == [2, 4]


def test_the_fewest_of_the_fastest_are_best() -> None:
    assert best_workers({1: 3.0, 2: 2.0, 4: 2.0, 8: 2.5}) == 2


@pytest.mark.parametrize(
    ("strong", "weak"),
    [({}, {}), ({1: 1.0}, {2: 1.0}), ({1: 0.0}, {1: 1.0}), ({0: 1.0}, {0: 1.0})],
)
def test_times_that_cannot_be_are_refused(
    strong: dict[int, float], weak: dict[int, float]
) -> None:
    with pytest.raises(ConfigError, match="scaling: expected"):
        scaling(strong, weak)
