"""Conditions of a device: what they say, what is read, and what is decided."""

import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fedclient.device.conditions import readings
from fedclient.device.conditions.config import Conditions, read_conditions
from fedclient.device.conditions.decide import Readings, unmet
from fedclient.device.conditions.gate import ALWAYS, Gate
from fedclient.device.conditions.readings import (
    Reader,
    Times,
    load_between,
    read_power,
    read_times,
)
from fedcore.errors import ConfigError
from tests.patience import must_end, until


def at(hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 11, 26, hour, minute, tzinfo=UTC)


NOON, NIGHT = at(12), at(23, 30)
ASKED = {
    "idle": 0.25,
    "charging": True,
    "battery": 0.5,
    "unmetered": True,
    "hours": ["22:00-06:00"],
}
GOOD = Readings(0.1, charging=True, battery=0.8, has_battery=True, metered=False)


def asked(**changes: Any) -> Conditions:
    return Conditions.model_validate(changes)


# ------------------------------------------------------------------------- decisions


@pytest.mark.parametrize(
    ("condition", "read", "now", "why"),
    [
        ({}, Readings(), NOON, None),
        (ASKED, GOOD, NIGHT, None),
        ({"idle": 0.25}, GOOD._replace(load=0.25), NOON, "others use 25%"),
        ({"idle": 0.25}, GOOD._replace(load=0.24), NOON, None),
        ({"idle": 0.25}, GOOD._replace(load=None), NOON, "not known"),
        ({"charging": True}, GOOD._replace(charging=False), NOON, "on battery"),
        ({"charging": True}, GOOD._replace(charging=None), NOON, "not known"),
        ({"charging": False}, GOOD._replace(charging=False), NOON, None),
        ({"battery": 0.5}, GOOD._replace(battery=0.49), NOON, "49%, the least is 50%"),
        ({"battery": 0.5}, GOOD._replace(battery=0.5), NOON, None),
        ({"battery": 0.5}, GOOD._replace(battery=None), NOON, "not known"),
        ({"battery": 0.5}, Readings(charging=True), NOON, None),
        ({"unmetered": True}, GOOD._replace(metered=True), NOON, "is metered"),
        ({"unmetered": True}, GOOD._replace(metered=None), NOON, "not known"),
        ({"unmetered": {"command": ["x"]}}, GOOD, NOON, None),
        ({"hours": ["22:00-06:00"]}, GOOD, NOON, "it is 12:00, outside 22:00-06:00"),
        ({"hours": ["22:00-06:00"]}, GOOD, NIGHT, None),
        ({"hours": ["22:00-06:00"]}, GOOD, at(5, 59), None),
        ({"hours": ["22:00-06:00"]}, GOOD, at(6), "it is 06:00"),
        ({"hours": ["22:00-06:00"]}, GOOD, at(22), None),
        ({"hours": ["01:00-02:00", "11:30-13:00"]}, GOOD, NOON, None),
    ],
)
def test_a_condition_holds_or_says_why_it_does_not(
    condition: dict[str, Any], read: Readings, now: datetime, why: str | None
) -> None:
    found = unmet(asked(**condition), read, now)
    if why is None:
        assert found == []
    else:
        (only,) = found
        assert only.name in condition
        assert why in str(only)


def test_all_that_does_not_hold_is_said_at_once() -> None:
    read = Readings(0.9, charging=False, battery=0.1, has_battery=True, metered=True)
    assert [each.name for each in unmet(asked(**ASKED), read, NOON)] == list(ASKED)


# ------------------------------------------------------------------------ the config


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("chargin: true", "unknown condition 'chargin'; there are: idle, charging"),
        ("idle: 2", "idle: Input should be less than or equal to 1"),
        ("idle: 0", "idle: Input should be greater than 0"),
        (
            "idle: true",
            "idle: expected a share above 0 and up to 1, as in 0.3, got true",
        ),
        ("idle: no", "idle: expected a share above 0 and up to 1, as in 0.3, got fals"),
        ("battery: true", "battery: expected a share above 0 and up to 1, as in 0.3"),
        ("{charging: true, look_every: true}", "look_every: expected seconds, as in"),
        ("battery: full", "battery: Input should be a valid number"),
        ("charging: 1", "charging: Input should be a valid boolean"),
        ("hours: [22:00]", "hours.0: expected HH:MM-HH:MM"),
        ("hours: ['22:00-22:00']", "with two different times"),
        ("hours: ['25:00-06:00']", "as in 22:00-06:00"),
        ("unmetered: {command: []}", "unmetered"),
        ("hours: 22:00-06:00", "hours: expected a list of windows"),
        ("unmetered: {comand: [x]}", "unmetered"),
        ("look_every: 0", "look_every"),
        ("charging: false", "no condition is set"),
        ("[charging]", "expected conditions, such as charging: true"),
        ("", "no condition is set; there are: idle, charging"),
        ("hours: 22:00", "hours: expected a list of windows"),
        ("a: [", "not YAML"),
    ],
)
def test_a_mistake_in_the_file_is_one_sentence(
    tmp_path: Path, text: str, sentence: str
) -> None:
    path = tmp_path / "device.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_conditions(path)
    assert sentence in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_conditions(tmp_path / "device.yaml")


# ---------------------------------------------------------------------- the readings


def supply(folder: Path, name: str, **files: str) -> None:
    (folder / name).mkdir(parents=True)
    for file, text in files.items():
        (folder / name / file).write_text(f"{text}\n")


BATTERY = {"type": "Battery", "capacity": "80", "status": "Discharging"}


@pytest.mark.parametrize(
    ("supplies", "charging", "battery"),
    [
        ({}, True, None),
        ({"AC": {"type": "Mains", "online": "1"}}, True, None),
        ({"AC": {"type": "Mains", "online": "0"}, "BAT0": BATTERY}, False, 0.8),
        ({"AC": {"type": "Mains", "online": "1"}, "BAT0": BATTERY}, True, 0.8),
        ({"usb": {"type": "USB", "online": "1"}, "BAT0": BATTERY}, True, 0.8),
        ({"BAT0": BATTERY}, False, 0.8),
        ({"BAT0": {**BATTERY, "status": "Full"}}, True, 0.8),
        ({"BAT0": {**BATTERY, "status": "Not charging"}}, True, 0.8),
        ({"BAT0": {**BATTERY, "status": "Unknown"}}, None, 0.8),
        ({"BAT0": {"type": "Battery", "status": "Charging"}}, True, None),
        ({"mouse": {**BATTERY, "scope": "Device"}}, True, None),
        ({"BAT0": BATTERY, "BAT1": {**BATTERY, "capacity": "40"}}, False, 0.6),
    ],
)
def test_the_power_supplies_of_linux_are_read(
    tmp_path: Path,
    supplies: dict[str, dict[str, str]],
    charging: bool | None,
    battery: float | None,
) -> None:
    for name, files in supplies.items():
        supply(tmp_path, name, **files)
    found = read_power(tmp_path)
    assert found.charging is charging
    assert found.battery == (None if battery is None else pytest.approx(battery))


def test_a_folder_that_is_not_there_is_a_device_on_mains(tmp_path: Path) -> None:
    assert read_power(tmp_path / "nothing").charging is True


def test_the_load_is_that_of_others(tmp_path: Path) -> None:
    tick = os.sysconf("SC_CLK_TCK")
    fields = [30, 0, 20, 40, 10, 0, 0, 0, 7, 7]  # user ... idle, iowait ... guests
    path = tmp_path / "stat"
    path.write_text(f"cpu  {' '.join(str(tick * n) for n in fields)}\ncpu0 1 2 3\n")
    read = read_times(path)
    assert read is not None
    assert (read.used, read.whole) == (50, 100)
    assert read_times(tmp_path / "nothing") is None
    path.write_text("nonsense\n")
    assert read_times(path) is None


@pytest.mark.parametrize(
    ("used", "own", "load"),
    [(10.0, 0.0, 0.5), (10.0, 10.0, 0.0), (10.0, 12.0, 0.0), (20.0, 5.0, 0.75)],
)
def test_ones_own_work_is_no_load(used: float, own: float, load: float) -> None:
    before, after = Times(5.0, 100.0, 1.0), Times(5.0 + used, 120.0, 1.0 + own)
    assert load_between(before, after) == pytest.approx(load)


def test_a_load_that_cannot_be_told_is_not_known() -> None:
    same = Times(5.0, 100.0, 1.0)
    assert load_between(same, same) is None
    assert load_between(None, same) is None
    assert load_between(same, None) is None


def test_the_load_of_this_machine_is_a_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readings, "MEASURED", 0.2)
    load = Reader(asked(idle=0.5)).read().load
    assert load is not None
    assert 0 <= load <= 1


def script(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.parametrize(
    ("says", "metered"),
    [
        ("echo u 1", True),
        ("echo u 2", False),
        ("echo u 3", True),
        ("echo u 4", False),
        ("echo u 0", None),
        ("echo nonsense", None),
        ("exit 1", None),
    ],
)
def test_network_manager_is_asked_whether_it_costs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, metered: bool | None
) -> None:
    script(tmp_path, "busctl", says)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert Reader(asked(unmetered=True)).read().metered is metered


@pytest.mark.parametrize(
    ("command", "metered"),
    [(["true"], False), (["false"], True), (["/no/such/command"], None)],
)
def test_a_command_of_the_users_tells_whether_it_costs(
    command: list[str], metered: bool | None
) -> None:
    assert Reader(asked(unmetered={"command": command})).read().metered is metered


def test_a_command_that_hangs_is_killed_with_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readings, "_LONGEST", 0.5)
    child = tmp_path / "child"
    script = f"sleep 600 & echo $! > {child}; wait"
    reader = Reader(asked(unmetered={"command": ["sh", "-c", script]}))
    with must_end(30):
        assert reader.read().metered is None
    status = Path("/proc") / child.read_text().strip() / "stat"
    until(
        lambda: not status.exists() or status.read_text().split()[2] in "ZX",
        "the process that the command started ends",
    )


def test_a_command_that_is_not_there_is_refused_at_the_start() -> None:
    reader = Reader(asked(unmetered={"command": ["/no/such/command"]}))
    with pytest.raises(ConfigError, match="no command /no/such/command"):
        reader.require_known()


def test_conditions_that_this_device_can_never_tell_are_refused_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path, "busctl", "exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(ConfigError, match="give a command that exits with 0"):
        Reader(asked(unmetered=True)).require_known()
    with pytest.raises(ConfigError, match="does not tell the load"):
        Reader(asked(idle=0.5), stat=tmp_path / "no").require_known()
    supply(tmp_path, "BAT0", **{**BATTERY, "status": "Unknown"})
    with pytest.raises(ConfigError, match="does not tell whether this device is on"):
        Reader(asked(charging=True), power=tmp_path).require_known()
    Reader(asked(unmetered={"command": ["true"]}, battery=0.5)).require_known()


# -------------------------------------------------------------------------- the gate


class Device:
    """A device with a clock of its own; each sleep lets time pass."""

    def __init__(self, *reads: Readings) -> None:
        self.reads, self.looks, self.at = list(reads), 0, 0.0

    def read(self) -> Readings:
        self.looks += 1
        return self.reads.pop(0) if len(self.reads) > 1 else self.reads[0]

    def sleep(self, seconds: float) -> None:
        self.at += seconds

    def gate(self, **conditions: Any) -> Gate:
        return Gate(
            asked(**conditions),
            self,  # type: ignore[arg-type]
            local_time=lambda: NOON + timedelta(seconds=self.at),
            clock=lambda: self.at,
            sleep=self.sleep,
        )


BAD = GOOD._replace(charging=False)


def test_the_gate_waits_until_the_conditions_hold_and_tells_why() -> None:
    device = Device(BAD, BAD, GOOD)
    told: list[str] = []
    gate = device.gate(charging=True)
    gate.wait(told.append, lambda: told.append("again"))
    assert told == ["charging: on battery", "again"]
    assert (device.at, device.looks) == (120.0, 3)
    gate.wait(told.append)
    assert (len(told), device.looks) == (2, 3), "a look is good for a minute"


def test_the_gate_opens_when_the_hour_comes() -> None:
    device = Device(GOOD)
    device.gate(hours=["13:00-14:00"], look_every=600).wait()
    assert device.at == 3600.0


def test_a_message_waits_for_the_network_alone() -> None:
    device = Device(BAD, BAD._replace(metered=True), GOOD)
    gate = device.gate(charging=True, unmetered={"command": ["x"]})
    gate.wait(only_network=True)
    assert device.at == 0.0
    device.at = 60.0
    gate.wait(only_network=True)
    assert device.at == 120.0


def test_while_it_waits_the_gate_asks_whether_it_need_at_most_once_a_minute() -> None:
    device = Device(BAD)
    asked_at: list[float] = []

    def is_over(why: str) -> bool:
        assert why == "charging: on battery"
        asked_at.append(device.at)
        return device.at > 120

    holds = device.gate(charging=True, look_every=25).wait(is_over=is_over)
    assert (holds, asked_at) == (False, [0.0, 75.0, 150.0])


def test_over_a_network_that_costs_the_gate_asks_nothing() -> None:
    dear = BAD._replace(metered=True)
    device = Device(dear, dear, BAD, GOOD)
    asked_at: list[float] = []

    def is_over(_: str) -> bool:
        asked_at.append(device.at)
        return False

    gate = device.gate(charging=True, unmetered={"command": ["x"]})
    assert gate.wait(is_over=is_over)
    assert asked_at == [120.0], "while it is on battery, and no more on that network"


def test_without_conditions_nothing_is_read() -> None:
    assert ALWAYS.unmet() == []
    device = Device(BAD)
    device.gate().wait()
    assert device.looks == 0
