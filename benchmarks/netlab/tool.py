"""The tool that makes hosts with bad links, and the requests to it."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from fedcore.errors import ConfigError
from fedcore.typing import JSON

VARIABLE = "LATECOMER_NETLAB"
INSIDE = "NETLAB"  # the tool, as those know it who run in its hosts
LONGEST = 3600  # seconds
# The books are made up as the server computed them, with a thread.
THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def find(path: Path | None) -> Path:
    """The tool, given or named by the environment.

    Raises:
        ConfigError: it is not there, or this machine does not let it work.
    """
    text = str(path or os.environ.get(VARIABLE, ""))
    named = Path(text)
    if not named.is_file():
        what = f"{text}: no such file" if text else "no tool is named"
        raise ConfigError(
            f"{what}; this benchmark needs a tool that gives each host "
            f"a network namespace with a shaped link: --netlab PATH, or {VARIABLE} "
            "(docs/networks.md says what it must offer)"
        )
    done = _run(named.resolve(), "check")
    if done.returncode:
        said = done.stderr.strip() or f"status {done.returncode}"
        raise ConfigError(f"{named} does not work on this machine: {said}")
    return named.resolve()


def up(tool: Path, options: list[str], seconds: float, words: list[str]) -> int:
    """Makes hosts, and runs a module within; returns its exit status."""
    timeout = str(min(seconds, LONGEST))
    command = [sys.executable, str(tool), "up", *options, "--timeout", timeout]
    command += ["--", sys.executable, "-m", *words]
    return subprocess.run(
        command, env={**os.environ, **THREADS}, check=False
    ).returncode


# ------------------------------------------------------------- within its hosts


def on(host: str) -> list[str]:
    """The words before a command that is to run on a host."""
    return [sys.executable, os.environ[INSIDE], "exec", host]


def address(host: str) -> str:
    """Where a host is reached."""
    return os.environ[f"NETLAB_ADDR_{host}"]


def switch(host: str, *, is_up: bool) -> None:
    """Cuts the link of a host, or mends it."""
    done = _run(Path(os.environ[INSIDE]), "set", host, f"up={int(is_up)}")
    if done.returncode:
        raise ConfigError(f"the link of {host} does not change: {done.stderr.strip()}")


def carried(hosts: list[str]) -> Counter[str]:
    """Bytes of whole packets of these hosts: ``up`` and ``down``, lost ones as well."""
    told: JSON = json.loads(_run(Path(os.environ[INSIDE]), "stats").stdout)
    return Counter(
        up=sum(told[host]["sent_bytes"] for host in hosts),
        down=sum(told[host]["received_bytes"] for host in hosts),
    )


def _run(tool: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(tool), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)
