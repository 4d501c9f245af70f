"""``fedserver journal``, ``export``: what an operator asks of a run on disk."""

import csv
import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from fedrun.files import load_model
from fedrun.journal.store import checksum
from fedserver.cli import main
from tests.fedrun.journal.runs import LARGE, Written, change


@pytest.fixture
def run(tmp_path: Path) -> Written:
    """Two clients with two updates each, one of which says nothing true."""
    written = Written(tmp_path)
    for _ in range(2):
        written.push("ann", 1.0)
        written.push("bob", 3.0)
    written.push("bob", float("nan"))
    written.close()
    return written


def command(*words: Any) -> Result:
    """A command of the server."""
    return CliRunner().invoke(main, [str(word) for word in words])


def sentence(*words: Any, status: int) -> str:
    """The one sentence with which a command fails."""
    done = command(*words)
    assert (done.exit_code, done.stderr.count("\n")) == (status, 1), done.output
    assert done.stderr.startswith("error: ")
    return done.stderr


def test_show_prints_a_line_for_each_record(run: Written) -> None:
    done = command("journal", "show", run.folder)
    lines = done.stdout.splitlines()
    assert len(lines) == 12
    assert "Configured" in lines[0]
    assert "Decided" in lines[-1]
    assert "bob" in lines[-1]
    assert "verdict=discarded" in lines[-1]


def test_show_finds_the_records_that_are_asked_for(run: Written) -> None:
    words = ("journal", "show", run.folder, "--json")
    asked = command(*words, "--kind", "decided", "--client", "bob", "--after", 8)
    facts = [json.loads(line) for line in asked.stdout.splitlines()]
    assert [fact["verdict"] for fact in facts] == ["accepted", "discarded"]
    assert all(fact["client"] == "bob" and fact["number"] > 8 for fact in facts)
    assert len(command(*words, "--limit", 3).stdout.splitlines()) == 3


def test_show_names_what_there_is_where_nothing_could_be_found(run: Written) -> None:
    words = ("journal", "show", run.folder)
    said = sentence(*words, "--kind", "accepted", status=78)
    assert said.startswith("error: --kind accepted: unknown; there are closed, c")
    said = sentence(*words, "--client", "eve", status=78)
    assert said == "error: --client eve: unknown; there are ann, bob\n"
    assert command(*words, "--kind", "Lost").output == ""
    assert command(*words, "--client", "bob", "--after", 99).output == ""


def test_show_reads_a_run_that_is_being_served(tmp_path: Path) -> None:
    live = Written(tmp_path)
    live.push()
    assert len(command("journal", "show", live.folder).stdout.splitlines()) == 4
    live.close()


def test_verify_says_what_it_found(run: Written) -> None:
    done = command("journal", "verify", run.folder)
    assert done.exit_code == 0
    assert "12 records are sound; version 4" in done.stdout
    assert "4 updates accepted, 4 in the model, 0 in the buffer, none twice" in (
        done.stdout
    )
    assert "9 decisions made again, all the same" in done.stdout
    quick = command("journal", "verify", run.folder, "--no-decisions")
    assert "0 decisions made again" in quick.stdout


def test_verify_names_a_damaged_segment(tmp_path: Path) -> None:
    written = Written(tmp_path, LARGE)
    for _ in range(3):
        written.push()
    written.close()
    with (written.folder / "segments" / "000001.segment").open("r+b") as file:
        file.seek(4 * LARGE + 200)
        file.write(b"\xff\xff")
    said = sentence("journal", "verify", written.folder, status=74)
    assert "record 5 is damaged" in said
    assert "payload in segment 1 at byte " in said


def test_verify_notices_a_decision_that_was_not_made_like_this(run: Written) -> None:
    # Somebody rewrote a weight, and its checksum with it.
    database = sqlite3.connect(run.folder / "journal.sqlite3")
    query = "SELECT kind, body, payload FROM records WHERE number = 3"
    kind, body, payload = database.execute(query).fetchone()
    database.close()
    body = body.replace('"weight":1.0', '"weight":0.5')
    check = checksum(3, kind, body, payload)
    update = "UPDATE records SET body = ?, checksum = ? WHERE number = 3"
    change(run.folder, update, body, check)
    said = sentence("journal", "verify", run.folder, status=74)
    assert "digest" in said or "decided again" in said


def test_replay_asks_what_if(run: Written, tmp_path: Path) -> None:
    out = tmp_path / "if.safetensors"
    done = command("journal", "replay", run.folder, "--without", "bob", "-o", out)
    assert "recorded: version 4, 4 updates in the model" in done.stdout
    assert "replayed: version 2, 2 updates in the model" in done.stdout
    _, model_D = load_model(out)
    np.testing.assert_array_equal(model_D, -2 * np.ones(run.dim))


def test_replay_takes_other_settings(run: Written) -> None:
    done = command("journal", "replay", run.folder, "--set", "algorithm.buffer=2")
    assert "replayed: version 2, 4 updates in the model" in done.stdout


def test_replay_names_what_does_not_exist(run: Written) -> None:
    said = sentence("journal", "replay", run.folder, "--without", "eve", status=78)
    assert "--without eve: no such client; there are ann, bob" in said
    setting = ("--set", "algorithm.bufer=2")
    assert command("journal", "replay", run.folder, *setting).exit_code == 78


def test_the_tables_of_a_run_can_be_exported(run: Written, tmp_path: Path) -> None:
    done = command("journal", "export", run.folder, "-o", tmp_path / "tables")
    paths = [Path(line) for line in done.stdout.splitlines()]
    rows = {
        path.stem: len(list(csv.DictReader(path.read_text().splitlines())))
        for path in paths
        if path.suffix == ".csv"  # others are made where pyarrow is installed
    }
    assert (rows["versions"], rows["updates"]) == (4, 5)
    assert all(path.is_file() for path in paths)
    assert {path.suffix for path in paths} <= {".csv", ".parquet"}


@pytest.mark.parametrize("version", [0, 2, 4])
def test_any_version_can_be_exported(
    run: Written, tmp_path: Path, version: int
) -> None:
    out = tmp_path / "model.safetensors"
    done = command("export", run.folder, "-o", out, "--which", version)
    assert done.stdout == f"{out}: version {version} of {run.folder}\n"
    spec, _ = load_model(out)
    assert spec.dim == run.dim


def test_a_version_that_never_was_is_told(run: Written, tmp_path: Path) -> None:
    out = tmp_path / "model.safetensors"
    said = sentence("export", run.folder, "-o", out, "--which", 99, status=74)
    assert "never published version 99" in said
    said = sentence("export", run.folder, "-o", out, "--which", "best", status=74)
    assert "has no best model yet" in said


COMMANDS = [
    ("journal", "show", "{}"),
    ("journal", "verify", "{}"),
    ("journal", "replay", "{}"),
    ("journal", "export", "{}", "-o", "{}/tables"),
    ("export", "{}", "-o", "{}/model.safetensors"),
    ("report", "{}"),
    ("backup", "{}", "{}-copy"),
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_folder_without_a_run_is_told_in_a_sentence(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    said = sentence(*(word.format(empty) for word in words), status=74)
    assert str(empty) in said


@pytest.mark.parametrize("words", COMMANDS[1:], ids=" ".join)
def test_a_damaged_run_is_told_in_a_sentence(
    run: Written, words: tuple[str, ...]
) -> None:
    change(run.folder, "UPDATE records SET body = '{', checksum = 0 WHERE number = 3")
    said = sentence(*(word.format(run.folder) for word in words), status=74)
    assert "record 3" in said


def test_a_newer_run_is_told_in_a_sentence(run: Written) -> None:
    change(run.folder, "PRAGMA user_version = 9")
    for name in ("show", "verify", "replay"):
        assert "has schema 9" in sentence("journal", name, run.folder, status=74)
