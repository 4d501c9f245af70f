"""Clients that wait for their devices hear of the end, and of their eviction."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from fedclient.device.conditions.config import Conditions
from fedclient.device.conditions.decide import Readings
from fedclient.device.conditions.gate import Gate
from fedcore.errors import RefusedError
from fedserver.cli import main
from tests.fedclient.test_member import worker
from tests.peer import Peer, packed
from tests.served import Served, ones, served


class OnBattery:
    """A device that is never charged; ``happens`` is called when it first sleeps."""

    def __init__(self, happens: Callable[[], object]) -> None:
        self.at, self.sleeps, self._happens = 0.0, 0, happens

    def read(self) -> Readings:
        return Readings(charging=False)

    def sleep(self, seconds: float) -> None:
        self.at, self.sleeps = self.at + seconds, self.sleeps + 1
        assert self.sleeps < 10, "it waits for ever"
        if self.sleeps == 1:
            self._happens()

    def gate(self) -> Gate:
        asked = Conditions(charging=True)
        clock = {"clock": lambda: self.at, "sleep": self.sleep}
        return Gate(asked, self, **clock)  # type: ignore[arg-type]


def test_a_client_that_waits_ends_when_the_run_has_ended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "fedclient")
    with served(tmp_path, stop={"updates": 1}, timeouts={"linger": 30.0}) as server:

        def ends() -> None:
            assert "charging" in next(iter(server.server._sessions.waiting.values()))
            assert not server.server._sessions.attending
            with Peer(server.address, "peer") as peer:
                peer.pull()
                peer.push(packed(ones()))
                peer.pull()

        device = OnBattery(ends)
        with worker(server, tmp_path / "phone", gate=device.gate()) as phone:
            phone.run()
        assert (device.at, device.sleeps) == (60.0, 1)
        assert "the run has ended: 1 updates" in caplog.text
        server.wait()  # all know, so it does not linger


def test_a_client_that_waits_hears_that_it_is_evicted(server: Served) -> None:
    def evict() -> None:
        words = ["evict", str(server.config.server.journal), "phone", "--reason", "old"]
        assert CliRunner().invoke(main, words).exit_code == 0

    device = OnBattery(evict)
    sentence = "the operator has evicted 'phone': old"
    with (
        worker(server, server.folder / "phone", gate=device.gate()) as phone,
        pytest.raises(RefusedError, match=sentence),
    ):
        phone.run()


def test_a_server_that_is_away_does_not_end_the_wait(server: Served) -> None:
    device = OnBattery(server.stop)
    with (
        worker(server, server.folder / "phone", gate=device.gate()) as phone,
        pytest.raises(AssertionError, match="it waits for ever"),
    ):
        phone.run()
