"""What tests cost is told by file and by test."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import costs

ROOT = Path(__file__).parents[2]


def test_the_dearest_come_first_by_file_and_by_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        {"test": "a.py::test_one[x::y]", "seconds": 1.0, "cpu": 0.5},
        {"test": "b.py::test_two", "seconds": 2.5, "cpu": 0.25},
        {"test": "a.py::test_three", "seconds": 2.0, "cpu": 2.0},
    ]
    file = tmp_path / "costs.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    monkeypatch.setattr(sys, "argv", ["tools.costs", str(file), "--rows", "2"])
    costs.main()
    told = [line.split() for line in capsys.readouterr().out.splitlines() if line]
    assert told == [
        ["seconds", "CPU", "tests", "by", "file"],
        ["3.0", "2.5", "2", "a.py"],
        ["2.5", "0.2", "1", "b.py"],
        ["seconds", "CPU", "tests", "by", "test"],
        ["2.5", "0.2", "1", "b.py::test_two"],
        ["2.0", "2.0", "1", "a.py::test_three"],
        ["5.5", "2.8", "3", "all"],
    ]


@pytest.mark.processes
def test_a_run_notes_the_cpu_of_its_tests_and_of_what_they_started(
    tmp_path: Path,
) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text(
        "import subprocess, sys\n"
        "WORK = 'import time\\nwhile time.process_time() < 0.3: pass'\n"
        "def test_of_a_child():\n"
        "    subprocess.run([sys.executable, '-c', WORK], check=True)\n"
        "def test_of_nothing():\n"
        "    pass\n"
    )
    file = tmp_path / "costs.jsonl"
    words = [sys.executable, "-m", "pytest", "-p", "tools.costs", "-q"]
    subprocess.run(
        [*words, "--costs", str(file), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )
    child, nothing = map(json.loads, file.read_text().splitlines())
    assert child["test"] == "test_it.py::test_of_a_child"
    assert child["cpu"] > 0.2 > nothing["cpu"]
