"""Mistakes on the command line, in the user's file, and between two machines."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import trustme

import latecomer
from fedcore.errors import JournalError
from fedview.results import Results
from tests.fedsim import toys
from tests.integration.typed import WORKLOAD, desk, typed
from tests.patience import PATIENCE
from tests.served import Served, served, settings, until
from tools.local import LocalFederation

APP = """
import numpy as np
from fedcore.workload import Workload

def initial(rng):
    return {"w": np.zeros(100)}

def gradient(params, x, y):
    error = x @ params["w"] - y
    return float((error**2).mean()), {"w": x.T @ error / len(y)}

def train_data(client):
    return np.ones((8, 100), np.float32), np.ones(8, np.float32)
"""
WORKLOAD_OF = """
workload = Workload(initial=initial, gradient=gradient, train_data=train_data{more})
"""
Make = Callable[..., LocalFederation]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr("fedclient.work.membership.AFTER_FAILURE", 0.0)
    with desk(tmp_path, monkeypatch) as here:
        yield here


def app(changes: str = "", more: str = "") -> str:
    """A user's file with some of its functions written otherwise; its name."""
    Path("mine.py").write_text(APP + changes + WORKLOAD_OF.format(more=more))
    return "mine.py:workload"


def join(server: Served, app: str, *options: str, state: str = "state") -> Any:
    """A client's life, in this process."""
    return typed(
        *("fedclient", "join", server.address, "--app", app, "--state", state),
        *("--quiet", "--give-up", "5", *options),
    )


# -------------------------------------------------------------------- the app


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("no_such_app:workload", "", "app 'no_such_app': No module named"),
        ("none.py:workload", "", "/none.py: no such file"),
        ("mine", "", "app 'mine': expected module:attribute, file.py:attribute or"),
        (":workload", "", "expected module:attribute, file.py:attribute or"),
        (
            "mine.py:workload",
            "x = 1",
            "app 'mine.py:workload': 'workload' does not exist; it has no workload",
        ),
        (
            "mine.py:model",
            APP + WORKLOAD_OF.format(more=""),
            "app 'mine.py:model': 'model' does not exist; its workloads: workload",
        ),
        (
            "mine.py:initial",
            APP + WORKLOAD_OF.format(more=""),
            "app 'mine.py:initial': 'initial' is not a Workload; its workloads: "
            "workload",
        ),
        ("mine.py:workload", "import no_such_thing", "No module named 'no_such_thing'"),
        (
            "mine.py:workload",
            "def f(:",
            "cannot be imported: SyntaxError: invalid syntax (mine.py, line 1)",
        ),
        (
            "mine.py:workload",
            "raise RuntimeError('no luck')",
            "app 'mine.py' cannot be imported: RuntimeError: no luck",
        ),
        (
            "mine.py:workload",
            APP + WORKLOAD_OF.format(more=", train=gradient"),
            "a workload has exactly one of gradient= and train=",
        ),
    ],
)
def test_an_app_that_cannot_be_used_is_named_with_what_it_has(
    name: str, text: str, sentence: str
) -> None:
    Path("mine.py").write_text(text)
    assert sentence in typed("fedclient", "model", "--app", name).sentence(
        os.EX_DATAERR
    )


@pytest.mark.parametrize(
    "command",
    [
        ("fedclient", "model", "--app"),
        ("fedclient", "join", "127.0.0.1:1", "--state", "state", "--app"),
        ("fedclient", "evaluate", "127.0.0.1:1", "--app"),
        ("fedsim", "data", "--app"),
        ("fedsim", "run", "fed.yaml", "--set"),
    ],
    ids=" ".join,
)
def test_every_command_says_the_same_of_a_missing_app(
    command: tuple[str, ...], folder: Path
) -> None:
    Path("fed.yaml").write_text("stop: {versions: 1}")
    given = "app=none.py:workload" if "run" in command else "none.py:workload"
    sentence = typed(*command, given).sentence(os.EX_DATAERR)
    assert sentence == f"app {folder}/none.py: no such file"


def test_a_server_says_why_its_app_made_no_model(folder: Path) -> None:
    Path("fed.yaml").write_text("app: none.py:workload")
    sentence = typed("fedserver", "run", "fed.yaml").sentence(os.EX_DATAERR)
    assert sentence == (
        f"app 'none.py:workload' made no model: app {folder}/none.py: no such file"
    )


@pytest.mark.skipif(not find_spec("torch"), reason="torch is an extra")
def test_averaged_batch_statistics_are_warned_of_by_the_name_of_the_layer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    Path("net.py").write_text(
        "from torch import nn\n"
        "from fedtorch import TorchWorkload\n"
        "def model():\n"
        "    return nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5))\n"
        "workload = TorchWorkload(model=model, loss=nn.MSELoss(),\n"
        "                         train_data=lambda client: None)\n"
    )
    done = typed("fedclient", "model", "--app", "net.py:workload")
    assert done.status == 0
    assert caplog.text.count("layer '1' (BatchNorm1d) keeps batch statistics") == 1


@pytest.mark.parametrize(
    ("initial", "sentence"),
    [
        ("{}", "the model has no tensors to train"),
        (
            "{'w': np.zeros(3, int)}",
            "tensor 'w' has dtype int64; only floating-point tensors are trained",
        ),
    ],
)
def test_a_model_that_cannot_be_trained_is_refused(initial: str, sentence: str) -> None:
    mine = app(f"def initial(rng): return {initial}")
    assert (
        typed("fedclient", "model", "--app", mine).sentence(os.EX_DATAERR) == sentence
    )


# -------------------------------------------------- missing and unwritable files


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("fedserver", "report", "run"), "run: no journal here"),
        (("fedserver", "export", "run", "-o", "x"), "run: no journal here"),
        (("fedserver", "backup", "run", "copy"), "run: no journal here"),
        (("fedserver", "restore", "run", "other"), "run: no backup here"),
        (("fedserver", "journal", "show", "run"), "run: no journal here"),
        (("fedserver", "journal", "verify", "run"), "run: no journal here"),
        (("fedserver", "journal", "replay", "run"), "run: no journal here"),
        (
            ("fedserver", "journal", "export", "run", "-o", "csv"),
            "run: no journal here",
        ),
        (
            ("fedsim", "run", "fed.yaml", "--set", "simulate.arrivals=run"),
            "run: no journal here",
        ),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, tuple) else "",
)
def test_a_run_that_is_not_there_is_named(
    words: tuple[str, ...], sentence: str
) -> None:
    Path("fed.yaml").write_text(f"app: {WORKLOAD}\nstop: {{versions: 1}}")
    assert typed(*words).sentence(os.EX_IOERR).endswith(sentence)
    Path("run").mkdir()
    assert typed(*words).sentence(os.EX_IOERR).endswith(sentence)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "m.safetensors: no such file"),
        (b"junk", "m.safetensors: not a safetensors file: "),
        (b"", "m.safetensors: not a safetensors file: "),
        (b"\xff" * 64, "m.safetensors: not a safetensors file: "),
    ],
)
def test_a_model_file_that_cannot_be_read_is_named(
    content: bytes | None, sentence: str
) -> None:
    if content is not None:
        Path("m.safetensors").write_bytes(content)
    done = typed("fedclient", "evaluate-file", "--app", WORKLOAD, "m.safetensors")
    assert done.sentence(os.EX_DATAERR).startswith(sentence)


def test_a_model_file_of_another_model_is_refused_by_its_first_tensor() -> None:
    assert typed("fedclient", "model", "--app", WORKLOAD, "-o", "digits.st").status == 0
    mine = app("", ", test_data=lambda: train_data(None)")
    done = typed("fedclient", "evaluate-file", "--app", mine, "digits.st")
    assert done.sentence(os.EX_DATAERR) == (
        "digits.st and the federation's model differ: tensor 'w' should have shape "
        "[100], has [64, 10]"
    )


@pytest.mark.parametrize(
    ("options", "status", "sentence"),
    [
        (
            ["--set", "algorithm.buffr=3"],
            os.EX_CONFIG,
            "algorithm.buffr=3: unknown key; did you mean 'buffer'?",
        ),
        (
            ["--set", "algorithm.staleness.kind=late"],
            os.EX_CONFIG,
            "algorithm.staleness.kind=late: unknown staleness policy 'late'",
        ),
        (
            ["--without", "client-9"],
            os.EX_CONFIG,
            "--without client-9: no such client; there are client-0, client-1",
        ),
        (["-o", "file/in/it"], os.EX_IOERR, "file"),
    ],
)
def test_a_what_if_that_cannot_be_asked_is_refused(
    options: list[str], status: int, sentence: str, folder: Path
) -> None:
    Path("file").write_text("")
    config = toys.settings(simulate={"clients": 2}, stop={"versions": 2})
    latecomer.run(config, toys.toy(test_data=None), folder=folder / "run")
    done = typed("fedserver", "journal", "replay", "run", *options)
    assert done.sentence(status).startswith(sentence)


@pytest.mark.parametrize(
    "words",
    [
        ("fedclient", "model", "--app", WORKLOAD, "-o"),
        ("fedsim", "data", "--app", WORKLOAD, "--clients", "2", "-o"),
        ("fedsim", "new"),
        ("fedsim", "run", "fed.yaml", "--no-report", "-o"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_a_place_that_cannot_be_written_is_named(words: tuple[str, ...]) -> None:
    Path("fed.yaml").write_text(f"app: {WORKLOAD}\nstop: {{versions: 1}}")
    Path("file").write_text("")
    sentence = typed(*words, "file/in/it").sentence(os.EX_IOERR)
    assert sentence.startswith("file")
    assert sentence.endswith(("Not a directory", "File exists"))


def test_a_folder_in_the_place_of_a_model_file_is_named() -> None:
    done = typed("fedclient", "model", "--app", WORKLOAD, "-o", ".")
    assert done.sentence(os.EX_IOERR) == ".: Is a directory"
    assert not list(Path().iterdir())


def test_a_project_is_made_in_an_empty_folder_only() -> None:
    Path("full").mkdir()
    Path("full/file").write_text("mine")
    done = typed("fedsim", "new", "full")
    assert done.sentence(os.EX_CONFIG) == "full: is not empty; choose another folder"
    assert [path.name for path in Path("full").iterdir()] == ["file"]


# --------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--index", "3", "--count", "3"], "--index 3 of --count 3: it counts from 0"),
        (["--data", "path"], "--data path: expected key=value"),
        (["--data", "=x"], "--data =x: expected key=value"),
        (["--certificate", "c.pem"], "--certificate and --key belong together"),
        (["--ca", "none.pem"], "none.pem: No such file or directory"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    options: list[str], sentence: str
) -> None:
    done = typed(
        *("fedclient", "join", "127.0.0.1:1", "--app", WORKLOAD),
        *("--state", "state", "--give-up", "0", *options),
    )
    assert done.sentence(os.EX_CONFIG) == sentence


@pytest.mark.parametrize(
    "host", ["localhost:", "localhost:door", "localhost:0", "localhost:65536", ":8443"]
)
def test_an_address_is_a_host_and_a_port(host: str) -> None:
    sentence = typed("fedserver", "status", host).sentence(os.EX_CONFIG)
    assert sentence == f"{host}: expected HOST or HOST:PORT"


@pytest.mark.parametrize(
    ("words", "piece"),
    [
        (("fedclient", "jion"), "No such command 'jion'"),
        (("fedclient", "join"), "Missing argument 'HOST'"),
        (
            ("fedclient", "join", "h", "--state", "s"),
            "the app is missing: say --app MODULE:ATTRIBUTE, or --flower DIR",
        ),
        (
            (*("fedclient", "join", "h", "--app", "a:b", "--state", "s"), "--index=-1"),
            "-1 is not in the range",
        ),
        (
            (
                *("fedclient", "join", "h", "--app", "a:b", "--state", "s"),
                f"--index={2**32}",
            ),
            "is not in the range",
        ),
        (("fedsim", "new", "x", "--template", "jax"), "'jax' is not one of 'torch'"),
        (("fedsim", "data", "--app", "a:b", "--clients", "0"), "0 is not in the range"),
        (("fedserver", "export", "run", "-o", "x", "--which", "worst"), "'worst'"),
    ],
)
def test_a_misuse_of_a_command_is_answered_with_its_usage(
    words: tuple[str, ...], piece: str
) -> None:
    done = typed(*words)
    assert done.status == 2
    assert piece in done.err
    assert done.err.startswith("Usage: ")


# ------------------------------------------------------------- server and client


@pytest.mark.parametrize(
    "words",
    [
        ("fedserver", "status"),
        ("fedserver", "healthcheck"),
        ("fedclient", "join", "--app", WORKLOAD, "--state", "s", "--give-up", "0"),
        ("fedclient", "evaluate", "--app", WORKLOAD, "--state", "s", "--give-up", "0"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_a_server_that_is_not_there_is_named(words: tuple[str, ...]) -> None:
    sentence = typed(*words, "127.0.0.1:1").sentence(os.EX_UNAVAILABLE)
    assert sentence.startswith("127.0.0.1:1 does not answer: ")
    assert "Connection refused" in sentence


@pytest.mark.processes
def test_a_port_that_is_taken_is_named_and_nothing_stands_around_the_sentence(
    folder: Path, federation: Make
) -> None:
    with served(folder) as server:
        listen = {"listen": server.address, "journal": "run"}
        real = federation(server=listen)
        done = real.command("fedserver", "run", str(real.path))
    assert done.returncode == os.EX_UNAVAILABLE
    assert done.stderr == (
        f"error: cannot listen on {server.address}: the port is taken or the address "
        "is not this machine's (server.listen)\n"
    )


def test_a_model_that_differs_from_the_servers_is_refused_by_its_first_tensor(
    folder: Path,
) -> None:
    with served(folder) as server:
        longer = app("def initial(rng): return {'w': np.zeros(101)}")
        assert join(server, longer).sentence(os.EX_NOPERM) == (
            f"{server.address}: the client's model and the federation's model differ: "
            "tensor 'w' should have shape [100], has [101]"
        )
        Path("other.py").write_text(Path("mine.py").read_text().replace("'w'", "'v'"))
        sentence = join(server, "other.py:workload").sentence(os.EX_NOPERM)
        assert sentence.endswith("expected tensor 'w', found 'v'")
        assert not server.state.clients


def test_a_checkpoint_of_another_model_is_refused_by_its_first_tensor(
    folder: Path,
) -> None:
    assert typed("fedclient", "model", "--app", WORKLOAD, "-o", "digits.st").status == 0
    with served(folder) as server:
        done = join(server, app(), "--model", "digits.st")
    assert done.sentence(os.EX_DATAERR) == (
        "digits.st and the federation's model differ: tensor 'w' should have shape "
        "[100], has [64, 10]"
    )


def test_an_own_training_loop_cannot_do_what_needs_gradients(folder: Path) -> None:
    mine = app("train, gradient = gradient, None", ", train=train")
    prox = {"client": {"kind": "fed_prox", "mu": 0.1}}
    with served(folder, algorithm=prox) as server:
        sentence = join(server, mine).sentence(os.EX_CONFIG)
    assert sentence.startswith("client: fed_prox with these settings needs gradients")


def test_an_app_without_test_data_cannot_evaluate(folder: Path) -> None:
    with served(folder) as server:
        done = typed("fedclient", "evaluate", server.operator_socket, "--app", app())
    sentence = "app 'mine.py:workload' has no test_data= to evaluate on"
    assert done.sentence(os.EX_DATAERR) == sentence


# --------------------------------------------------------------- the user's data


@pytest.mark.parametrize(
    ("returned", "sentence"),
    [
        ("np.ones((0, 100)), np.ones(0)", "train_data returned no samples"),
        (
            "np.ones((3, 100)), np.ones(2)",
            "train_data returned 3 inputs and 2 targets",
        ),
        (
            "None",
            "train_data returned NoneType; expected (x, y), Subset(x, y, rows) or a "
            "data set with len() and [i]",
        ),
    ],
)
def test_data_that_cannot_be_trained_on_end_the_client(
    returned: str, sentence: str, folder: Path
) -> None:
    with served(folder) as server:
        done = join(server, app(f"def train_data(client): return {returned}"))
    assert done.sentence(os.EX_DATAERR) == f"5 times in a row: {sentence}"


def test_a_gradient_of_another_shape_is_refused_by_its_tensor(folder: Path) -> None:
    mine = app("def gradient(p, x, y): return 0.0, {'w': np.ones(99)}")
    with served(folder) as server:
        sentence = join(server, mine).sentence(os.EX_DATAERR)
    assert sentence.endswith("tensor 'w' should have shape [100], has [99]")


def test_a_client_with_one_sample_takes_part(folder: Path) -> None:
    one = "def train_data(client): return np.ones((1, 100)), np.ones(1)"
    with served(folder) as server:
        done = join(server, app(one), "--updates", "2")
        assert (done.status, done.errors) == (0, [])
        assert server.state.version == 2
    assert Results(server.config.server.journal).updates["samples"] == [1, 1]


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ("def gradient(p, x, y): return 1 / 0", "training"),
        ("def train_data(client): return 1 / 0", "train_data"),
    ],
)
def test_a_client_whose_code_raises_reports_it_and_the_federation_goes_on(
    changes: str, what: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedclient.work.membership.AFTER_FAILURE", 0.001)
    with served(folder) as server:
        failed = join(server, app(changes), state="failing")
        assert failed.status == os.EX_SOFTWARE
        assert failed.errors == [
            f"5 times in a row: {what} raised ZeroDivisionError: division by zero"
        ]
        assert 'mine.py", line' in failed.err  # where the user should look

        Path("sound.py").write_text(APP + WORKLOAD_OF.format(more=""))
        done = join(server, "sound.py:workload", "--updates", "2", state="sound")
        assert done.status == 0
        assert server.state.version == 2
        told = [line["error"] for line in server.lines("failed")]
        assert len(told) == 5
        assert all("ZeroDivisionError: division by zero" in text for text in told)


def test_a_client_whose_code_raised_for_a_while_takes_part_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedclient.work.membership.AFTER_FAILURE", 0.001)
    moody = app(
        "tries = []\n"
        "def train_data(client):\n"
        "    tries.append(client)\n"
        "    if len(tries) < 4:\n"
        "        raise TimeoutError('the disk sleeps')\n"
        "    return np.ones((8, 100)), np.ones(8)\n"
    )
    with served(folder) as server:
        assert join(server, moody, "--updates", "1").status == 0
        assert len(server.lines("failed")) == 3
        assert server.state.version == 1


def test_an_evaluator_whose_code_raises_says_where(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedclient.work.membership.AFTER_FAILURE", 0.001)
    mine = app(
        "def evaluate(params, x, y): return {'accuracy': x.nothing}",
        ", evaluate=evaluate, test_data=lambda: train_data(None)",
    )
    with served(folder) as server:
        words = (
            "fedclient",
            "evaluate",
            server.operator_socket,
            "--app",
            mine,
            "--quiet",
        )
        done = typed(*words)
    assert done.status == os.EX_SOFTWARE
    assert 'mine.py", line' in done.err
    assert done.errors == [
        "5 times in a row: evaluation raised AttributeError: 'numpy.ndarray' object "
        "has no attribute 'nothing'"
    ]


# ------------------------------------------------------------------------- trust


def write_pair(ca: trustme.CA, name: str, *identities: str) -> dict[str, str]:
    """A certificate with its key, in files."""
    leaf = ca.issue_cert(*identities)
    leaf.private_key_pem.write_to_path(f"{name}.key")
    chain = b"".join(blob.bytes() for blob in leaf.cert_chain_pems)
    Path(f"{name}.pem").write_bytes(chain)
    return {
        "certificate": str(Path.cwd() / f"{name}.pem"),
        "key": str(Path.cwd() / f"{name}.key"),
    }


@pytest.fixture
def ca() -> trustme.CA:
    """An authority, and its certificate in ca.pem; other.pem is of another one."""
    made = trustme.CA()
    made.cert_pem.write_to_path("ca.pem")
    trustme.CA().cert_pem.write_to_path("other.pem")
    return made


def test_a_server_of_another_authority_is_not_trusted(
    folder: Path, ca: trustme.CA
) -> None:
    tls = write_pair(ca, "server", "127.0.0.1")
    with served(folder, server={"tls": tls}) as server:
        address = server.address
        known = typed("fedserver", "healthcheck", address, "--ca", "ca.pem")
        assert (known.status, known.out) == (0, "serving\n")
        commands: list[tuple[str, ...]] = [
            ("fedserver", "healthcheck", address),
            ("fedserver", "status", address),
            ("fedclient", "join", address, "--app", WORKLOAD, "--state", "state"),
        ]
        for words in commands:
            sentence = typed(*words, "--ca", "other.pem").sentence(os.EX_NOPERM)
            assert sentence.startswith(
                f"{address}: no secure connection: the server's certificate is not "
                "trusted here"
            )
        assert not server.state.clients


def test_a_server_without_tls_is_not_spoken_to_with_tls(
    folder: Path, ca: trustme.CA
) -> None:
    with served(folder) as server:
        done = typed("fedserver", "status", server.address, "--ca", "ca.pem")
    assert "does not speak TLS" in done.sentence(os.EX_NOPERM)


def test_a_client_with_a_certificate_bears_its_name(
    folder: Path, ca: trustme.CA
) -> None:
    tls = write_pair(ca, "server", "127.0.0.1") | {"client_ca": "ca.pem"}
    mine = write_pair(ca, "mine", "device-7.example.org")
    shown = ["--certificate", mine["certificate"], "--key", mine["key"]]
    with served(folder, server={"tls": tls}) as server:
        nobody = typed("fedserver", "status", server.address, "--ca", "ca.pem")
        assert nobody.sentence(nobody.status).startswith(server.address)
        assert nobody.status in (os.EX_NOPERM, os.EX_UNAVAILABLE)
        options = ["--ca", "ca.pem", *shown, "--name", "boss", "--updates", "1"]
        assert join(server, app(), *options).status == 0
        names = [row.name for row in server.state.clients.values()]
    assert names == ["device-7.example.org"]


def test_tls_files_that_are_not_there_are_named(folder: Path) -> None:
    tls = {"certificate": "none.pem", "key": "none.key"}
    Path("fed.yaml").write_text(settings(folder, server={"tls": tls}).model_dump_json())
    sentence = typed("fedserver", "run", "fed.yaml", "--log", "json").sentence(
        os.EX_CONFIG
    )
    assert sentence.startswith("server.tls: ")
    assert sentence.endswith(": No such file or directory")


# ----------------------------------------------------------------------- signals

SIGNALS = [signal.SIGINT, signal.SIGTERM]


@pytest.mark.processes
@pytest.mark.parametrize("which", SIGNALS)
def test_a_server_and_a_client_that_are_stopped_end_with_0_and_say_how_to_go_on(
    which: signal.Signals, federation: Make
) -> None:
    real = federation()
    server = real.server("--no-evaluator")
    client = real.client(0, 1)
    real.wait_until(lambda: real_steps(real) > 0, "the first version")
    for child in (client, server):
        assert child.process is not None
        child.process.send_signal(which)
        assert child.wait(20) == 0, child.tail()
        assert "Traceback" not in child.log.read_text()
    assert "interrupted; the same command continues" in client.log.read_text()
    assert server.tail(1) == f"stopped; the same command resumes {real.run}"


def real_steps(real: LocalFederation) -> int:
    return sum(line.get("event") == "stepped" for line in real.events())


@pytest.mark.processes
@pytest.mark.parametrize("which", SIGNALS)
def test_a_client_that_waits_for_its_server_can_be_stopped(
    which: signal.Signals, federation: Make
) -> None:
    real = federation()
    client = real.client(0, 1, host="127.0.0.1:1")
    real.wait_until(lambda: "again in" in client.tail(), "it waits")
    assert client.process is not None
    client.process.send_signal(which)
    assert client.wait(10) == 0
    assert "Traceback" not in client.log.read_text()


@pytest.mark.processes
@pytest.mark.parametrize("which", [*SIGNALS, signal.SIGHUP])
def test_a_simulation_that_is_interrupted_can_go_on_and_be_looked_at(
    which: signal.Signals, folder: Path
) -> None:
    Path("fed.yaml").write_text(f"app: {WORKLOAD}\nstop: {{versions: 1000000}}")
    process = subprocess.Popen(
        [sys.executable, "-m", "fedsim", "run", "fed.yaml", "-o", "run"],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(which, signal.SIG_DFL),  # unless nohup runs us
    )
    until(lambda: versions(folder / "run") > 3, "some versions")
    process.send_signal(which)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert said.splitlines()[-1].endswith("fedsim run fed.yaml --resume run")
    assert Results(folder / "run").summary["ended"] is None


def versions(run: Path) -> int:
    time.sleep(0.05)
    try:
        return len(Results(run).versions.get("version", []))
    except JournalError:  # it is being made
        return 0
