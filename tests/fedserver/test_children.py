"""The evaluator and the model maker: other processes, which may fail."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fedwire.v1 import federation_pb2 as pb
from safetensors.numpy import save_file

from fedcore.errors import ConfigError, SpecMismatchError, UserCodeError, WorkloadError
from fedrun.cli.exit_codes import exit_code
from fedrun.run import open_run
from fedserver.children import (
    EVALUATOR,
    check_model,
    fit_model,
    keep_evaluating,
    make_model,
)
from fedserver.operator.remote import operate
from tests.fedflower.app.apps import tiny
from tests.fedserver.honest import still_serves
from tests.peer import Peer
from tests.served import Served, served, settings, until

pytestmark = pytest.mark.processes

APP = """
import os
import numpy as np
from fedcore.workload import Workload

workload = Workload(
    initial=lambda rng: {{"w": np.zeros(100)}},
    gradient=lambda params, x, y: (0.0, {{"w": params["w"] * 0}}),
    train_data=lambda client: (np.zeros((8, 1)), np.zeros(8, np.int64)),
    evaluate=lambda params, x, y: {body},
    test_data={data},
)
"""
DATA = "lambda: (np.zeros((8, 1)), np.zeros(8, np.int64))"


def with_app(folder: Path, body: str, data: str = DATA) -> dict[str, Any]:
    """A config whose app evaluates so."""
    (folder / "app.py").write_text(APP.format(body=body, data=data))
    return {"app": f"{folder / 'app.py'}:workload"}


def evaluated(server: Served, folder: Path) -> None:
    """Keeps the evaluator until it ends by itself."""
    evaluating = keep_evaluating(server.config, folder, server.operator_socket)
    asyncio.run(asyncio.wait_for(evaluating, 30))


def test_an_evaluator_that_crashes_is_started_again_and_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedserver.children._RESTART_SECONDS", 0.01)
    mark = tmp_path / "crashed"
    body = f"{{'accuracy': 0.5}} if os.path.exists({str(mark)!r}) else crash()"
    config = with_app(tmp_path, body)
    app = tmp_path / "app.py"
    crash = f"\ndef crash():\n    open({str(mark)!r}, 'w')\n    os._exit(9)\n"
    app.write_text(app.read_text() + crash)
    with served(tmp_path, **config, stop={"versions": 1}) as server:

        async def both() -> None:
            evaluator = asyncio.create_task(
                keep_evaluating(server.config, tmp_path, server.operator_socket)
            )
            measured = asyncio.to_thread(
                until, lambda: server.lines("evaluated"), "it measures"
            )
            await measured
            await asyncio.to_thread(still_serves, server)
            evaluator.cancel()
            await asyncio.wait([evaluator])

        asyncio.run(both())
        assert mark.exists()
        assert server.lines("evaluated")[0]["values"] == {"accuracy": 0.5}


def test_an_evicted_evaluator_is_not_started_again_and_again(tmp_path: Path) -> None:
    config = with_app(tmp_path, "{'accuracy': 0.5}")
    with served(tmp_path, **config) as server:
        with Peer(server.operator_socket, EVALUATOR):
            request = pb.OperateRequest(act=pb.ACT_EVICT, name=EVALUATOR)
            operate(str(server.config.server.journal), request)
        evaluated(server, tmp_path)
        assert not server.lines("evaluated")
        still_serves(server)


def test_the_evaluator_computes_where_the_config_says(tmp_path: Path) -> None:
    config = with_app(tmp_path, "{'accuracy': 0.5}")
    with served(tmp_path, **config, evaluate={"device": "cuda"}) as server:
        evaluated(server, tmp_path)  # it ends: no use in trying again
        assert not server.lines("evaluated")
        still_serves(server)


def test_a_device_that_is_here_is_told_to_the_evaluator(tmp_path: Path) -> None:
    config = with_app(tmp_path, "{'accuracy': 0.5}")
    evaluate = {"device": "auto"}
    with served(tmp_path, **config, evaluate=evaluate, stop={"versions": 1}) as server:

        async def measuring() -> None:
            evaluator = asyncio.create_task(
                keep_evaluating(server.config, tmp_path, server.operator_socket)
            )
            await asyncio.to_thread(
                until, lambda: server.lines("evaluated"), "it measures"
            )
            evaluator.cancel()
            await asyncio.wait([evaluator])

        asyncio.run(measuring())


def test_an_app_that_cannot_evaluate_is_left_alone(tmp_path: Path) -> None:
    config = with_app(tmp_path, "{}", data="None")
    with served(tmp_path, **config) as server:
        evaluated(server, tmp_path)
        still_serves(server)


@pytest.mark.needs("flwr")
def test_a_flower_app_without_a_central_evaluation_is_told_in_a_sentence(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = f"flower:{tiny(tmp_path)}"
    with served(tmp_path, app=app) as server:
        evaluated(server, tmp_path)
    [said] = [r.getMessage() for r in caplog.records if "evaluator" in r.getMessage()]
    assert said == (
        f"the evaluator ended, and does not start again: app {app!r} has no "
        "evaluate_fn in its ServerApp, so that only its clients can evaluate "
        "(evaluate: {clients: true})"
    )


def test_a_model_is_made_from_the_app_once(tmp_path: Path) -> None:
    config = settings(tmp_path, **with_app(tmp_path, "{}"))
    config.model.unlink()
    make_model(config, tmp_path)
    made = config.model.read_bytes()
    make_model(config, tmp_path)
    assert config.model.read_bytes() == made


def test_a_new_run_makes_the_model_that_it_begins_with(tmp_path: Path) -> None:
    config = settings(tmp_path, **with_app(tmp_path, "{}"))
    config.model.unlink()
    with fit_model(config, tmp_path) as begins_with:
        assert begins_with == config.model
        assert config.model.is_file()


def test_a_server_without_fedclient_says_what_it_cannot_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("fedserver.children.find_spec", lambda name: None)
    config = settings(tmp_path, **with_app(tmp_path, "{}"))
    check_model(config, tmp_path)
    (said,) = caplog.messages
    assert "is not compared with the app: app: this server has no fedclient" in said
    config.model.unlink()
    with pytest.raises(ConfigError, match="no fedclient beside it"):
        make_model(config, tmp_path)


def test_a_model_without_an_app_is_compared_with_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    check_model(settings(tmp_path), tmp_path)
    assert not caplog.messages


TWO = """
import numpy as np
from fedcore.workload import Workload

workload = Workload(
    initial=lambda rng: {"w": np.zeros((3, 2)), "b": np.zeros(2)},
    gradient=lambda params, x, y: (0.0, params),
    train_data=lambda client: (np.zeros((8, 3)), np.zeros(8, np.int64)),
)
"""
PLAIN = {
    "b": np.array([1, 2], np.float16),
    "w": np.array([[1, 2], [3, 4], [5, 6]], np.float16),
}


def of_another_program(folder: Path, arrays: dict[str, Any] = PLAIN) -> Any:
    """A config whose app has two tensors, and a checkpoint of another program."""
    (folder / "two.py").write_text(TWO)
    config = settings(folder, app="two.py:workload")
    save_file(arrays, config.model)
    return config


def test_a_run_begins_with_another_programs_checkpoint_in_the_apps_order(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = of_another_program(tmp_path)
    with fit_model(config, tmp_path) as begins_with:
        assert begins_with != config.model
        open_run(config, 0.0, durable=False, model=begins_with).journal.close()
    assert not begins_with.exists()
    assert caplog.messages == [f"{config.model}: float16 becomes float32"]
    run = open_run(config, 1.0, durable=False)  # it goes on, with the file as it was
    names = [tensor.name for tensor in run.coordinator.algorithm.spec.tensors]
    assert names == ["w", "b"]
    assert run.coordinator.state.exact_D.tolist() == [1, 2, 3, 4, 5, 6, 1, 2]
    run.journal.close()
    with fit_model(config, tmp_path) as goes_on:
        assert goes_on == config.model  # nothing is compared any more
    save_file(PLAIN | {"b": np.ones(2, np.float16)}, config.model)
    for compares in (
        lambda: open_run(config, 2.0, durable=False),
        lambda: check_model(config, tmp_path),
    ):
        with pytest.raises(SpecMismatchError, match="is not the model that this run b"):
            compares()


def test_a_file_of_another_model_is_told_before_a_run_begins(tmp_path: Path) -> None:
    config = of_another_program(tmp_path, {"b": PLAIN["b"], "w": PLAIN["w"].T.copy()})
    sentence = (
        f"{config.model} and the app's model differ: tensor 'w' should have shape "
        "[3, 2], has [2, 3]"
    )
    for compares in (
        lambda: check_model(config, tmp_path),
        lambda: fit_model(config, tmp_path).__enter__(),
    ):
        with pytest.raises(WorkloadError) as caught:
            compares()
        assert str(caught.value) == sentence
    assert not [each for each in tmp_path.iterdir() if each.name.startswith(".model")]


def test_a_checkpoint_that_cannot_be_compared_is_told_to_have_its_own_order(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = of_another_program(tmp_path)
    (tmp_path / "two.py").unlink()
    check_model(config, tmp_path)
    missing, order = caplog.messages
    assert "is not compared with the app: app" in missing
    assert missing.endswith("no such file")
    assert "clients whose app has another order are refused; fedclient model" in order


def test_an_app_that_raises_is_the_users_with_its_traceback(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    config = settings(tmp_path, **with_app(tmp_path, "{}"))
    config.model.unlink()
    app = "from latecomer import Workload\n\ndef initial(rng):\n    return 1 / 0\n\n"
    app += "workload = Workload(initial=initial, gradient=print, train_data=print)\n"
    (tmp_path / "app.py").write_text(app)
    with pytest.raises(UserCodeError, match=r"made no model: initial raised Z") as e:
        make_model(config, tmp_path)
    assert exit_code(e.value) == 70
    assert "error:" not in str(e.value)
    said = capfd.readouterr().err
    assert "return 1 / 0" in said
    assert "error: " not in said


def test_an_app_that_fails_makes_no_model(tmp_path: Path) -> None:
    config = settings(tmp_path, **with_app(tmp_path, "{}"))
    config.model.unlink()
    (tmp_path / "app.py").write_text("1 / 0")
    with pytest.raises(WorkloadError, match=r"made no model: .*division by zero") as e:
        make_model(config, tmp_path)
    assert exit_code(e.value) == 65


def test_a_process_that_is_killed_makes_no_model_and_is_no_error_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = [sys.executable, "-c", "import os; os._exit(137)"]
    monkeypatch.setattr("fedserver.children._fedclient", lambda: killed)
    config = settings(tmp_path, app="app.py:workload")
    config.model.unlink()
    with pytest.raises(WorkloadError, match="made no model") as e:
        make_model(config, tmp_path)
    assert exit_code(e.value) == 65


def test_without_app_and_model_the_command_that_makes_one_is_told(
    tmp_path: Path,
) -> None:
    config = settings(tmp_path)
    config.model.unlink()
    with pytest.raises(
        ConfigError, match="no app to make it from; run: fedclient"
    ) as e:
        make_model(config, tmp_path)
    assert exit_code(e.value) == 78
