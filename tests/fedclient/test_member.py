"""Whole clients in this process, against a real server."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fedwire.connect import parse_address

from fedclient.membership import (
    FIRST_WAIT,
    LONGEST_WAIT,
    Identity,
    Membership,
    Patience,
)
from fedclient.store import ClientStore
from fedclient.worker import Worker
from fedcore.errors import LatecomerError, RefusedError, StateError, UnavailableError
from fedcore.workload import Client, Workload
from fedrun.exits import exit_status
from tests.served import DIM, Served, served, settings


def workload(dim: int = DIM, name: str = "w") -> Workload:
    """Learns to be one everywhere."""
    return Workload(
        initial=lambda rng: {name: np.zeros(dim)},
        gradient=lambda params, x, y: (0.0, {name: np.subtract(params[name], 1.0)}),
        train_data=lambda client: (np.zeros((8, 1)), np.zeros(8, np.int64)),
    )


@contextmanager
def worker(
    server: Served,
    state: Path,
    app: Workload | None = None,
    give_up: float | None = 1.0,
    **more: Any,
) -> Iterator[Worker]:
    """A client of the server, ready to work."""
    app = app or workload()
    model = app.flat()
    member = Membership(
        parse_address(server.address),
        model,
        ClientStore(state),
        Identity(name=state.name),
        give_up,
    )
    try:
        yield Worker(member, app, model, Client(state.name, 0, 1, {}), **more)
    finally:
        member.close()


def refusal(server: Served, state: Path, app: Workload | None = None) -> LatecomerError:
    """Why a client ends."""
    with pytest.raises(LatecomerError) as caught, worker(server, state, app) as one:
        one.run()
    return caught.value


def test_a_client_works_until_the_run_has_ended(tmp_path: Path) -> None:
    config: dict[str, Any] = {"stop": {"versions": 5}, "timeouts": {"linger": 9.0}}
    with served(tmp_path, **config) as server:
        with worker(server, tmp_path / "ann") as ann:
            ann.run()
        server.wait()
        assert server.error is None
        assert server.state.version == 5
        assert (server.state.exact_D > 0).all()


def test_a_client_goes_on_with_its_state_after_a_restart(tmp_path: Path) -> None:
    run = Served(tmp_path, settings(tmp_path))
    for accepted in (2, 4):
        with run, worker(run, tmp_path / "ann", updates=accepted) as ann:
            ann._enrol()
            while ann._accepted < accepted:
                ann._turn()
    with run:
        assert len(run.state.clients) == 1
        assert run.state.applied == 4


def test_a_state_of_another_run_is_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with served(tmp_path / "one") as one, worker(one, tmp_path / "ann") as ann:
        ann._enrol()
    with served(tmp_path / "two") as two:
        error = refusal(two, tmp_path / "ann")
        assert "belongs to run" in str(error)
        assert "use another --state" in str(error)
        assert exit_status(error) == 77


@pytest.mark.parametrize(
    ("app", "words"),
    [
        (workload(DIM + 1), "tensor 'w' should have shape [100], has [101]"),
        (workload(DIM, "v"), "expected tensor 'w', found 'v'"),
    ],
)
def test_another_model_is_refused_by_its_first_tensor(
    server: Served, tmp_path: Path, app: Workload, words: str
) -> None:
    error = refusal(server, tmp_path / "ann", app)
    assert words in str(error)
    assert exit_status(error) == 77
    assert not server.state.clients


def test_a_second_client_in_a_state_directory_is_refused(
    server: Served, tmp_path: Path
) -> None:
    with worker(server, tmp_path / "ann") as ann:
        ann._enrol()
        error = refusal(server, tmp_path / "ann")
        assert isinstance(error, StateError)
        assert "is in use by another client" in str(error)
        assert exit_status(error) == 74
        ann._turn()


def test_a_client_that_was_superseded_stops(server: Served, tmp_path: Path) -> None:
    with worker(server, tmp_path / "ann") as ann:
        ann._enrol()
        ann._member._on_superseded("another process runs")
        with pytest.raises(RefusedError, match="this client stops: another process"):
            ann.run()


def test_a_client_leaves_for_good_and_may_come_back_as_another(
    server: Served, tmp_path: Path
) -> None:
    for updates in (1, 1):
        with worker(server, tmp_path / "ann", updates=updates) as ann:
            ann.run()
    rows = list(server.state.clients.values())
    assert [row.left for row in rows] == [True, True]
    assert {row.name for row in rows} == {"ann"}


def test_an_algorithm_that_is_too_new_is_told(
    server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = '{"kind": "fed_tomorrow"}'
    with worker(server, tmp_path / "ann") as ann:
        with pytest.raises(RefusedError, match="too old for the federation's") as e:
            ann._member._algorithm(told)
        assert exit_status(e.value) == 77


def test_a_client_gives_up_in_time(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        pass
    with (
        worker(server, tmp_path / "ann", give_up=0.0) as ann,
        pytest.raises(UnavailableError, match="gave up after 0 s") as caught,
    ):
        ann.run()
    assert exit_status(caught.value) == 69


# --------------------------------------------------------------------------- patience


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long a client would have slept."""
    slept: list[float] = []
    monkeypatch.setattr("fedclient.membership.time.sleep", slept.append)
    random.seed(1)
    return slept


def test_pauses_grow_within_their_bounds(pauses: list[float]) -> None:
    patience = Patience()
    expected = FIRST_WAIT
    for _ in range(200):
        patience.wait(UnavailableError("away"))
        assert expected / 2 <= pauses[-1] <= expected
        expected = min(2 * expected, LONGEST_WAIT)
    assert len({round(pause, 6) for pause in pauses[-50:]}) > 40  # no two alike


def test_pauses_begin_anew_once_something_works(pauses: list[float]) -> None:
    patience = Patience()
    for _ in range(9):
        patience.wait(UnavailableError("away"))
    patience.reset()
    patience.wait(UnavailableError("away"))
    assert pauses[-1] <= FIRST_WAIT


def test_a_server_may_ask_for_a_longer_pause(pauses: list[float]) -> None:
    Patience().wait(UnavailableError("busy"), least=7.5)
    assert pauses == [7.5]
