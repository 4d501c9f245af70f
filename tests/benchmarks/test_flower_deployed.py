"""What the comparison beside Flower kills and weighs, with processes of its own."""

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.flower.processes import end
from benchmarks.flower.report import deployed_table
from benchmarks.flower.watched import Memory, descendants
from fedcore.typing import JSON
from tests.patience import until

SLEEPS = "import time; time.sleep(60)"
# A child in a session of its own: a signal to the parent's group does not reach it.
STARTS = (
    "import subprocess, sys\n"
    f"words = [sys.executable, '-c', {SLEEPS!r}, 'a-child']\n"
    "child = subprocess.Popen(words, start_new_session=True)\n"
    "print(child.pid, flush=True)\n"
    "child.wait()\n"
)


def family() -> tuple[subprocess.Popen[bytes], int]:
    """Starts a process with a child; returns it, and the child's id."""
    words = [sys.executable, "-c", STARTS, "a-parent"]
    parent = subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True)
    assert parent.stdout is not None
    with parent.stdout as told:
        return parent, int(told.readline())


def is_running(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_a_killed_process_takes_along_what_it_started() -> None:
    parent, child = family()
    assert [*descendants(parent.pid)] == [parent.pid, child]
    assert os.getsid(child) == child
    end(parent)
    until(lambda: not is_running(child), "the child ends")


def test_memory_is_told_by_the_kind_of_process() -> None:
    parent, _ = family()
    try:
        with Memory(parent.pid, {"a-parent": "parent", "a-child": "child"}) as memory:
            until(lambda: len(memory.most) == 2, "both are seen")
        assert memory.most.keys() == {"parent", "child"}
        assert all(1 < megabytes < 1000 for megabytes in memory.most.values())
    finally:
        end(parent)


def test_the_table_tells_what_was_seen_and_no_more() -> None:
    way: JSON = {
        "first result": 1.0,
        "updates": 2,
        "per second": 3.0,
        "bytes": {"up": 8, "down": 4000},
        "memory": {"server": 5.0},
        "accuracy": 0.5,
        "target": {"seconds": 10.0, "bytes": 11_000},
        "node killed": {"waited": 6.0, "results": [1, 2], "failures": [1, 0]},
        "server killed": {"before": 7, "back": None, "status": "lost", "watched": 9},
    }
    table = "\n".join(deployed_table({"ways": {"one": way}}))
    assert "| bytes an update, from the server | 2,000 |" in table
    assert "| `lost` after 7 rounds |" in table
    assert "| none |" in table
