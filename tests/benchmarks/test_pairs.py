"""Two states of the program in pairs, and what counts as slower."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path

import pytest

from benchmarks import pairs
from benchmarks.pairs import Measure, State, in_pairs, is_slower
from tests.patience import until

OLD, NEW = (State(name, Path(), Path()) for name in ("old", "new"))


@pytest.mark.parametrize(
    ("ratios", "slower"),
    [
        ([1.05, 1.04, 1.06, 1.05], True),
        ([1.02, 1.01, 1.03, 1.02], False),  # less than what is allowed
        ([1.4, 0.8, 1.3, 0.9], False),  # by chance
        ([0.7, 0.71, 0.69, 0.7], False),
        ([1.4], False),  # one pair tells nothing
    ],
)
def test_a_task_is_slower_by_more_than_chance(
    ratios: list[float], slower: bool
) -> None:
    assert is_slower(ratios) is slower


def test_pairs_take_turns() -> None:
    order = []

    @contextmanager
    def task(state: State) -> Iterator[Measure]:
        def measure() -> float:
            order.append(state.name)
            return {"old": 2.0, "new": 3.0}[state.name]

        yield measure

    assert in_pairs(task, OLD, NEW, 3, 9) == [1.5, 1.5, 1.5]
    assert order == ["new", "old", "old", "new", "new", "old"]


@pytest.mark.parametrize(
    ("seconds", "pairs"),
    [
        ([1.0], 3),  # certainly not slower
        ([1.1], 3),  # certainly slower
        ([1.06, 0.99, 1.03], 9),  # the interval holds both 1 and what is allowed
    ],
)
def test_pairs_are_added_until_they_tell(seconds: list[float], pairs: int) -> None:
    values = cycle(seconds)

    @contextmanager
    def task(state: State) -> Iterator[Measure]:
        yield lambda: 1.0 if state is OLD else next(values)

    assert len(in_pairs(task, OLD, NEW, 3, 9)) == pairs


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["HEAD", "C"], "no task 'C'; there are A, B, buffered"),
        (["nowhere"], "no commit 'nowhere'"),
        ([""], "no commit ''"),
    ],
)
def test_an_unknown_task_or_commit_is_one_error(
    words: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        pairs.main(words)
    assert error in capsys.readouterr().err


@pytest.mark.processes
@pytest.mark.parametrize("commit", ["HEAD", ""])
def test_a_state_runs_what_was_built_of_it(commit: str, tmp_path: Path) -> None:
    code = "import sys, fedcore; sys.exit(fedcore.__file__.startswith(sys.argv[1]))"
    with pairs._built(commit, tmp_path) as state:
        with pytest.raises(SystemExit):
            pairs._run(state, "-c", code, str(state.built))
        pairs._run(state, "-c", code, str(state.checkout / "fedcore"))


@pytest.mark.processes
def test_no_server_is_left_behind(tmp_path: Path) -> None:
    with pairs._built("", tmp_path) as state:
        with pairs._serves(0, "quick", state) as measure:
            assert measure() >= 0.0
            (server,) = _servers_of(os.getpid())
        until(lambda: not Path(f"/proc/{server}").exists(), "the server has ended")


def _servers_of(pid: int) -> list[int]:
    """Returns the servers below a process."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            found += [child] * (b"fedserver" in words) + _servers_of(child)
    return found


@pytest.mark.processes
def test_two_states_are_built_and_compared(capsys: pytest.CaptureFixture[str]) -> None:
    pairs.main(
        ["HEAD", "A", "start of fedsim", "--quick", "--pairs", "1", "--most", "1"]
    )
    told = capsys.readouterr().out
    assert "times that of " in told
    assert "start of fedsim" in told
