"""When devices are there."""

import heapq
import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrun.config import SimulateConfig
from fedrun.config.simulate import AvailabilityConfig
from fedsim.population import Population
from fedsim.population.availability import Availability, Recorded

YEAR = 365 * 86_400.0
ON_OFF: dict[str, Any] = {"kind": "on_off", "there_seconds": 60.0, "gone_seconds": 20.0}
DIURNAL: dict[str, Any] = {
    "kind": "diurnal",
    "share": 0.25,
    "zones": 4,
    "attendance": 0.6,
}
ALL_DAY: dict[str, Any] = {"kind": "diurnal", "share": 1.0, "attendance": 0.5}
KINDS = [ON_OFF, DIURNAL, ALL_DAY]
SEEDS = st.integers(0, 2**32)


def population(seed: int = 0, clients: int = 8, **availability: Any) -> Population:
    config = {"clients": clients, "availability": availability}
    return Population(SimulateConfig.model_validate(config), seed)


def changes(
    devices: Population | Availability, who: int, count: int, after: float = 0.0
) -> list[tuple[float, bool]]:
    """The next so many changes."""
    found: list[tuple[float, bool]] = []
    for _ in range(count):
        change = devices.next_change(who, after)
        if change is None:
            break
        found.append(change)
        after = change[0]
    return found


def check(devices: Population | Availability, who: int, count: int) -> None:
    """Changes alternate, and between them nothing changes."""
    found = changes(devices, who, count)
    before, there = 0.0, devices.is_there(who, 0.0)
    for at, then in found:
        assert at > before or before == 0
        assert then is not there
        assert devices.is_there(who, at) is then
        for between in (before, (before + at) / 2, math.nextafter(at, 0)):
            if before <= between < at:
                assert devices.is_there(who, between) is there
                assert devices.next_change(who, between) == (at, then)
        before, there = at, then


@pytest.mark.parametrize("kind", KINDS, ids=["on_off", "diurnal", "all_day"])
@given(seed=SEEDS, who=st.integers(0, 7))
def test_changes_alternate_and_between_them_nothing_changes(
    kind: dict[str, Any], seed: int, who: int
) -> None:
    check(population(seed, **kind), who, 40)


@given(seed=SEEDS, times=st.lists(st.floats(0, 5000), max_size=20))
def test_times_may_be_asked_for_in_any_order(seed: int, times: list[float]) -> None:
    for kind in KINDS:
        first, again = population(seed, **kind), population(seed, **kind)
        expected = [first.next_change(1, at) for at in sorted(times)]
        asked = {at: again.next_change(1, at) for at in times}
        assert [asked[at] for at in sorted(times)] == expected


def test_devices_stay_for_ever_unless_they_come_and_go() -> None:
    for devices in (population(), population(kind="diurnal", share=1.0)):
        assert devices.deserted == math.inf
        assert devices.next_change(0, 5.0) is None
        assert devices.is_there(0, 1e9)


def test_a_population_knows_whether_anybody_comes_and_goes() -> None:
    assert not population().comes_and_goes
    assert population(**ON_OFF).comes_and_goes


def test_times_there_and_away_have_their_means_from_the_beginning() -> None:
    devices = population(clients=2000, **ON_OFF)
    there = [devices.is_there(who, 0.0) for who in range(2000)]
    assert np.mean(there) == pytest.approx(60 / 80, abs=0.03)
    lasted: dict[bool, list[float]] = {True: [], False: []}
    for who in range(2000):
        (at, _), (then, now) = changes(devices, who, 2)
        lasted[not now].append(then - at)
    assert np.mean(lasted[True]) == pytest.approx(60, rel=0.1)
    assert np.mean(lasted[False]) == pytest.approx(20, rel=0.1)
    later = [devices.is_there(who, 500.0) for who in range(2000)]
    assert np.mean(later) == pytest.approx(60 / 80, abs=0.03)


def test_a_day_has_its_share_in_one_piece() -> None:
    devices = population(kind="diurnal", day_seconds=100.0, share=0.3)
    found = changes(devices, 3, 20)
    coming = [at for at, there in found if there]
    going = [at for at, there in found if not there and at > coming[0]]
    stays = [end - start for start, end in zip(coming, going, strict=False)]
    assert stays == pytest.approx([30.0] * len(stays))
    assert np.diff(coming) == pytest.approx([100.0] * (len(coming) - 1))


def test_zones_are_spread_over_the_day() -> None:
    def share_there(**kind: Any) -> list[float]:
        devices = population(
            clients=600, kind="diurnal", day_seconds=240.0, share=0.25, **kind
        )
        hours = np.arange(240.0, 480.0, 20.0)
        return [sum(devices.is_there(w, at) for w in range(600)) / 600 for at in hours]

    together = share_there(zones=1, zone_spread=0.0)
    assert set(together) == {0.0, 1.0}
    spread = share_there(zones=24)
    assert min(spread) > 0.15
    assert max(spread) < 0.35


def test_a_client_comes_on_as_many_days_as_it_attends() -> None:
    devices = population(kind="diurnal", day_seconds=10.0, attendance=0.2)
    days = sum(there for _, there in changes(devices, 0, 800))
    last = changes(devices, 0, 800)[-1][0]
    assert days / (last / 10) == pytest.approx(0.2, abs=0.03)


@pytest.mark.parametrize("share", [0.999, 0.9999999999999999, 1.0])
def test_breaks_too_short_for_a_clock_do_no_harm(share: float) -> None:
    devices = population(kind="diurnal", share=share, attendance=0.9, day_seconds=1e-3)
    for at in (0.0, 1e6, 1e9):
        after = changes(devices, 0, 6, after=at)
        assert [b for _, b in after] in ([True, False] * 3, [False, True] * 3)
        for when, there in after:
            assert devices.is_there(0, when) is there


# -------------------------------------------------------------------------- traces

STAYS = st.lists(st.integers(1, 30), unique=True, max_size=8).map(
    lambda times: sorted(times)[: len(times) // 2 * 2]
)


def _pairs(times: list[int], begins: bool) -> list[tuple[float, float]]:
    if begins and times:
        times = [0, *times[1:]]
    return [(float(a), float(b)) for a, b in zip(times[::2], times[1::2], strict=True)]


@given(STAYS, st.booleans(), st.booleans())
def test_a_recorded_device_is_there_when_it_was(
    times: list[int], begins: bool, repeats: bool
) -> None:
    stays = _pairs(times, begins)
    period = 30.0 if repeats else math.inf
    recorded = Recorded([stays], period)
    check(recorded, 0, 50)
    for at in np.arange(0, 95, 0.5):
        place = at % 30.0 if repeats else at
        expected = any(start <= place < end for start, end in stays)
        assert recorded.is_there(0, float(at)) is expected


def test_a_stay_without_end_never_ends() -> None:
    recorded = Recorded([[(5.0, math.inf)], [(0.0, math.inf)], []])
    assert changes(recorded, 0, 5) == [(5.0, True)]
    assert recorded.is_there(0, 1e12)
    assert recorded.is_there(1, 0.0)
    assert not recorded.is_there(2, 0.0)
    assert changes(recorded, 1, 5) == changes(recorded, 2, 5) == []
    assert recorded.is_there(3, 7.0)  # the traces are taken in turn
    assert not recorded.is_there(3, 4.0)


# ---------------------------------------------------------------------- for a year


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        {"kind": "on_off", "there_seconds": 1800.0, "gone_seconds": 257_400.0},
        {"kind": "diurnal", "share": 0.05, "attendance": 0.3, "zones": 24},
    ],
    ids=["on_off", "diurnal"],
)
def test_a_year_of_a_thousand_devices_takes_no_memory(kind: dict[str, Any]) -> None:
    devices = population(clients=1000, **kind)
    coming = []
    for who in range(1000):
        change = devices.next_change(who, 0.0)
        assert change is not None
        coming.append((change[0], who))
    heapq.heapify(coming)
    counted, marks = 0, []
    tracemalloc.start()
    try:
        while (at := coming[0][0]) < YEAR:
            _, who = coming[0]
            change = devices.next_change(who, at)
            assert change is not None
            heapq.heapreplace(coming, (change[0], who))
            counted += 1
            if counted % 25_000 == 0:
                marks.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert counted > 100_000
    assert max(marks) < 8e6
    assert marks[-1] < marks[0] + 4e6


def test_a_setting_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="zones belongs to kind diurnal, and the kind"):
        AvailabilityConfig(kind="on_off", zones=3)
