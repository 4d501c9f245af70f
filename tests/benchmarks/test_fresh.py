"""Saved results name what they rest on, and are found where that has changed."""

import json
import math
from pathlib import Path

import pytest

from benchmarks import basis, fresh
from benchmarks.fresh import Age
from benchmarks.series import after, runs
from benchmarks.speed.measure import machine

SOURCES, GOLDEN = "sources", "golden"


@pytest.fixture(autouse=True)
def nothing_is_edited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever edits the program while tests run still sees them pass."""
    monkeypatch.setattr(basis, "_BEGAN", math.inf)


def the_age_of(tmp_path: Path, saved: object) -> Age:
    (tmp_path / "speed.json").write_text(json.dumps(saved), encoding="utf-8")
    (result,) = fresh.results(tmp_path)
    return result.age


def test_a_result_of_today_is_fresh(tmp_path: Path) -> None:
    run = after({}, {"machine": machine()})
    places = run[basis.RESTS_ON][SOURCES]
    assert "basis.py" in places["benchmarks"]
    assert "fedserver" in places, "which benchmarks start as a process"
    assert "coordinator" in places["fedcore"]
    assert "fedwire" in places["protos"]
    assert the_age_of(tmp_path, {"server": run}) is Age.FRESH


def test_a_result_whose_sources_were_edited_meanwhile_is_not_fresh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(basis, "_BEGAN", 0.0)
    assert the_age_of(tmp_path, {"server": after({}, {})}) is Age.OLDER


BEFORE = """
'''A docstring.'''
import this_one
class A(B):
    def f(self):
        for x in y:
            a()
            b()
"""


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("A docstring.", "Another one.", True),
        ("a()", "a()  # a comment", True),
        ("            b()", "        b()", False),
        ("this_one", "that_one", False),
        ("A(B)", "A(C)", False),
    ],
)
def test_code_is_all_but_comments_and_docstrings(
    old: str, new: str, same: bool
) -> None:
    changed = BEFORE.replace(old, new)
    assert changed != BEFORE
    assert (basis.code_of(changed) == basis.code_of(BEFORE)) is same


@pytest.mark.parametrize(("part", "age"), [(SOURCES, Age.OLDER), (GOLDEN, Age.OTHER)])
def test_what_has_changed_since_is_found(tmp_path: Path, part: str, age: Age) -> None:
    run = after({}, {})
    for key, written in run[basis.RESTS_ON][part].items():
        name, digest, *rest = written.split(" ")
        other = "000000" if digest != "000000" else "111111"
        run[basis.RESTS_ON][part][key] = " ".join([name, other, *rest])
        break
    change = basis.compare(run[basis.RESTS_ON], "")
    (found,) = change.sources if part == SOURCES else change.golden
    assert found.endswith(name)
    assert the_age_of(tmp_path, {"server": run}) is age


@pytest.mark.parametrize(
    ("golden", "rows", "age"),
    [
        ("latecomer", ["FedAvg"], Age.OTHER),
        ("ds_sync", ["FedAvg", "DS-Sync"], Age.OTHER),
        ("ds_sync", ["FedAvg"], Age.FRESH),
        ("codec_top_k", ["top-k 1 %"], Age.OTHER),
        ("codec_top_k", ["dead zone"], Age.FRESH),
    ],
)
def test_a_golden_run_of_a_method_counts_for_results_that_name_it(
    tmp_path: Path, golden: str, rows: list[str], age: Age
) -> None:
    run = after({}, {"rows": rows})
    for key, written in run[basis.RESTS_ON][GOLDEN].items():
        words = written.split(" ")
        words[words.index(golden) + 1] = "000000"
        run[basis.RESTS_ON][GOLDEN][key] = " ".join(words)
    assert the_age_of(tmp_path, {"server": run}) is age


def test_code_that_is_gone_has_changed() -> None:
    saved = basis.find()
    saved[SOURCES]["fedcore"] += " never.py 123456"
    assert basis.compare(saved, "").sources == ["fedcore/never.py"]


def test_a_folder_of_which_some_files_were_used_names_them() -> None:
    files = [f"fedcore/coordinator/{name}.py" for name in ("actions", "events")]
    assert [*basis._places(files)] == files
    every = basis._files_in(basis.ROOT / "fedcore/coordinator")
    names = [path.relative_to(basis.ROOT).as_posix() for path in every]
    assert [*basis._places(names)] == ["fedcore/coordinator"]


def test_earlier_runs_do_not_keep_what_they_rested_on() -> None:
    first, last = runs(after(after({}, {"value": 1}), {"value": 2}))
    assert (first["value"], last["value"]) == (1, 2)
    assert basis.RESTS_ON not in first
    assert basis.RESTS_ON in last


def test_a_result_from_before_is_unknown(tmp_path: Path) -> None:
    assert the_age_of(tmp_path, {"rows": [1.0]}) is Age.UNKNOWN
    assert the_age_of(tmp_path, {"server": {"machine": machine()}}) is Age.UNKNOWN
    assert the_age_of(tmp_path, {"claims": [{"claim": 9}]}) is Age.UNKNOWN


@pytest.mark.parametrize(
    ("argv", "command"),
    [
        (["python", "-m", "b", "start", "--save"], "-m b start --save"),
        (["python", "-m", "b", "--data", "/some/where", "--save"], "-m b --save"),
        (["python", "-m", "b", "--data=/some/where"], "-m b"),
        (["python", "/some/where/pytest"], ""),
        (["python", "-m", "b", "--data", "../home"], "-m b"),
        (["python", "-m", "b", "two words"], "-m b 'two words'"),
        (["python", "-m", "b", "--save", f"{basis.ROOT}/a.json"], "-m b --save a.json"),
    ],
)
def test_commands_name_no_path_of_a_machine(argv: list[str], command: str) -> None:
    assert basis._command(argv) == command


def test_what_is_older_is_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = after({}, {}) | {basis.COMMAND: "-m benchmarks start --save"}
    run[basis.RESTS_ON][SOURCES]["benchmarks"] += " never.py 123456"
    (tmp_path / "speed.json").write_text(json.dumps({"start": run, "dear": run}))
    monkeypatch.setattr(fresh.results, "__defaults__", (tmp_path,))
    ran = []

    def note(words: list[str], console: object) -> int:
        ran.append(words)
        return 0

    monkeypatch.setattr(fresh, "_run", note)
    assert fresh.main([]) == 0
    assert not ran
    assert fresh.main(["--run"]) == 0
    assert ran == [["-m", "benchmarks", "start", "--save"]]


def test_a_run_that_was_killed_is_no_success(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    codes = iter((-9, 0, 0))
    monkeypatch.setattr(fresh, "_run", lambda words, console: next(codes))
    assert fresh.main(["--quick"]) == 1


def test_a_name_of_no_result_is_one_error() -> None:
    with pytest.raises(SystemExit, match="no result begins with nosuch"):
        fresh.main(["nosuch"])
