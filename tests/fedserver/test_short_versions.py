"""A server says once that its versions have become smaller."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fedserver.serving import short_versions
from fedserver.view.status import status_json
from fedview.results import coverage as module
from tests.peer import Peer, packed
from tests.served import ones, served, until


def test_versions_of_the_client_that_is_left_are_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "IN_A_ROW", 2)
    config: dict[str, Any] = {
        "algorithm": {"kind": "fed_avg", "buffer": 2, "client": {"kind": "local_sgd"}},
        "timeouts": {"lost": 0.3, "heartbeat": 0.1},
    }
    good = packed(ones())

    def at(version: int) -> bool:
        return bool(server.state.version == version)

    with served(tmp_path, **config) as server:
        server.progress.listeners.append(short_versions(server.progress))
        with Peer(server.address, "ann") as ann:
            with Peer(server.address, "bob") as bob:
                for peer in (ann, bob):
                    peer.pull()
                for peer in (ann, bob):
                    peer.push(good)
                until(lambda: server.state.version == 1, "a full version")
            until(lambda: len(server.server._sessions.present) < 2, "bob is lost")
            for version in (2, 3, 4):
                ann.pull()
                ann.push(good)
                until(partial(at, version), "a version of ann")
        (warning,) = status_json(server.progress)["coverage"]["warnings"]
    said = [line for line in caplog.messages if "algorithm.minimum" in line]
    assert len(said) == 1
    assert said[0].startswith("versions hold 1 update of the 2 that algorithm.buffer")
    assert warning.startswith("Versions hold 1 update of the 2")
