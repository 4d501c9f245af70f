"""Ctrl-C in ``fedsim run``: status 0, and one hint that works as it stands."""

import os
import shlex
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from fedsim.cli.project import make_project
from fedview.results import Results
from tests.fedsim.cli.test_run import NEEDS
from tests.fedsim.toys import APP, write

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[3]
KEPT = (
    "--set",
    "evaluate.every_versions=4",
    "--set",
    "stop.versions=11",
    "--set",
    "stop.target={accuracy: 2}",
)
ONCE = """
import os as _os, signal as _signal
from pathlib import Path as _Path


def _interrupt():
    if not _Path("interrupted").exists():
        _Path("interrupted").touch()
        _os.kill(_os.getpid(), _signal.SIGINT)

"""
# What is appended to the app: it is interrupted while it is imported, while it is asked
# for data, or later, in an evaluation.
MOMENTS = {
    "import": "_interrupt()\n",
    "data": """
_inner = workload.train_data


def _train_data(client):
    if client.index == 5:
        _interrupt()
    return _inner(client)


object.__setattr__(workload, "train_data", _train_data)
""",
    "evaluation": """
_times = []
_name = "metrics" if hasattr(workload, "loss") else "evaluate"
_wrapped = getattr(workload, _name)


def _measure(*given):
    _times.append(1)
    if len(_times) == 3:
        _interrupt()
    return _wrapped(*given)


object.__setattr__(workload, _name, _measure)
""",
}


def simulate(*words: str) -> "subprocess.CompletedProcess[str]":
    """A user's command, in the folder where we are."""
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'protos'}"}
    return subprocess.run(
        [sys.executable, "-m", *words], capture_output=True, text=True, env=env
    )


def hint(done: "subprocess.CompletedProcess[str]") -> list[str]:
    """What is to be typed next: the last line says it, and no other one."""
    assert done.returncode == 0, done.stderr
    *others, last = done.stderr.splitlines()
    assert not [line for line in others if "fedsim" in line or "Traceback" in line]
    command = last.rpartition(": fedsim run ")[2]
    return ["fedsim", "run", *shlex.split(command)]


@pytest.mark.parametrize(
    ("kind", "moment"),
    [
        ("numpy", "import"),
        ("torch", "data"),
        ("numpy", "evaluation"),
        ("sklearn", "evaluation"),
        ("torch", "evaluation"),
    ],
)
def test_the_hint_keeps_the_settings_and_works(
    kind: str, moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not find_spec(NEEDS[kind]):
        pytest.skip(f"{kind} is not installed")
    for _ in make_project(tmp_path / "project", kind):
        pass
    monkeypatch.chdir(tmp_path / "project")
    with Path("my_app.py").open("a", encoding="utf-8") as app:
        app.write(ONCE + MOMENTS[moment])
    words = hint(simulate("fedsim", "run", "federation.yaml", "--no-report", *KEPT))
    assert Path("interrupted").exists()
    for word in (*KEPT, "--no-report"):
        assert word in words
    assert ("--resume" in words) == (moment == "evaluation")
    done = simulate(*words)
    assert done.returncode == 0, done.stderr
    folder = max(Path("runs").iterdir())
    assert Results(folder).summary["versions"] == 11


def test_where_a_run_cannot_go_on_the_hint_names_a_folder_that_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(config="evaluate: {every_versions: 2}\n")
    assert simulate("fedsim", "run", "fed.yaml", "-o", "recorded").returncode == 0
    write(APP + ONCE + MOMENTS["evaluation"], "evaluate: {every_versions: 2}\n")
    replay = ("--set", "simulate={arrivals: recorded}")
    (tmp_path / "here-2").mkdir()
    words = hint(simulate("fedsim", "run", "fed.yaml", "-o", "here", *replay))
    assert words[-2:] == ["--out", "here-3"]
    assert simulate(*words).returncode == 0
    assert Results(Path("here-3")).summary["ended"] == "6 versions"


def test_after_the_run_the_hint_is_how_to_look_at_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write()
    program = (
        "import signal, fedsim.cli.run\n"
        "def interrupted(folder): signal.raise_signal(signal.SIGINT)\n"
        "fedsim.cli.run.write_report = interrupted\n"
        "from fedsim.cli import main\n"
        "main(['run', 'fed.yaml', '-o', 'here'])\n"
    )
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'protos'}"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=env
    )
    assert done.returncode == 0
    last = done.stderr.splitlines()[-1]
    assert last == ("interrupted after the run; to look at it: fedserver report here")
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
