"""How long tasks take at least."""

from pathlib import Path

import pytest

from fedclient.device.pace import read_pace
from fedcore.errors import ConfigError


def test_a_number_is_the_pace_of_all_tasks() -> None:
    pace = read_pace("1.5")
    assert [pace.of(task) for task in range(3)] == [(1.5, False)] * 3


def test_a_file_has_a_line_for_each_task_and_begins_anew_at_its_end(
    tmp_path: Path,
) -> None:
    (tmp_path / "pace").write_text("0.5\n2 lost\n")
    pace = read_pace(str(tmp_path / "pace"))
    stints = [pace.of(task) for task in range(5)]
    assert stints == [(0.5, False), (2.0, True)] * 2 + [(0.5, False)]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("-1", "expected seconds of at least 0, or a file"),
        ("soon", "expected seconds of at least 0, or a file"),
        ("inf", "expected seconds of at least 0, or a file"),
        ("0.5\nsoon\n", ":2: expected seconds of at least 0, and 'lost' behind them"),
        ("0.5 late\n", ":1: expected seconds of at least 0, and 'lost' behind them"),
        ("0.5 lost\n", "all tasks are lost, no update would ever be sent"),
        ("", "expected a line of seconds for each task, got none"),
    ],
)
def test_what_is_no_pace_is_answered_with_what_is(
    tmp_path: Path, text: str, sentence: str
) -> None:
    if "\n" in text or not text:
        (tmp_path / "pace").write_text(text)
        text = str(tmp_path / "pace")
    with pytest.raises(ConfigError, match=r"--pace|pace:") as error:
        read_pace(text)
    assert sentence in str(error.value)
