"""Whole clients in this process, against a real server."""

import math
import random
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fedwire.connect import parse_address
from fedwire.v1 import federation_pb2 as pb

import fedclient.work.worker
from fedclient.device.pace import Pace, Stint
from fedclient.state.store import ClientStore
from fedclient.work.evaluator import Evaluator
from fedclient.work.membership import (
    FIRST_WAIT,
    LEAST_CALL,
    LONGEST_WAIT,
    Identity,
    Membership,
    Patience,
    read_algorithm,
)
from fedclient.work.worker import Worker
from fedcore.controllers.bandwidth import DAY, Link
from fedcore.errors import (
    LatecomerError,
    RefusedError,
    StateError,
    UnavailableError,
    UserCodeError,
    WorkloadError,
)
from fedcore.interruption import interrupt
from fedcore.protocol import Plan, Pull
from fedcore.workload import Client, Trained, TrainingTask, Workload
from fedrun.cli.exit_codes import exit_code
from fedserver.view.status import status_json
from fedview.results import Results
from tests.served import DIM, Served, served, settings, until


def workload(dim: int = DIM, name: str = "w", **changes: Any) -> Workload:
    """Learns to be one everywhere; some functions may be replaced."""
    given: dict[str, Any] = {
        "initial": lambda rng: {name: np.zeros(dim)},
        "gradient": lambda params, x, y: (0.0, {name: np.subtract(params[name], 1.0)}),
        "train_data": lambda client: (np.zeros((8, 1)), np.zeros(8, np.int64)),
    }
    return Workload(**(given | changes))


@contextmanager
def worker(
    server: Served,
    state: Path,
    app: Workload | None = None,
    give_up: float | None = 1.0,
    at: str = "",
    **more: Any,
) -> Iterator[Worker]:
    """A client of the server, which it reaches there or elsewhere, ready to work."""
    app = app or workload()
    model = app.flat()
    member = Membership(
        parse_address(at or server.address),
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


class AsleepError(Exception):
    """A client would rest now, for so many seconds."""


def test_a_client_whose_bytes_of_the_day_are_used_up_rests_until_midnight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rest(member: Membership, seconds: float) -> None:
        if seconds > 60:
            raise AsleepError(seconds)

    clock = SimpleNamespace(time=lambda: 100.25 * DAY, monotonic=time.monotonic)
    clock.sleep = time.sleep
    monkeypatch.setattr(fedclient.work.worker, "time", clock)
    monkeypatch.setattr(Membership, "rest", rest)
    top_k = {"kind": "error_feedback", "inner": {"kind": "top_k", "ratio": 0.1}}
    limits = [{"kind": "bandwidth", "daily": 4000}]
    algorithm = {"kind": "fed_buff", "uplink": top_k, "controllers": limits}
    with served(tmp_path, algorithm=algorithm) as server:
        with worker(server, tmp_path / "ann") as ann:
            with pytest.raises(AsleepError) as asleep:
                ann.run()
            assert asleep.value.args[0] == pytest.approx(0.75 * DAY)
            passed = ann._member.connection.transferred.framed
            link = ann._participant.state.controlled["bandwidth"]
        assert link.used == passed <= 4000
        assert ann._accepted > 3
        with worker(server, tmp_path / "ann") as again:  # the day goes on
            with pytest.raises(AsleepError):
                again.run()
            link = Link(*again._participant.state.controlled["bandwidth"])
            assert link.used >= passed


def test_a_client_that_rests_for_hours_hears_of_the_end_of_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    top_k = {"kind": "error_feedback", "inner": {"kind": "top_k", "ratio": 0.1}}
    limits = [{"kind": "bandwidth", "daily": 4000}]
    algorithm = {"kind": "fed_buff", "uplink": top_k, "controllers": limits}
    config: dict[str, Any] = {
        "algorithm": algorithm,
        "stop": {"versions": 100},
        "timeouts": {"linger": 20.0},
    }
    with served(tmp_path, **config) as server:
        with (
            worker(server, tmp_path / "ann") as ann,
            worker(server, tmp_path / "bob") as bob,
        ):
            thread = threading.Thread(target=ann.run, daemon=True)
            thread.start()
            until(lambda: "let it rest for" in caplog.text, "it rests")
            bob._rest = lambda: None  # type: ignore[method-assign]
            bob.run()
            thread.join(10.0)
            assert not thread.is_alive()
        server.wait()


def test_a_client_waits_for_the_run_of_its_state_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with socket.create_server(("127.0.0.1", 0)) as free:
        place: dict[str, Any] = {"listen": f"127.0.0.1:{free.getsockname()[1]}"}
    own = {**place, "journal": str(tmp_path / "one" / "run")}
    with (
        served(tmp_path / "one", server=own) as one,
        worker(one, tmp_path / "ann") as ann,
    ):
        ann._enrol()
        run_id = one.run.run_id
    with ExitStack() as stack:
        other = {**place, "journal": str(tmp_path / "two" / "run")}  # an empty volume
        two = Served(tmp_path / "two", settings(tmp_path / "two", server=other))
        two.__enter__()
        error = refusal(two, tmp_path / "ann")
        assert f"belongs to run {run_id}" in str(error)
        assert "to join that one use another --state" in str(error)
        assert exit_code(error) == 69  # --give-up still ends it
        ann = stack.enter_context(worker(two, tmp_path / "ann", give_up=None))
        enrolling = stack.enter_context(ThreadPoolExecutor(1)).submit(ann._enrol)
        until(lambda: "waiting for the run of this state" in caplog.text, "it says so")
        two.stop()
        with served(tmp_path / "one", server=own) as one:
            enrolling.result(30)
            assert ann._participant.state.run_id == one.run.run_id


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
    assert exit_code(error) == 77
    assert not server.state.clients


def test_a_second_client_in_a_state_directory_is_refused(
    server: Served, tmp_path: Path
) -> None:
    with worker(server, tmp_path / "ann") as ann:
        ann._enrol()
        error = refusal(server, tmp_path / "ann")
        assert isinstance(error, StateError)
        assert "is in use by another client" in str(error)
        assert exit_code(error) == 74
        ann._turn()


def test_a_client_that_was_superseded_stops(server: Served, tmp_path: Path) -> None:
    with worker(server, tmp_path / "ann") as ann:
        ann._enrol()
        told = pb.Notice(kind=pb.Notice.KIND_SUPERSEDED, text="another process runs")
        ann._member._hear(ann._participant.state.cid, told)
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


@pytest.mark.parametrize(
    "refusing",
    [{"staleness_limit": 0}, {"update_filter": {"kind": "fleet_controller"}}],
    ids=["what is late", "what is small"],
)
def test_a_client_leaves_with_one_last_message(
    tmp_path: Path, refusing: dict[str, Any]
) -> None:
    if "update_filter" in refusing:
        refusing["update_filter"]["size_percentile"] = 50
    compressed = {"kind": "error_feedback", "inner": {"kind": "top_k", "ratio": 0.1}}
    with served(tmp_path, algorithm={"uplink": compressed, **refusing}) as server:
        with worker(server, tmp_path / "ann", updates=3) as ann:
            ann.run()
        (row,) = server.state.clients.values()
        assert (row.left, row.seq) == (True, 4)
        told = server.lines("decided")[-1]["verdict"]
        assert told == (
            "rejected_policy" if "update_filter" in refusing else "accepted"
        )


def test_a_task_is_refused_before_it_is_computed(tmp_path: Path) -> None:
    filters = {"kind": "fleet_controller", "size_percentile": 50, "ask_again": 0.05}
    gradients: list[int] = []

    def gradient(params: Any, x: Any, y: Any) -> Any:
        gradients.append(len(x))
        return 0.0, {"w": np.subtract(params["w"], 1.0)}

    def few(client: Client) -> Any:
        return np.zeros((3, 1)), np.zeros(3, np.int64)

    small = workload(gradient=gradient, train_data=few)
    recipe = {"kind": "fed_buff", "buffer": 1, "update_filter": filters}
    with served(tmp_path, algorithm=recipe) as server:
        with worker(server, tmp_path / "ann", updates=3) as ann:
            ann.run()
        with worker(server, tmp_path / "bob", app=small) as bob:
            bob._enrol()
            for _ in range(2):
                bob._turn()
        until(lambda: len(server.lines("declined")) == 2, "the journal has them")
        told = server.lines("declined")[0]
        assert (told["client"], told["planned"]) == ("bob", 3)
        assert told["reason"] == "3 samples, fewer than the percentile 8"
        assert gradients == []  # nothing was computed in vain
    results = Results(tmp_path / "run")
    assert results.summary["declined"] == 2


def test_a_client_says_its_labels_only_where_they_are_looked_at(
    tmp_path: Path,
) -> None:
    def said(**settings: Any) -> Any:
        filters = {"kind": "fleet_controller", **settings.pop("filter")}
        recipe = {"kind": "fed_buff", "staleness": {"kind": "label_boost"}}
        recipe["update_filter"] = filters
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        with (
            served(folder, algorithm=recipe, **settings) as server,
            worker(server, folder / "ann") as ann,
        ):
            ann._enrol()
            return ann._describe_plan()

    alike = {"similarity_percentile": 10}
    assert said(filter={}) is None
    assert said(filter={"size_percentile": 10}) == Plan(8, None)
    assert said(filter=alike).counts.tolist() == [8]
    assert said(filter=alike, share_labels=False) == Plan(8, None)


def test_who_computes_what_is_not_finite_ends_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedclient.work.membership.AFTER_FAILURE", 0.0)
    nowhere = workload(gradient=lambda params, x, y: (0.0, broken(params)))
    with served(tmp_path) as server:
        with (
            worker(server, tmp_path / "ann", app=nowhere) as ann,
            pytest.raises(UserCodeError, match=r"5 times in a row: the update of tens"),
        ):
            ann.run()
        until(lambda: len(server.lines("failed")) == 5, "the journal has them")
    told = Results(tmp_path / "run").summary["failed"]
    assert told == {"ann": "the update of tensor 'w' is not finite; it is not sent"}


def broken(params: Any) -> Any:
    """Gradients that are not finite."""
    return {name: np.full_like(value, np.nan) for name, value in params.items()}


class OwnError(BaseException):
    """An error of a library that no handler of Exception catches."""


class Mute(Exception):  # noqa: N818 -- as people name theirs
    """An error that cannot be shown."""

    def __str__(self) -> str:
        raise ValueError("no text")


def raises(error: BaseException) -> Any:
    """A function of the user's that raises this."""

    def function(*given: Any) -> Any:
        raise error

    return function


NO_ROWS = np.zeros((0, 1)), np.zeros(0, np.int64)


@pytest.mark.parametrize(
    ("functions", "words"),
    [
        ({"train_data": raises(SystemExit(3))}, "SystemExit: 3"),
        ({"train_data": lambda client: NO_ROWS}, "train_data returned no samples"),
        ({"train_data": lambda client: None}, "train_data returned NoneType; expected"),
        ({"gradient": raises(SystemExit("bye"))}, "SystemExit: bye"),
        ({"gradient": raises(KeyboardInterrupt())}, "KeyboardInterrupt"),
        ({"gradient": raises(OwnError("odd"))}, "OwnError: odd"),
        ({"gradient": raises(GeneratorExit())}, "GeneratorExit"),
        ({"train_data": raises(GeneratorExit())}, "GeneratorExit"),
        ({"gradient": raises(Mute())}, "Mute: <exception str() failed>"),
        ({"train_data": raises(OSError("\udcff.png"))}, "OSError: \\udcff.png"),
        ({"gradient": lambda *given: None}, "gradient returned a NoneType; expected"),
        ({"gradient": lambda *given: (0.0, {})}, "gradient returned: tensor 'w' is"),
        (
            {"gradient": None, "train": lambda params, *more: Trained(params, 0)},
            "train returned 0 samples; expected 1 to",
        ),
    ],
)
def test_whatever_the_users_code_does_the_server_is_told_and_the_client_ends(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    functions: dict[str, Any],
    words: str,
) -> None:
    monkeypatch.setattr("fedclient.work.membership.AFTER_FAILURE", 0.0)
    before = signal.signal(signal.SIGINT, interrupt)  # as the command does
    try:
        with served(tmp_path) as server:
            error = refusal(server, tmp_path / "ann", workload(**functions))
            until(lambda: len(server.lines("failed")) == 5, "the server is told")
    finally:
        signal.signal(signal.SIGINT, before)
    assert isinstance(error, WorkloadError)
    assert "5 times in a row" in str(error)
    [(name, told)] = Results(tmp_path / "run").summary["failed"].items()
    assert name == "ann"
    assert words in told


def test_a_client_that_has_rows_later_takes_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedclient.work.membership.AFTER_FAILURE", 0.0)
    reads = [NO_ROWS, NO_ROWS, (np.zeros((8, 1)), np.zeros(8, np.int64))]
    app = workload(train_data=lambda client: reads.pop(0))
    with served(tmp_path) as server, worker(server, tmp_path / "ann", app) as ann:
        ann._enrol()
        while not ann._accepted:
            ann._turn()
        assert len(server.lines("failed")) == 2


def test_a_task_that_is_lost_sends_nothing_and_the_next_one_does(
    tmp_path: Path,
) -> None:
    pace = Pace((Stint(), Stint(is_lost=True), Stint(is_lost=True), Stint()))
    with served(tmp_path) as server:
        with worker(server, tmp_path / "ann", updates=2, pace=pace) as ann:
            ann.run()
        assert len(server.lines("leased")) >= 4
        assert [line["seq"] for line in server.lines("decided")][:2] == [1, 2]


def test_a_client_that_still_trains_at_the_end_is_told(tmp_path: Path) -> None:
    config: dict[str, Any] = {"stop": {"versions": 1}, "timeouts": {"drain": 0.1}}
    with served(tmp_path, **config) as server:
        with worker(server, tmp_path / "slow", pace=Pace((Stint(1.5),))) as slow:
            trains = threading.Thread(target=slow.run)
            trains.start()
            until(lambda: server.lines("leased"), "the slow one trains")
            with worker(server, tmp_path / "quick") as quick:
                quick.run()
            trains.join(30)
            assert not trains.is_alive()
            ledger = slow._participant.state.ledger
            assert (ledger.accepted, ledger.rejected) == (0, 1)
        server.wait()


def test_a_client_that_stays_hears_of_an_amended_algorithm(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        listen = f"127.0.0.1:{free.getsockname()[1]}"
    place = {"listen": listen, "journal": str(tmp_path / "run")}
    first = Served(tmp_path, settings(tmp_path, server=place))
    slower = {"client": {"kind": "local_sgd", "lr": 0.001}}
    again = settings(tmp_path, server=place, algorithm=slower)
    with first, worker(first, tmp_path / "ann", give_up=20.0, updates=4) as ann:
        ann._enrol()
        while ann._accepted < 2:
            ann._turn()
        first.stop()
        with Served(tmp_path, again, amend=True) as amended:
            ann.run()
            assert amended.state.applied == 4
        assert ann._member.algorithm.config.client.lr == 0.001  # type: ignore[attr-defined]


def test_an_evaluation_that_raises_is_told_and_tried_again(
    server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedclient.work.membership.AFTER_FAILURE", 0.001)
    app = workload(evaluate=lambda params, x, y: {"accuracy": 1 / 0})
    member = Membership(
        parse_address(server.operator_socket),
        app.flat(),
        ClientStore(tmp_path / "eva"),
        Identity(role=pb.ROLE_EVALUATOR, name="eva"),
    )
    with pytest.raises(UserCodeError, match="5 times in a row: evaluation raised"):
        Evaluator(member, app.flat(), (np.zeros((8, 1)), np.zeros(8))).run()
    member.close()
    until(lambda: len(server.lines("failed")) == 5, "all five are told")
    assert not server.state.clients[member.participant.state.cid].left


def test_a_client_that_begins_anew_keeps_its_name(
    server: Served, tmp_path: Path
) -> None:
    with worker(server, tmp_path / "ann") as ann:
        ann._enrol()
        before = ann._participant.state.cid
        ann._member.begin_anew(LatecomerError("its disk was rolled back"))
        assert ann._participant.state.cid != before
        assert ann._member.name == "ann"
        assert ann._pull() is False
        assert ann._participant.state.pending is not None


def test_a_name_that_belongs_to_another_client_is_refused(
    server: Served, tmp_path: Path
) -> None:
    with worker(server, tmp_path / "one" / "ann") as one:
        one._enrol()
        with worker(server, tmp_path / "two" / "ann") as two:
            with pytest.raises(RefusedError, match="fedserver free RUN 'ann'") as e:
                two.run()
            assert exit_code(e.value) == 77
        one._member.check_superseded()


def test_a_state_without_its_key_is_of_no_use(server: Served, tmp_path: Path) -> None:
    with worker(server, tmp_path / "ann") as ann:
        ann._enrol()
        before = ann._participant.state.cid
        ann._member.store._keep("client key", "00" * 16)
    with worker(server, tmp_path / "ann") as ann:
        ann._enrol()
        assert ann._participant.state.cid != before
        assert ann._member.name == "ann"


@pytest.mark.parametrize("many", [65, 1])
def test_metrics_that_no_server_takes_are_the_users_mistake(
    server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    monkeypatch.setattr("fedclient.work.membership.AFTER_FAILURE", 0.0)
    values = {f"{n}\n" if many == 1 else str(n): 0.0 for n in range(many)}
    app = workload(evaluate=lambda params, x, y: values)
    member = Membership(
        parse_address(server.operator_socket),
        app.flat(),
        ClientStore(tmp_path / "eva"),
        Identity(role=pb.ROLE_EVALUATOR, name="eva"),
    )
    with pytest.raises(WorkloadError, match="5 times in a row: evaluate: "):
        Evaluator(member, app.flat(), (np.zeros((8, 1)), np.zeros(8))).run()
    member.close()
    until(lambda: len(server.lines("failed")) == 5, "the server is told")


def test_an_algorithm_that_is_too_new_is_told(
    server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = '{"kind": "fed_tomorrow"}'
    with worker(server, tmp_path / "ann") as ann:
        with pytest.raises(RefusedError, match="too old for the federation's") as e:
            read_algorithm(told, ann._member._model.spec, {})
        assert exit_code(e.value) == 77


def test_a_client_gives_up_in_time_where_somebody_listens_who_never_speaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedclient.work.membership.LEAST_CALL", 0.2)
    with served(tmp_path) as server, socket.create_server(("127.0.0.1", 0)) as silent:
        at = f"127.0.0.1:{silent.getsockname()[1]}"
        with worker(server, tmp_path / "ann", give_up=1.5, at=at) as ann:
            began = time.monotonic()
            with pytest.raises(UnavailableError, match=r"does not answer.* after 2 s"):
                ann.run()
            assert time.monotonic() - began < 5.0
            # A pull after a failure has to connect in the time that is left.
            pull = Pull(cid="ann", nonce=1, epoch="0" * 16)
            with pytest.raises(UnavailableError, match="does not answer"):
                ann._member.connection.pull(pull)
            assert time.monotonic() - began < 5.0


def test_a_client_gives_up_in_time(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        pass
    with (
        worker(server, tmp_path / "ann", give_up=0.0) as ann,
        pytest.raises(UnavailableError, match="gave up after 0 s") as caught,
    ):
        ann.run()
    assert exit_code(caught.value) == 69


# --------------------------------------------------------------------------- patience


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long a client would have slept."""
    slept: list[float] = []
    monkeypatch.setattr("fedclient.work.membership.time.sleep", slept.append)
    random.seed(1)
    return slept


def test_pauses_grow_within_their_bounds(pauses: list[float]) -> None:
    patience = Patience()
    patience.reset()
    expected = FIRST_WAIT
    for _ in range(200):
        patience.wait(UnavailableError("away"))
        assert expected / 2 <= pauses[-1] <= expected
        expected = min(2 * expected, LONGEST_WAIT)
    assert len({round(pause, 6) for pause in pauses[-50:]}) > 40  # no two alike


def test_who_never_reached_the_server_tries_often_for_a_minute_and_then_as_usual(
    pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedclient.work.membership.time.monotonic", lambda: sum(pauses))
    patience = Patience()
    while sum(pauses) < 60:
        patience.wait(UnavailableError("not there yet"))
    assert pauses[0] <= 0.2
    assert sum(pauses[:4]) < 3.0
    assert max(pauses) <= 5.0
    assert len(pauses) > 12
    for _ in range(9):
        patience.wait(UnavailableError("not there yet"))
    assert LONGEST_WAIT / 2 <= pauses[-1] <= LONGEST_WAIT


def test_pauses_begin_anew_once_something_works(pauses: list[float]) -> None:
    patience = Patience()
    for _ in range(9):
        patience.wait(UnavailableError("away"))
    patience.reset()
    patience.wait(UnavailableError("away"))
    assert FIRST_WAIT / 2 <= pauses[-1] <= FIRST_WAIT


def test_it_gives_up_when_it_has_failed_for_so_long_not_worked_for_so_long(
    pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("fedclient.work.membership.time.monotonic", lambda: now)
    patience = Patience(give_up=5.0)
    now = 60.0  # of training
    patience.wait(UnavailableError("away"))
    now = 64.0
    patience.wait(UnavailableError("away"))
    now = 65.0
    with pytest.raises(UnavailableError, match="gave up after 5 s"):
        patience.wait(UnavailableError("away"))


def test_the_time_counts_from_the_beginning_of_the_first_call_that_fails(
    pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 60.0
    monkeypatch.setattr("fedclient.work.membership.time.monotonic", lambda: now)
    patience = Patience(give_up=20.0)
    assert patience.begin(False) == 20.0
    now = 70.0
    patience.wait(UnavailableError("away"))
    assert patience.begin(False) == 10.0
    assert patience.begin(True) == 10.0
    now = 79.9
    assert patience.begin(False) == LEAST_CALL
    patience.wait(UnavailableError("away"))
    assert pauses[-1] == pytest.approx(0.1)
    now = 80.0
    with pytest.raises(UnavailableError, match="gave up after 20 s"):
        patience.wait(UnavailableError("away"))


def test_a_pull_that_the_server_holds_counts_from_its_failure_on(
    pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("fedclient.work.membership.time.monotonic", lambda: now)
    patience = Patience(give_up=5.0)
    patience.begin(False)
    patience.reset()
    assert patience.begin(True) == math.inf
    now = 19.0
    patience.wait(UnavailableError("broke off"))
    now = 24.0
    with pytest.raises(UnavailableError, match="gave up after 5 s"):
        patience.wait(UnavailableError("away"))


def test_a_server_may_ask_for_a_longer_pause(pauses: list[float]) -> None:
    Patience().wait(UnavailableError("busy"), least=7.5)
    assert pauses == [7.5]


def test_samples_that_are_left_out_are_told_to_the_server(tmp_path: Path) -> None:
    def train(params: Any, data: Any, task: TrainingTask) -> Trained:
        task.skip(2, "scan_17.png: truncated")
        return Trained({"w": params["w"] + 1}, samples=6)

    app = workload(gradient=None, train=train)
    with served(tmp_path) as server, worker(server, tmp_path / "ann", app) as ann:
        ann._enrol()
        while ann._accepted < 2:
            ann._turn()
        until(lambda: len(server.lines("skipped")) == 2, "both are told")
        assert server.lines("skipped")[0]["level"] == "warning"
        [client] = status_json(server.progress)["clients"]
        assert (client["skipped"], client["why"]) == (4, "scan_17.png: truncated")
        assert client["failures"] == 0
    assert Results(tmp_path / "run").skipped["ann"].samples == 4


def test_a_client_that_is_told_of_the_end_asks_soon_and_not_without_pause(
    server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that drains answers that it is busy, although the run has ended."""
    with worker(server, tmp_path / "ann") as ann:
        ann._enrol()
        member = ann._member
        for _ in range(9):
            member.patience.pause(UnavailableError("away"))
        began, end = time.monotonic(), pb.Notice(kind=pb.Notice.KIND_ENDED)
        told = threading.Timer(0.1, member._hear, (member._cid, end))
        told.start()
        member.wait_for_room(30.0)
        assert time.monotonic() - began < 15.0
        told.join()
        slept: list[float] = []
        monkeypatch.setattr("fedclient.work.membership.time.sleep", slept.append)
        member.wait_for_room(30.0)
        member.rest(86_400.0)
        assert slept == [FIRST_WAIT, FIRST_WAIT]
