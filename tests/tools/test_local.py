import signal
from pathlib import Path

import pytest

from tools.local import Child, LocalFederation


def child(folder: Path, *words: str) -> Child:
    """A process of the shell."""
    return Child("shell", ["/bin/sh", "-c", *words], folder, {"WORD": "hello"})


def test_a_child_writes_its_log_and_is_waited_for(tmp_path: Path) -> None:
    shell = child(tmp_path, 'echo "{\\"said\\": \\"$WORD\\"}"; echo text; exit 3')
    shell.start()
    assert shell.wait() == 3
    assert not shell.is_running
    assert shell.lines() == [{"said": "hello"}]
    assert shell.tail(1) == "text"


def test_a_child_can_be_killed_and_started_again(tmp_path: Path) -> None:
    shell = child(tmp_path, 'echo "{}"; exec sleep 60')
    for number in (1, 2):
        shell.start()
        assert shell.is_running
        shell.kill()
        assert shell.wait() == -signal.SIGKILL
        assert (shell.starts, shell.kills) == (number, number)


def test_a_child_that_does_not_end_is_told_with_its_log(tmp_path: Path) -> None:
    shell = child(tmp_path, "echo busy; exec sleep 60")
    shell.start()
    try:
        with pytest.raises(AssertionError, match=r"shell did not end in 0\.2 s:"):
            shell.wait(0.2)
    finally:
        shell.kill()


def test_waiting_for_what_never_happens_shows_all_logs(tmp_path: Path) -> None:
    config = {"server": {"journal": "run"}}
    with LocalFederation(tmp_path, config, app="app.py:workload") as federation:
        federation.children["shell"] = shell = child(tmp_path, "echo busy")
        shell.start()
        shell.wait()
        with pytest.raises(AssertionError, match="not within 0 s: a miracle") as caught:
            federation.wait_until(lambda: False, "a miracle", 0.0)
        assert "busy" in str(caught.value)
        assert federation.run == tmp_path / "run"
