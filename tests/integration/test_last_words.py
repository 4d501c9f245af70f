"""Servers whose app does its worst: they end all the same, and hear every signal."""

import os
import signal
from pathlib import Path

import pytest

from tests.integration.conftest import Make
from tests.integration.test_evaluator import children_of, is_alive

APP = """
import os, signal, time
from fedcore.workload import Workload
from fedrun.data import digits
from tests.integration import numpy_app

def deaf():
    for which in signal.SIGTERM, signal.SIGINT:
        signal.signal(which, signal.SIG_IGN)
    open("deaf", "w").close()
    time.sleep(90)

def initial(rng):
    {initial}
    return numpy_app.initial(rng)

def evaluate(params, x, y):
    {evaluate}

workload = Workload(
    initial=initial,
    gradient=numpy_app.gradient,
    evaluate=evaluate,
    train_data=numpy_app.train_data,
    test_data=lambda: digits("test"),
)
"""
SOON = 20.0  # where it took minutes


def app(folder: Path, initial: str = "pass", evaluate: str = "pass") -> str:
    """An app whose functions begin with this."""
    file = folder / "bad_app.py"
    file.write_text(APP.format(initial=initial, evaluate=evaluate))
    return f"{file}:workload"


def test_the_server_of_an_ended_run_ends_although_its_evaluator_dies_each_time(
    federation: Make, tmp_path: Path
) -> None:
    settings = {"kind": "fed_buff", "buffer": 1, "client": {"kind": "local_sgd"}}
    fed = federation(
        app=app(tmp_path, evaluate="os._exit(4)"),
        algorithm=settings,
        stop={"versions": 2},
    )
    server = fed.server()
    died = "the evaluator ended, and starts again: its status is 4"
    fed.wait_until(lambda: died in server.log.read_text(), "the evaluator dies")
    client = fed.client(0, 1)
    assert client.wait() == 0
    assert server.wait(SOON) == 0


def test_the_server_of_an_ended_run_hears_ctrl_c_while_its_evaluator_hears_nothing(
    federation: Make, tmp_path: Path
) -> None:
    settings = {"kind": "fed_buff", "buffer": 1, "client": {"kind": "local_sgd"}}
    fed = federation(
        app=app(tmp_path, evaluate="deaf()"),
        algorithm=settings,
        stop={"versions": 1},
        timeouts={"linger": 0.0},
    )
    server, client = fed.server(), fed.client(0, 1)
    assert client.wait() == 0
    fed.wait_until((fed.folder / "deaf").exists, "the evaluator hears nothing")
    [evaluator] = children_of(server)
    assert server.is_running
    assert server.process is not None
    os.kill(server.process.pid, signal.SIGINT)
    assert server.wait(SOON) == 0
    assert not is_alive(evaluator)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_server_that_makes_its_model_hears_sigterm_and_leaves_no_process(
    federation: Make, tmp_path: Path
) -> None:
    slow = "open('slow', 'w').close(); time.sleep(90)"
    fed = federation(app=app(tmp_path, initial=slow))
    server = fed.server(wait=False)
    fed.wait_until((fed.folder / "slow").exists, "the model is being made")
    [maker] = children_of(server)
    assert server.process is not None
    os.kill(server.process.pid, signal.SIGTERM)
    assert server.wait(SOON) == 0
    assert not is_alive(maker)
    assert "the same command resumes" in server.tail()
