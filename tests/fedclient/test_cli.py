"""The command line: mistakes are answered with a sentence and a status."""

import logging
import signal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fedclient.cli import main
from fedclient.state.store import ClientStore
from tests.served import Served

APP = """
import numpy as np
from fedcore.workload import Workload

workload = Workload(
    initial=lambda rng: {"w": np.zeros(100)},
    gradient=lambda params, x, y: (0.0, {"w": params["w"] - 1}),
    train_data=lambda client: (np.zeros((8, 1)), np.zeros(8, np.int64)),
)
"""


@pytest.fixture
def app(tmp_path: Path) -> str:
    """A workload that fits the servers of the tests."""
    (tmp_path / "app.py").write_text(APP)
    return f"{tmp_path / 'app.py'}:workload"


def command(*words: Any) -> Result:
    """A command of the client."""
    return CliRunner().invoke(main, [str(word) for word in words])


def join(host: str, app: str, state: Path, *more: Any) -> Result:
    """Joins a federation, and does not wait for it."""
    options = ("--app", app, "--state", state, "--give-up", 0, *more)
    return command("join", host, *options)


def failed(done: Result, status: int, words: str) -> None:
    """One sentence, and whose fault it is."""
    assert done.exit_code == status, done.output
    assert words in done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1


def test_a_device_is_taken_or_refused_in_a_sentence(
    server: Served, app: str, tmp_path: Path
) -> None:
    failed(
        join(server.address, app, tmp_path / "ann", "--device", "cuda"),
        78,
        "device cuda: this workload's own functions say where they compute",
    )
    done = join(
        server.address, app, tmp_path / "bob", "--device", "auto", "--updates", 1
    )
    assert done.exit_code == 0, done.output
    assert server.state.version == 1


TORCH_APP = f"{Path(__file__).parents[1] / 'integration' / 'frozen_app.py'}:workload"


def test_a_model_is_evaluated_on_the_device_that_is_named(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    model = tmp_path / "model.safetensors"
    assert command("model", "--app", TORCH_APP, "-o", model).exit_code == 0
    plain, best = (
        command("evaluate-file", "--app", TORCH_APP, model, *words)
        for words in ((), ("--device", "auto"))
    )
    assert plain.exit_code == best.exit_code == 0
    if not torch.cuda.is_available():
        assert best.output == plain.output
        done = command("evaluate-file", "--app", TORCH_APP, model, "--device", "cuda")
        failed(done, 78, "finds none on this machine; it finds cpu")
    done = command("evaluate-file", "--app", TORCH_APP, model, "--device", "gpu")
    failed(done, 78, "device 'gpu': expected cpu, cuda, cuda:1, mps, or auto")


def test_a_client_joins_works_and_leaves(
    server: Served, app: str, tmp_path: Path
) -> None:
    state = tmp_path / "ann"
    done = join(server.address, app, state, "--updates", 2, "--name", "ann")
    assert done.exit_code == 0, done.output
    assert server.state.version == 2
    done = command("leave", server.address, "--app", app, "--state", state)
    assert done.exit_code == 0, done.output


def test_whoever_listened_to_signals_before_a_command_listens_again(
    app: str, tmp_path: Path
) -> None:
    """Else a later Ctrl-C would end the process that called the command."""
    both = (signal.SIGINT, signal.SIGTERM)
    before = list(map(signal.getsignal, both))
    join("127.0.0.1:1", app, tmp_path / "ann")
    assert list(map(signal.getsignal, both)) == before


@pytest.mark.parametrize(
    ("host", "more", "status", "words"),
    [
        ("here:x", (), 78, "here:x: expected HOST or HOST:PORT"),
        ("here", ("--index", 2, "--count", 2), 78, "--index 2 of --count 2"),
        ("here", ("--data", "x"), 78, "--data x: expected key=value"),
        ("here", ("--certificate", "c.pem"), 78, "--certificate and --key belong"),
        ("here", ("--ca", "no.pem"), 78, "no.pem: No such file or directory"),
        ("127.0.0.1:1", (), 69, "127.0.0.1:1 does not answer"),
    ],
)
def test_what_cannot_be_is_told(
    app: str, tmp_path: Path, host: str, more: Any, status: int, words: str
) -> None:
    failed(join(host, app, tmp_path / "ann", *more), status, words)


def test_a_state_in_use_is_told(server: Served, app: str, tmp_path: Path) -> None:
    store = ClientStore(tmp_path / "ann")
    done = join(server.address, app, tmp_path / "ann")
    failed(done, 74, "is in use by another client (process")
    store.close()


def test_a_damaged_state_is_told(server: Served, app: str, tmp_path: Path) -> None:
    (tmp_path / "ann").mkdir()
    (tmp_path / "ann" / "state.sqlite3").write_bytes(b"no database, " * 1000)
    done = join(server.address, app, tmp_path / "ann")
    failed(done, 74, "state.sqlite3 is damaged: file is not a database")


def test_a_model_that_does_not_fit_is_told(
    server: Served, app: str, tmp_path: Path
) -> None:
    other = tmp_path / "other.py"
    other.write_text(APP.replace("zeros(100)", "zeros(99)"))
    done = join(server.address, f"{other}:workload", tmp_path / "ann")
    failed(done, 77, "tensor 'w' should have shape [100], has [99]")


def test_plain_text_beyond_this_machine_needs_a_word(
    server: Served, app: str, tmp_path: Path
) -> None:
    _, _, port = server.address.rpartition(":")
    elsewhere = f"0.0.0.0:{port}"  # reaches this machine, and does not say so
    done = join(elsewhere, app, tmp_path / "ann")
    assert done.exit_code in (69, 77), done.output
    assert "error: " in done.stderr
    done = join(elsewhere, app, tmp_path / "ann", "--plaintext", "--updates", 1)
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("words", "level"),
    [((), logging.INFO), (("-q",), logging.WARNING), (("-v",), logging.DEBUG)],
)
def test_a_client_logs_as_much_as_it_is_told_to(
    app: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    level: int,
) -> None:
    levels: list[int] = []

    def log(level: int, *_: Any, **__: Any) -> None:
        levels.append(level)

    monkeypatch.setattr("fedclient.interruption.log_printable", log)
    failed(join("127.0.0.1:1", app, tmp_path / "ann", *words), 69, "does not answer")
    assert levels == [level]
