"""The preflight of a client, by real processes: each failure is one clear sentence."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools.local import LocalFederation

pytestmark = pytest.mark.processes
Make = Callable[..., LocalFederation]
ALL = {
    *("name", "port", "language", "server", "app", "state", "data", "protocol"),
    *("run", "model", "package", "enrolment", "step", "upload"),
}


def checked(
    fed: LocalFederation, *options: str, app: str = "", host: str = ""
) -> tuple[int, dict[str, dict[str, Any]]]:
    """Runs the preflight; returns its exit code, and its findings by name."""
    words = ["check", host or fed.address, "--app", app or fed.app, "--json", *options]
    done = fed.command("fedclient", *words)
    assert "Traceback" not in done.stderr, done.stderr
    told = json.loads(done.stdout)
    assert told["ok"] is (done.returncode == 0)
    assert all("\n" not in each["text"] for each in told["checks"])
    return done.returncode, {each["check"]: each for each in told["checks"]}


def trainers(fed: LocalFederation) -> list[str]:
    clients = fed.status()["clients"]
    return [each["name"] for each in clients if each["role"] == "trainer"]


def failed(found: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {n: each["text"] for n, each in found.items() if each["level"] == "failed"}


def test_a_client_that_can_join_is_told_so_and_leaves_nothing(
    federation: Make, tmp_path: Path
) -> None:
    fed = federation()
    fed.server()
    state = tmp_path / "state"
    options = "--state", str(state), "--name", "a", "--index", "1", "--count", "3"
    code, found = checked(fed, *options)
    assert (code, failed(found)) == (0, {})
    assert set(found) == ALL
    assert found["data"]["samples"] > 0
    assert sum(found["data"]["labels"]) == found["data"]["samples"]
    assert found["step"]["seconds"] > 0
    assert found["server"]["round_trip"] > 0
    assert found["upload"]["nbytes"] > 0
    assert "not counted" in found["upload"]["text"]
    assert not state.exists()
    status = fed.status()
    assert (trainers(fed), status["version"], status["updates"]) == ([], 0, {})
    enrolled = [line["role"] for line in fed.events() if line["event"] == "enrolled"]
    assert set(enrolled) <= {"evaluator"}, "the server's own"
    assert not [line for line in fed.events() if line["event"] == "decided"]
    client = fed.client(1, 3, "--updates", "1", name="a")  # the name was not taken
    assert client.wait() == 0, client.tail()


def test_the_state_of_a_client_that_runs_is_in_use(federation: Make) -> None:
    fed = federation()
    fed.server()
    client = fed.client(0, 2, name="a")
    fed.wait_until(lambda: "accepted" in client.tail(), "it trains")
    code, found = checked(fed, "--state", str(fed.folder / "state-a"))
    assert code == 1
    assert "in use by another client" in failed(found)["state"]
