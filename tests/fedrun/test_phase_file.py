"""The file of ``fedclient join --phases`` is read, or refused in a sentence."""

import json
from pathlib import Path
from typing import Any

import pytest

from fedcore.errors import ConfigError
from fedrun.phase_file import FORMAT, first_client, read_phases

HEAD: dict[str, Any] = {"format": FORMAT, "client": "ann", "run": "r"}
PHASES = (("download", 0.1, 100), ("compute", 1.0, 0), ("upload", 0.2, 50))


def lines(tasks: int = 13) -> list[dict[str, Any]]:
    """A head, and rows of so many tasks."""
    rows, now = [dict(HEAD)], 0.0
    for task in range(tasks):
        for phase, seconds, nbytes in (*PHASES, ("verdict", 0.1, 0)):
            rows.append(
                {
                    "task": task,
                    "phase": phase,
                    "start": now,
                    "duration": seconds + 0.01 * (task % 3),
                    "bytes": nbytes,
                    "depends_on": None,
                }
            )
            now += rows[-1]["duration"]
    return rows


def written(path: Path, rows: list[dict[str, Any]], end: str = "") -> Path:
    file = path / "phases.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows) + end)
    return file


def at_once(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same rows, in none of which any time passes."""
    still = {"start": 0.0, "duration": 0.0}
    return [row | still if "task" in row else row for row in rows]


def test_tasks_after_the_first_are_read(tmp_path: Path) -> None:
    file = written(tmp_path, lines())
    trace = read_phases(file)
    assert (trace.client, len(trace.tasks)) == ("ann", 12)
    assert first_client(file) == "ann"
    assert first_client(tmp_path / "none") is None


def test_a_last_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    whole = read_phases(written(tmp_path, lines()))
    assert read_phases(written(tmp_path, lines(), '{"task": 13, "ph')) == whole


def test_a_client_that_was_killed_and_started_again_goes_on(tmp_path: Path) -> None:
    text = "".join(json.dumps(row) + "\n" for row in lines())
    file = tmp_path / "phases.jsonl"
    file.write_text(text + '{"task": 13, "ph' + "\n" + text)
    assert len(read_phases(file).tasks) == 25


def test_an_update_that_a_restarted_client_sends_first_is_no_task(
    tmp_path: Path,
) -> None:
    before, after = lines(), lines()[1:]
    sent = [row | {"start": 0.01} for row in after[2:4]]  # the upload, and its verdict
    later = [
        row | {"task": row["task"] + 1, "start": row["start"] + 1} for row in after
    ]
    trace = read_phases(written(tmp_path, [*before, HEAD, *sent, *later]))
    assert len(trace.tasks) == 25
    assert all("compute" in task.seconds for task in trace.tasks)
    told = "Tasks that had no verdict or were sent again are left out: 1."
    assert told in trace.doubts


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"phase": None}, "column 'phase': expected one of request, .*, got None"),
        ({"phase": "sleep"}, "unknown phase 'sleep'; the phases are request"),
        ({"duration": -1.0}, "expected a duration of at least 0 s, got -1"),
        ({"duration": "long"}, "column 'duration': expected seconds, got 'long'"),
        ({"task": 1.5}, "column 'task': expected a whole number, got 1.5"),
        ({"bytes": -3}, "expected at least 0 bytes, got -3"),
        ({"depends_on": "x"}, "depends on 'x', which is no phase"),
        ({"depends_on": []}, "depends on .*, which is no phase"),
        ({"colour": "red"}, "unknown column 'colour'; the columns are task"),
        ({"start": 0.0}, "before the phase in front of it ends"),
        ({"version": "a"}, "column 'version'"),
    ],
)
def test_a_wrong_row_is_named(
    tmp_path: Path, change: dict[str, Any], sentence: str
) -> None:
    rows = lines()
    rows[10] |= change
    with pytest.raises(ConfigError, match=sentence) as error:
        read_phases(written(tmp_path, rows))
    assert "phases.jsonl" in str(error.value)


def test_files_that_support_nothing_are_refused(tmp_path: Path) -> None:
    for rows, sentence in (
        ([], "the trace is empty"),
        (lines(10), "9 finished tasks after its first one; .* needs at least 10"),
        (lines()[1:], "is no trace of fedclient join --phases"),
        ([*lines(), {**HEAD, "client": "bob"}], "mixes the clients 'ann' and 'bob'"),
        (at_once(lines()), "the trace of 'ann' has tasks that take no time at all"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            read_phases(written(tmp_path, rows))
    (tmp_path / "phases.jsonl").write_bytes(b"\x00\xff junk")
    with pytest.raises(ConfigError, match="is no trace"):
        read_phases(tmp_path / "phases.jsonl")
    file = written(tmp_path, lines())
    file.write_text(file.read_text().replace('{"task": 5', '"task": 5'))
    with pytest.raises(ConfigError, match="is no JSON object"):
        read_phases(file)


def test_what_a_trace_cannot_say_is_said(tmp_path: Path) -> None:
    rows = [
        row | {"bytes": 0, "duration": 1.0, "start": float(place)}
        if "task" in row
        else row
        for place, row in enumerate(lines())
    ]
    doubts = " ".join(read_phases(written(tmp_path, rows)).doubts)
    for sentence in ("exactly the same time", "No upload has bytes", "only 12 tasks"):
        assert sentence in doubts


@pytest.mark.parametrize(
    ("column", "value"), [("bytes", 10**400), ("duration", 10**400), ("start", 10**400)]
)
def test_a_number_that_is_too_large_is_refused(
    tmp_path: Path, column: str, value: int
) -> None:
    rows = lines()
    rows[9][column] = value
    with pytest.raises(ConfigError, match=r"phases.jsonl:10: .*expected"):
        read_phases(written(tmp_path, rows))


def test_a_line_that_is_nested_too_deeply_is_no_json(tmp_path: Path) -> None:
    file = tmp_path / "phases.jsonl"
    file.write_text("[" * 100_000 + "\n")
    with pytest.raises(ConfigError, match="is no trace"):
        read_phases(file)


def test_a_device_without_an_end_is_not_read() -> None:
    with pytest.raises(ConfigError, match="is a device; expected a file"):
        read_phases(Path("/dev/zero"))
