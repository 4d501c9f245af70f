"""Whole clients against a server that was set back behind its back."""

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fedclient.state.store import ClientStore
from fedclient.work.evaluator import Evaluator
from fedcore.participant import ParticipantState
from fedrun.config import FederationConfig
from tests.fedclient.test_member import worker, workload
from tests.served import Served, settings

KEPT = 2  # updates that the server remembers
LOST = 3  # updates that it does not


@pytest.fixture
def config(tmp_path: Path) -> FederationConfig:
    return settings(tmp_path)


@pytest.fixture
def set_back(tmp_path: Path, config: FederationConfig) -> Iterator[Served]:
    """A server that has lost the client's last updates, and does not know it."""
    run, copy = tmp_path / "run", tmp_path / "copy"
    _deliver(config, tmp_path, KEPT)
    shutil.copytree(run, copy)
    _deliver(config, tmp_path, KEPT + LOST)
    shutil.rmtree(run)
    copy.rename(run)
    with Served(tmp_path, config) as server:
        yield server


def _deliver(config: FederationConfig, folder: Path, until: int) -> None:
    """A client works until so many of its updates were accepted."""
    with Served(folder, config) as server, worker(server, folder / "ann") as one:
        one._enrol()
        while one._accepted < until:
            one._turn()
        one._pull(work=False)  # it holds what it made


def _state(folder: Path) -> ParticipantState:
    with closing(ClientStore(folder / "ann")) as store:
        state = store.load()
    assert state is not None
    return state


def test_a_client_keeps_the_proofs_of_what_it_knows(
    tmp_path: Path, config: FederationConfig
) -> None:
    _deliver(config, tmp_path, KEPT)
    state = _state(tmp_path)
    assert state.held is not None
    assert state.held.proof
    assert state.settled.proof


def test_a_client_proves_that_the_server_was_set_back_and_goes_on(
    set_back: Served, tmp_path: Path
) -> None:
    before = _state(tmp_path)
    assert set_back.state.version == KEPT
    with worker(set_back, tmp_path / "ann") as one:
        one._enrol()
        one._pull(work=False)
        state = one._participant.state
        assert state.cid == before.cid
        assert state.epoch != before.epoch
        assert state.abandoned[-1].epoch == before.epoch
        assert state.abandoned[-1].proof
        one._pull()
        one._push()
    assert set_back.state.version == KEPT + 1
    [opened] = set_back.lines("historyforked")
    assert opened["reason"] == "ann knows a later state than this one"


def test_an_evaluator_proves_it_too(set_back: Served, tmp_path: Path) -> None:
    before = _state(tmp_path)
    with worker(set_back, tmp_path / "ann") as one:
        evaluator = Evaluator(one._member, workload().flat(), None)
        one._member.enrol()
        answer = evaluator._member.pull()
        assert one._participant.state.cid == before.cid
    assert answer.patch.epoch != before.epoch  # type: ignore[union-attr]


def test_a_client_without_proofs_begins_anew(set_back: Served, tmp_path: Path) -> None:
    """Such is a state from a run without a secret."""
    before = _state(tmp_path)
    _drop_proofs(tmp_path / "ann" / "state.sqlite3")
    with worker(set_back, tmp_path / "ann", updates=1) as one:
        one.run()
        assert one._participant.state.cid != before.cid
    assert set_back.lines("historyforked") == []
    assert sum(line["count"] for line in set_back.lines("unproved")) == 2


def _drop_proofs(file: Path) -> None:
    with closing(sqlite3.connect(file)) as db:
        (text,) = db.execute("SELECT value FROM facts WHERE key='state'").fetchone()
        facts = json.loads(text)
        facts["held"][3] = facts["settled"][2] = 0
        facts["abandoned"] = [[epoch, 0] for epoch, _ in facts["abandoned"]]
        told = json.dumps(facts)
        db.execute("UPDATE facts SET value = ? WHERE key='state'", (told,))
        db.execute("DELETE FROM checks WHERE key='facts/state'")  # nor checksums
        db.commit()
