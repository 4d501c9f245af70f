"""A client whose device must not train: it waits, tells why, and goes on."""

from collections.abc import Callable
from typing import Any

import pytest

from tools.local import LocalFederation

pytestmark = pytest.mark.processes
Make = Callable[..., LocalFederation]


def phone(fed: LocalFederation) -> Any:
    """What the server says of the client of this name; None: it knows none."""
    clients = fed.status()["clients"]
    return next((each for each in clients if each["name"] == "phone"), None)


def test_a_client_trains_only_while_the_conditions_hold(federation: Make) -> None:
    fed = federation(timeouts={"heartbeat": 0.5, "lost": 1.5})
    flag, conditions = fed.folder / "wifi", fed.folder / "device.yaml"
    conditions.write_text(
        f"unmetered: {{command: [test, -e, {flag}]}}\nlook_every: 1\n"
    )
    fed.server()
    client = fed.client(0, 1, "--conditions", str(conditions), name="phone")
    fed.wait_until(lambda: "no task for now" in client.tail(), "it waits")
    assert phone(fed) is None, "not even its enrolment was sent"

    flag.write_text("")
    fed.wait_until(lambda: fed.status()["version"] > 2, "it trains")
    flag.unlink()
    waits = "no task for now: unmetered: the network is metered"
    fed.wait_until(lambda: client.tail(4).count(waits) > 0, "it waits again")
    fed.wait_until(lambda: not phone(fed)["present"], "it has gone")
    assert phone(fed)["waiting"] == "unmetered: the network is metered"
    table = fed.command("fedserver", "status", fed.address).stdout
    assert "phone waits: unmetered: the network" in " ".join(table.split())
    before = fed.status()["version"]

    flag.write_text("")
    fed.wait_until(lambda: fed.status()["version"] > before + 2, "it goes on")
    assert phone(fed)["waiting"] == ""
    assert client.stop() == 0
    verified = fed.command("fedserver", "journal", "verify", str(fed.run))
    assert verified.returncode == 0, verified.stderr
