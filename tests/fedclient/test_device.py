"""What a client tells of its device is read from files, and may be absent."""

import os
from pathlib import Path

import pytest

from fedclient.device import device
from fedcore.measured import Device, Measured, read_measured


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which the operating system's files would be."""
    for name in ("_CPUS", "_HEAT", "POWER", "_MEMORY", "_ENERGY", "_TIMES"):
        monkeypatch.setattr(device, name, tmp_path / name)
    monkeypatch.setattr(device, "_MODELS", (tmp_path / "model",))
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_facts_are_read_in_their_units(files: Path) -> None:
    write(files / "model", "Board 4\0")
    write(files / "_MEMORY", "MemTotal: 4096 kB\nMemAvailable: 1024 kB\n")
    for cpu, khz in enumerate((1_000_000, 2_000_000)):
        write(files / f"_CPUS/cpu{cpu}/cpufreq/cpuinfo_max_freq", f"{khz}\n")
    write(files / "_HEAT/thermal_zone0/temp", "41500\n")
    write(files / "POWER/BAT0/capacity", "80\n")
    write(files / "_ENERGY", "2500000\n")
    found = device.this_device()
    assert found == Device("Board 4", found.cores, 1500.0, 4 << 20, 1 << 20, 41.5, 0.8)
    assert found.cores
    assert device.joules() == 2.5


def test_what_the_system_does_not_tell_is_absent(files: Path) -> None:
    write(files / "_HEAT/thermal_zone0/temp", "no number")
    found = device.this_device()
    assert found.model
    assert (found.mhz, found.free, found.celsius, found.battery) == (None,) * 4
    assert device.joules() is None


def test_the_power_of_a_busy_core_is_read_between_two_moments(files: Path) -> None:
    def read(joules: float, *ticks: int) -> device.Power:
        write(files / "_ENERGY", f"{1e6 * joules}")
        told = " ".join(map(str, ticks))
        write(files / "_TIMES", f"cpu  {told}\ncpu0 1 2 3 4\n")
        return device.read_power()

    tick = os.sysconf("SC_CLK_TCK")
    before = read(50.0, tick, 0, tick, 7 * tick, 9 * tick, 0, 0, 0, 5, 0)
    after = read(80.0, 3 * tick, 0, 2 * tick, 90 * tick, 9 * tick, 0, 0, 0, 8, 0)
    assert before.busy == 2.0
    assert after.core_watts(before) == 10.0
    assert after.core_watts(after) is None  # no core was busy
    assert after.core_watts(device.Power()) is None
    assert before.core_watts(after) is None  # the counter began anew
    (files / "_TIMES").unlink()
    assert device.read_power() == (80.0, None)
    (files / "_ENERGY").unlink()
    assert device.read_power() == (None, None)


def test_this_machine_tells_something() -> None:
    assert device.this_device().cores


def test_measurements_come_back_from_the_disk() -> None:
    phone = Device("phone", 8)
    took = Measured(16, 1.5, None, phone)
    assert read_measured([16, 1.5, None, [*phone]]) == took
    assert read_measured(None) is None
    assert read_measured([16, None, None, None]) == Measured(16)
