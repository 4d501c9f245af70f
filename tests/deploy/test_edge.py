"""The unit for devices: its command exists, it is hardened, and systemd reads it."""

import configparser
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from fedclient.cli import main as fedclient
from fedclient.device.conditions.config import read_conditions
from tests.deploy.test_files import checked

EDGE = Path(__file__).parents[2] / "deploy/edge"
UNIT = EDGE / "latecomer-client@.service"
NEWER = "Unknown key '(RestartSteps|RestartMaxDelaySec)'"  # systemd 254 knows them
MOST_EXPOSED = 1.5  # of 10, as systemd-analyze counts


def section(name: str) -> dict[str, str]:
    read = configparser.ConfigParser(
        strict=False, interpolation=None, delimiters=("=",), empty_lines_in_values=False
    )
    read.optionxform = str  # type: ignore[assignment, method-assign]
    read.read_string(UNIT.read_text().replace("\\\n", " "))
    return dict(read[name])


def environment() -> dict[str, str]:
    lines = (EDGE / "client.env").read_text().splitlines()
    pairs = [line.partition("=") for line in lines if line and line[0] != "#"]
    return {name: value for name, _, value in pairs}


def test_the_unit_says_a_command_that_exists() -> None:
    given = {**environment(), "STATE_DIRECTORY": "/var/lib/latecomer/a"}
    text = section("Service")["ExecStart"].replace("%i", "a")
    text = re.sub(r"\$\{?(\w+)\}?", lambda found: given[found[1]], text)
    program, *words = shlex.split(text)
    assert Path(program).name == "fedclient"
    checked(fedclient, words)
    assert words[words.index("--state") + 1] == "/var/lib/latecomer/a"


def test_the_conditions_beside_it_are_read() -> None:
    asked = read_conditions(EDGE / "device.yaml")
    assert asked.charging
    assert asked.unmetered
    assert asked.hours
    assert "--conditions" in environment()["FED_OPTIONS"]


def test_a_mistake_in_the_settings_is_not_tried_for_ever() -> None:
    from fedrun.cli.exit_codes import EXIT_CODES

    service = section("Service")
    never = set(map(int, service["RestartPreventExitStatus"].split()))
    named = {error.__name__: code for error, code in EXIT_CODES}
    assert {
        named["ConfigError"],
        named["RefusedError"],
        named["WorkloadError"],
    } <= never
    assert not {named["UnavailableError"], named["StateError"]} & never
    assert service["Restart"] == "on-failure"


def test_the_unit_has_limits_and_may_change_nothing_but_its_state() -> None:
    service = section("Service")
    for limit in ("MemoryMax", "CPUQuota", "TasksMax"):
        assert service[limit]
    assert service["DynamicUser"] == service["NoNewPrivileges"] == "yes"
    assert service["ProtectSystem"] == "strict"
    assert service["PrivateTmp"] == "yes"
    assert service["StateDirectory"] == "latecomer/%i"
    assert "ReadWritePaths" not in service


def analyze(*words: str | Path) -> subprocess.CompletedProcess[str]:
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip(
            "systemd-analyze is not installed: the Debian package systemd has it"
        )
    command = [tool, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def instance(folder: Path, **changes: str) -> Path:
    """The unit of a client whose program is there."""
    text = UNIT.read_text()
    program = folder / "fedclient"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    text = text.replace("/opt/latecomer/bin/fedclient", str(program))
    for name, value in changes.items():
        text = re.sub(rf"(?m)^{name}=.*$", f"{name}={value}", text)
    path = folder / "latecomer-client@a.service"
    path.write_text(text)
    return path


def test_systemd_reads_the_unit(tmp_path: Path) -> None:
    done = analyze("verify", instance(tmp_path))
    said = [line for line in done.stderr.splitlines() if not re.search(NEWER, line)]
    assert (done.returncode, said) == (0, []), done.stderr
    wrong = analyze("verify", instance(tmp_path, Type="sometimes"))
    assert "sometimes" in wrong.stderr


def exposure(path: Path) -> float:
    done = analyze("security", "--offline=yes", path)
    found = re.search(r"exposure level for \S+: ([\d.]+)", done.stdout)
    assert found is not None, done.stdout + done.stderr
    return float(found[1])


def test_the_unit_is_hardened(tmp_path: Path) -> None:
    assert exposure(instance(tmp_path)) <= MOST_EXPOSED
    loose = {"DynamicUser": "no", "ProtectSystem": "no", "PrivateUsers": "no"}
    assert exposure(instance(tmp_path, **loose)) > MOST_EXPOSED, "it measures nothing"
