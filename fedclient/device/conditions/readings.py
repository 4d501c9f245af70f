"""Reads a device: power supplies, processor time, and whether the network is metered.

It uses /sys/class/power_supply and /proc/stat of Linux, and NetworkManager through
``busctl``, which comes with systemd. The load is that of other processes: a client that
has just trained must not mistake its own work for that of others.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

from fedclient.device.conditions.config import Command, Conditions
from fedclient.device.conditions.decide import Readings
from fedclient.device.device import POWER, files, mean, number, text
from fedcore.errors import ConfigError
from fedcore.typing import Seconds

_STAT = Path("/proc/stat")
_LONGEST: Seconds = 5.0  # time limit of a command
MEASURED: Seconds = 1.0  # duration over which a load is measured
_UNUSED = (3, 4)  # fields of /proc/stat: idle, and waiting for a disk
_METERED = {1: True, 2: False, 3: True, 4: False}  # NetworkManager's guesses are 3, 4
_ASK_NETWORK_MANAGER = (
    "busctl",
    "get-property",
    "org.freedesktop.NetworkManager",
    "/org/freedesktop/NetworkManager",
    "org.freedesktop.NetworkManager",
    "Metered",
)


class Times(NamedTuple):
    """Processor time since the start of the machine, in seconds of one core."""

    used: Seconds
    whole: Seconds
    own: Seconds
    """The part of ``used`` of this process and of its children that have ended."""


class Ended(NamedTuple):
    """The result of a command that has ended."""

    returncode: int
    stdout: str


class Power(NamedTuple):
    """The readings of the power supplies; None where there is none."""

    charging: bool | None
    battery: float | None
    has_battery: bool


class Reader:
    """Reads the values that a set of conditions needs, and nothing else."""

    def __init__(
        self, asked: Conditions, power: Path = POWER, stat: Path = _STAT
    ) -> None:
        """Reads Linux's files for supplies and processors at ``power`` and ``stat``."""
        self._asked, self._power, self._stat = asked, power, stat

    def read(self) -> Readings:
        """Reads the device; takes a second if a condition needs the load."""
        asked = self._asked
        metered = _ask_metered(asked.unmetered) if asked.unmetered else None
        power = read_power(self._power)
        load = self._load() if asked.idle is not None else None
        return Readings(load, *power, metered)

    def require_known(self) -> None:
        """Checks that this device has a reading for each of the conditions.

        Raises:
            ConfigError: a reading is missing, so that its condition would never hold.
        """
        asked, read = self._asked, self.read()
        if asked.idle is not None and read.load is None:
            raise ConfigError(
                f"idle: {self._stat} does not tell the load of this device"
            )
        if asked.charging and read.charging is None:
            raise ConfigError(
                f"charging: {self._power} does not tell whether this device is on mains"
            )
        if asked.unmetered is True and read.metered is None:
            raise ConfigError(
                "unmetered: NetworkManager does not tell whether the network is "
                "metered; give a command that exits with 0 while it is not, as in "
                "unmetered: {command: [/usr/local/bin/on-wifi]}"
            )
        if isinstance(asked.unmetered, Command):
            _require_command(asked.unmetered.command[0])
        if asked.battery is not None and read.has_battery and read.battery is None:
            raise ConfigError(
                f"battery: {self._power} does not tell the charge of this device"
            )

    def _load(self) -> float | None:
        # The load is measured over a second of its own: the system reports the work of
        # child processes only after they end, so an earlier interval could include work
        # of this client.
        before = read_times(self._stat)
        time.sleep(MEASURED)
        return load_between(before, read_times(self._stat))


def read_times(stat: Path) -> Times | None:
    """Reads how long the processors have worked; None if this is not reported."""
    first = text(stat).partition("\n")[0].split()
    if len(first) < 5 or first[0] != "cpu":
        return None
    tick = os.sysconf("SC_CLK_TCK")
    spent = [int(word) / tick for word in first[1:9]]  # user time includes the guests
    whole = sum(spent)
    own = os.times()
    mine = own.user + own.system + own.children_user + own.children_system
    return Times(whole - sum(spent[field] for field in _UNUSED), whole, mine)


def load_between(before: Times | None, after: Times | None) -> float | None:
    """Returns the share of all cores that other processes used between two looks."""
    if before is None or after is None or after.whole <= before.whole:
        return None
    others = (after.used - before.used) - (after.own - before.own)
    return min(1.0, max(0.0, others / (after.whole - before.whole)))


def read_power(folder: Path) -> Power:
    """Reads the power supplies below a folder.

    A device without batteries is on mains. Batteries of mice and keyboards do not
    count.
    """
    mains: list[bool] = []
    states: list[str] = []
    charges: list[float | None] = []
    for supply in files(folder, "*"):
        kind = text(supply / "type").strip()
        if kind == "Battery" and text(supply / "scope").strip() != "Device":
            states.append(text(supply / "status").strip())
            charges.append(number(supply / "capacity", 1e-2))
        elif kind in ("Mains", "USB", "Wireless"):
            mains.append(text(supply / "online").strip() not in ("", "0"))
    return Power(_on_mains(mains, states), mean(charges), bool(states))


def _on_mains(mains: list[bool], states: list[str]) -> bool | None:
    if any(mains) or not states:
        return True
    if mains or "Discharging" in states:
        return False
    return True if set(states) <= {"Charging", "Full", "Not charging"} else None


def _ask_metered(asked: Command | bool) -> bool | None:
    """Returns whether the network is metered; None if that is unknown."""
    if isinstance(asked, Command):
        ended = _run(asked.command)
        return None if ended is None else ended.returncode != 0
    ended = _run(_ASK_NETWORK_MANAGER)
    if ended is None or ended.returncode:
        return None
    word = ended.stdout.split()[-1:]  # for example "u 4"
    return _METERED.get(int(word[0])) if word and word[0].isdigit() else None


def _require_command(name: str) -> None:
    """Checks that a command exists and may be run.

    Raises:
        ConfigError: it cannot be run, so that it would never exit with 0.
    """
    if shutil.which(name) is None:
        raise ConfigError(f"unmetered: there is no command {name} that may be run here")


def _run(command: tuple[str, ...]) -> Ended | None:
    """Runs a command; returns None if it cannot be run or takes too long.

    A command that takes too long is killed with all processes that it has started;
    otherwise a command that hangs at every check would fill the device with processes.
    """
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError):
        return None
    with process:
        try:
            out, _ = process.communicate(timeout=_LONGEST)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
    return Ended(process.returncode, out.decode(errors="replace"))
