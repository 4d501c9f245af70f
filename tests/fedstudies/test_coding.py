"""``fedsim coding``: its numbers, its page, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import latecomer
from fedcore.errors import ConfigError
from fedsim.cli import main
from fedstudies.frame import page_of


def typed(*words: str) -> Result:
    return CliRunner().invoke(main, ["coding", *words])


def test_ten_workers_gain_most_where_seven_are_waited_for() -> None:
    study = latecomer.coding(10, trials=20_000)
    by_method = {row.method: row for row in study.best}
    assert by_method["MDS"].number == 7
    assert by_method["MDS"].formula == pytest.approx(0.299, abs=5e-4)
    assert by_method["uncoded"].formula == pytest.approx(0.393, abs=5e-4)
    assert study.largest_error < 0.03
    assert study.verdict.startswith(
        "an MDS code that waits for 7 of 10 workers takes 0.2994"
    )


def test_gradient_coding_gains_where_delays_are_long() -> None:
    assert "gains nothing" in latecomer.coding(10, trials=200).verdict
    soon = latecomer.coding(10, straggling=1e4, trials=200)
    assert soon.verdict.startswith("no MDS code is sooner than no code, which takes ")
    late = latecomer.coding(10, straggling=0.1, trials=200)
    first = min(late.of("gradient coding"), key=lambda row: row.formula)
    words = (
        f"the fastest gradient code has {first.setting} and takes {first.formula:.4g}"
    )
    assert (
        f"{words} ({first.drawn:.4g} ± {1.96 * first.error:.1g} drawn)" in late.verdict
    )


def test_what_is_asymptotic_is_called_that_beside_what_few_rows_show() -> None:
    study = latecomer.coding(6, trials=50)
    shown = study.demonstration
    assert shown is not None
    assert shown.coded_nbytes > 1.2 * shown.formula_nbytes  # of 1,440 rows
    html = page_of(study.findings())
    assert "asymptotic in the number of rows, says" in html
    assert "asymptotic in the number of workers" in html


@pytest.mark.parametrize("workers", [1, 2, 7, 12])
def test_any_number_of_workers_has_a_page_and_json(workers: int) -> None:
    study = latecomer.coding(workers, trials=50)
    assert len(study.rows) == study.study.steps
    assert "never done across clients" in page_of(study.findings())
    json.dumps(study.as_json())
    assert study.demonstration is None or study.demonstration.wrong_rows == 0


def test_equal_seeds_give_equal_draws() -> None:
    first, again = (latecomer.coding(5, trials=100).as_json() for _ in range(2))
    assert first == again
    assert first != latecomer.coding(5, trials=100, seed=1).as_json()


def test_the_command_writes_a_page_and_numbers(tmp_path: Path) -> None:
    done = typed("--workers", "4", "--trials", "100", "-o", str(tmp_path / "out"))
    assert done.exit_code == 0, done.output
    assert "an MDS code that waits for 3 of 4 workers" in done.stdout
    assert (tmp_path / "out" / "coding.html").is_file()
    words = ["--workers", "4", "--trials", "100", "--json", "-o", str(tmp_path / "out")]
    printed = json.loads(typed(*words).stdout)
    assert printed == json.loads((tmp_path / "out" / "coding.json").read_text())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--workers", "0"], "error: 0 workers: expected 1 or more"),
        (["--workers", "1001"], "error: 1001 workers: expected 1000 or fewer"),
        (
            ["--workers", "4", "--straggling", "0"],
            "error: straggling rate 0: expected a number from 1e-09 to 1e+09",
        ),
        (
            ["--workers", "4", "--straggling", "nan"],
            "error: straggling rate nan: expected a number from 1e-09 to 1e+09",
        ),
        (
            ["--workers", "4", "--multicast-gain", "5"],
            "error: a multicast gain of 5 among 4 workers: expected 1 to 4",
        ),
        (
            ["--workers", "4", "--trials", "1"],
            "error: 1 trials: expected 2 to 25,000,000 with 4 workers",
        ),
    ],
)
def test_wrong_numbers_are_one_sentence(words: list[str], sentence: str) -> None:
    done = typed(*words)
    assert done.exit_code == 78
    assert done.stderr.strip() == sentence


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    done = typed("--workers", "2", "-o", str(tmp_path / "out"))
    assert done.exit_code == 78
    assert "is a file, not a folder" in done.stderr


@pytest.mark.parametrize(
    "wrong",
    [
        {"workers": -1},
        {"workers": "3"},
        {"workers": 2.5},
        {"workers": None},
        {"workers": True},
        {"workers": 3, "straggling": -1.0},
        {"workers": 3, "straggling": 1e-320},
        {"workers": 3, "straggling": "1"},
        {"workers": 3, "straggling": None},
        {"workers": 3, "multicast_gain": "2"},
        {"workers": 3, "trials": 2.5},
        {"workers": 3, "trials": None},
        {"workers": 3, "trials": 10**12},
        {"workers": 3, "seed": "0"},
        {"workers": 3, "seed": -1},
    ],
)
def test_wrong_arguments_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="expected"):
        latecomer.coding(**wrong)
