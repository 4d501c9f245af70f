"""What ``fedclient join --phases`` writes."""

import json
from pathlib import Path

from fedclient.wire.phases import PhaseLog
from fedclient.wire.transfer_counter import TransferCounter
from fedrun.traffic import Way

Call = tuple[str, str, Way]


def recorded(file: Path, calls: list[Call]) -> None:
    """One process of a client, with these calls."""
    log = PhaseLog(file, TransferCounter())
    log.begin("ann", "r")
    for first, second, way in calls:
        with log.call(first, second, way):
            log.turn()
    log.close()


def test_a_client_that_begins_with_an_upload_counts_it_as_a_task(
    tmp_path: Path,
) -> None:
    file = tmp_path / "phases.jsonl"
    sent: Call = ("upload", "verdict", "up")
    asked: Call = ("request", "download", "down")
    recorded(file, [asked, sent, asked])  # and is killed
    recorded(file, [sent, asked, sent])
    lines = [json.loads(line) for line in file.read_text().splitlines() if line]
    starts = [number for number, line in enumerate(lines) if "format" in line]
    assert starts == [0, 7]
    assert [line["task"] for line in lines[1:7]] == [0, 0, 0, 0, 1, 1]
    assert [line["task"] for line in lines[8:]] == [0, 0, 1, 1, 1, 1]
