"""Ctrl-C while a command is imported: one sentence, and no traceback."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from fedrun.cli import entry
from tests.imports import imported_by
from tests.patience import PATIENCE

pytestmark = pytest.mark.processes

SLOW = """
import time
print("imports", flush=True)
try:
    time.sleep(60)
except BaseException as error:
    raise ImportError("numpy is broken") from error
"""


def command(name: str, folder: Path) -> "subprocess.Popen[str]":
    """A command whose imports take long; ``click`` comes from the folder."""
    (folder / "click.py").write_text(SLOW)
    before = os.environ.get("PYTHONPATH", "")
    env = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{before}"}
    return subprocess.Popen(
        [sys.executable, "-m", name, "--help"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
    )


@pytest.mark.parametrize("name", ["fedserver", "fedclient", "fedsim"])
def test_an_interruption_of_the_imports_is_one_sentence(
    name: str, tmp_path: Path
) -> None:
    process = command(name, tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "imports\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE)
    assert (process.returncode, said) == (1, entry.SENTENCE.decode())


@pytest.mark.quick
def test_after_the_imports_an_interruption_is_the_commands_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(
        "import signal\n"
        "during = signal.getsignal(signal.SIGINT)\n"
        "def main():\n"
        "    raise SystemExit(signal.getsignal(signal.SIGINT) is not during)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(SystemExit) as ended:
        entry.start("mine")
    assert ended.value.code is True
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.quick
def test_an_ignored_interruption_stays_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deaf.py").write_text(
        "import signal\n"
        "during = signal.getsignal(signal.SIGINT)\n"
        "def main():\n"
        "    raise SystemExit(during is signal.SIG_IGN)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(SystemExit) as ended:
            entry.start("deaf")
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.value.code is True


def started(code: str, folder: Path, **env: str) -> "subprocess.Popen[bytes]":
    """A command that does this, and then ends."""
    (folder / "mine.py").write_text(f"def main():\n{textwrap.indent(code, '    ')}")
    run = "from fedrun.cli import entry; entry.PATIENCE = .05; entry.start('mine')"
    before = os.environ.get("PYTHONPATH", "")
    return subprocess.Popen(
        [sys.executable, "-c", run],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **env, "PYTHONPATH": f"{folder}{os.pathsep}{before}"},
    )


def test_a_terminal_that_cannot_show_a_character_shows_another(tmp_path: Path) -> None:
    code = "import sys\nprint('λ is 1')\nprint('½', file=sys.stderr)\n"
    process = started(code, tmp_path, PYTHONIOENCODING="ascii:strict")
    assert process.communicate(timeout=PATIENCE) == (b"? is 1\n", b"?\n")


def test_a_thread_of_the_app_that_does_not_end_is_named(tmp_path: Path) -> None:
    code = (
        "import threading, time\n"
        "threading.Thread(target=lambda: time.sleep(60), name='upload').start()\n"
        "raise SystemExit(3)\n"
    )
    process = started(code, tmp_path)
    assert process.stderr is not None
    said = process.stderr.readline()
    assert said == b"the command has ended, and waits for threads of the app: upload\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=PATIENCE) == (b"", b"")
    assert process.returncode == -signal.SIGINT


@pytest.mark.parametrize("package", ["fedclient", "fedserver", "fedsim"])
def test_a_command_that_computes_nothing_imports_nothing_heavy(package: str) -> None:
    heavy = {"grpc", "numpy", "plotly", "pydantic", "torch"}
    assert imported_by(f"{package}.cli", heavy) == set()
