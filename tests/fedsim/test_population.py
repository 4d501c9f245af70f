"""Devices: speed, link, availability, misfortune."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrun.config import SimulateConfig
from fedsim.population import Device, draw_population

LOG_NORMAL = {"kind": "log_normal", "sigma": 1.0}
SEEDS = st.integers(0, 2**32)


def population(seed: int = 0, **simulate: Any) -> list[Device]:
    return draw_population(SimulateConfig.model_validate(simulate), seed)


def life(device: Device) -> list[float]:
    """A few things that chance decides about a device."""
    return [
        device.compute(3),
        device.away(),
        float(device.happens(0.5)),
        device.gone(),
        device.there() or 0.0,
    ]


@given(SEEDS)
def test_the_same_seed_gives_the_same_devices_with_the_same_fates(seed: int) -> None:
    varied = {"clients": 5, "speed": LOG_NORMAL, "jitter": LOG_NORMAL}
    first, again = (population(seed, **varied) for _ in range(2))
    assert [d.slowness for d in first] == [d.slowness for d in again]
    assert [life(d) for d in first] == [life(d) for d in again]
    assert [d.slowness for d in population(seed + 1, **varied)] != [
        d.slowness for d in first
    ]


@given(SEEDS, st.integers(1, 20))
def test_a_device_knows_its_place_among_all(seed: int, clients: int) -> None:
    devices = population(seed, clients=clients)
    assert [(d.name, d.index, d.count) for d in devices] == [
        (f"client-{i}", i, clients) for i in range(clients)
    ]


@given(SEEDS)
def test_the_fate_of_a_device_does_not_depend_on_the_others(seed: int) -> None:
    few, many = (population(seed, clients=n, jitter=LOG_NORMAL) for n in (3, 9))
    for device in many[1:]:
        life(device)  # nobody else's dice are thrown
    assert life(few[0]) == life(many[0])


def test_every_device_has_dice_of_its_own() -> None:
    devices = population(clients=5)
    assert len({tuple(life(device)) for device in devices}) == 5


@given(st.integers(1, 1000), st.floats(1e-3, 10))
def test_without_differences_a_step_takes_what_the_config_says(
    steps: int, seconds: float
) -> None:
    (device,) = population(clients=1, step_seconds=seconds)
    assert device.compute(steps) == pytest.approx(steps * seconds)


def test_a_slow_device_takes_longer_for_every_step() -> None:
    slow, fast = sorted(
        population(clients=2, speed=LOG_NORMAL), key=lambda d: -d.slowness
    )
    ratio = slow.slowness / fast.slowness
    assert slow.compute(10) == pytest.approx(ratio * fast.compute(10))


def test_a_transfer_takes_its_bytes_and_the_latency() -> None:
    link = {"up_mbit": 8, "down_mbit": 80, "latency": 0.25}
    (device,) = population(clients=1, link=link)
    assert device.upload(0) == 0.25
    assert device.upload(2_000_000) == pytest.approx(0.25 + 2.0)
    assert device.download(0) == 0.5  # the request goes there first
    assert device.download(2_000_000) == pytest.approx(0.5 + 0.2)


def test_a_poor_link_is_poor_in_both_directions() -> None:
    devices = population(clients=10, link={"spread": LOG_NORMAL})
    assert len({d.up_bytes for d in devices}) == 10
    assert {round(d.down_bytes / d.up_bytes, 9) for d in devices} == {5.0}


@given(st.floats(0.05, 0.95))
def test_a_misfortune_strikes_as_often_as_it_should(probability: float) -> None:
    (device,) = population(clients=1)
    struck = np.mean([device.happens(probability) for _ in range(4000)])
    assert struck == pytest.approx(probability, abs=0.03)


def test_what_never_happens_throws_no_dice() -> None:
    (device,) = population(clients=1)
    before = device.rng.bit_generator.state
    assert not device.happens(0.0)
    assert device.rng.bit_generator.state == before


def test_devices_stay_for_ever_unless_they_come_and_go() -> None:
    (faithful,) = population(clients=1)
    assert faithful.there() is None
    come_and_go = {"kind": "on_off", "there_seconds": 60, "gone_seconds": 20}
    (device,) = population(clients=1, availability=come_and_go)
    there = np.mean([device.there() or 0.0 for _ in range(4000)])
    gone = np.mean([device.gone() for _ in range(4000)])
    assert there == pytest.approx(60, rel=0.1)
    assert gone == pytest.approx(20, rel=0.1)


def test_a_lost_device_stays_away_in_units_of_the_config() -> None:
    (device,) = population(clients=1, away={"kind": "same"}, away_seconds=7)
    assert device.away() == 7
