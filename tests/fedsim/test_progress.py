"""How far a run is: each kind of end has its measure."""

import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import latecomer
from fedcore.coordinator.settings import StopConfig
from fedrun.run import Run
from fedsim import progress
from fedsim.progress import Cell, Goal, RunProgress, nearest
from fedview.callbacks import Notice
from tests.fedsim.toys import settings, toy


def goals(folder: Path, **stop: Any) -> list[Goal]:
    """The nearest end after each event of a run."""
    found = []

    def look(run: Run, event: Notice) -> None:
        found.append(nearest(run.config.stop, run, event))

    given = settings()
    given["stop"] = stop
    latecomer.run(given, toy(), folder=folder / "run", on_event=look)
    return found


@pytest.mark.parametrize(
    ("stop", "last"),
    [
        ({"versions": 5}, "5/5 versions"),
        ({"updates": 9}, "9/9 updates"),
        ({"seconds": 2.0}, "2 s of 2 s"),
        ({"versions": 5, "updates": 1000}, "5/5 versions"),
        ({"versions": 1000, "updates": 9, "seconds": 1000}, "9/9 updates"),
    ],
)
def test_the_bar_is_full_at_the_end_and_never_goes_back(
    stop: dict[str, Any], last: str, tmp_path: Path
) -> None:
    found = goals(tmp_path, **stop)
    shares = [goal.share for goal in found]
    assert shares == sorted(shares)
    assert shares[0] < 0.5
    assert shares[-1] == 1
    assert last in {goal.words for goal in found}


def test_when_a_target_is_reached_nobody_knows(tmp_path: Path) -> None:
    found = goals(tmp_path, target={"loss": 1.0})
    assert {goal.share for goal in found} == {0.0}
    assert found[0].words == "version 0"
    assert found[-1].words != "version 0"


@pytest.mark.parametrize(
    ("stop", "words"),
    [
        ({"versions": 6}, "6/6 versions"),
        ({"updates": 12}, "12/12 updates"),
        ({"target": {"loss": 1.0}}, " of 1 "),
    ],
)
def test_on_a_terminal_the_last_picture_is_the_end(
    stop: dict[str, Any], words: str, tmp_path: Path
) -> None:
    console = Console(file=StringIO(), force_terminal=True, width=120)
    given = {**settings(), "stop": stop}
    with RunProgress(StopConfig.model_validate(stop), console) as bar:
        latecomer.run(given, toy(), folder=tmp_path / "run", on_event=bar)
    assert isinstance(console.file, StringIO)
    shown = console.file.getvalue()
    assert words in shown
    assert "loss 0." in shown


def test_most_events_draw_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = []
    monkeypatch.setattr(progress, "INTERVAL", 1e9)
    console = Console(file=StringIO(), force_terminal=True)
    with RunProgress(StopConfig(versions=8), console) as bar:
        monkeypatch.setattr(bar, "_show", lambda: drawn.append(1))
        latecomer.run(settings(), toy(), folder=tmp_path / "run", on_event=bar)
    assert len(drawn) <= 2


def test_below_a_cell_of_a_notebook_there_is_one_bar_that_grows(tmp_path: Path) -> None:
    drawn: list[str] = []
    cell = Cell(drawn.append, is_known=True)

    def look(run: Run, event: Notice) -> None:
        cell.show(nearest(run.config.stop, run, event), "loss <0.5")

    latecomer.run(settings(), toy(), folder=tmp_path / "run", on_event=look)
    cell.close()
    shares = [float(re.search(r'value="([\d.]+)"', html)[1]) for html in drawn]  # type: ignore[index]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0, 1)
    assert "8/8 versions" in drawn[-1]
    assert " left" not in drawn[-1]
    assert "loss &lt;0.5" in drawn[-1]


def test_where_no_end_is_known_the_bar_of_a_cell_only_moves() -> None:
    drawn: list[str] = []
    Cell(drawn.append, is_known=False).show(Goal(0.0, "version 3"), "")
    assert [html.count("value=") for html in drawn] == [0, 0]
    assert "version 3" in drawn[-1]


def test_in_a_pipe_there_are_few_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    latecomer.run(
        settings(stop={"versions": 100}), toy(), folder=tmp_path / "a", progress=True
    )
    lines = capsys.readouterr().err.splitlines()
    assert 1 <= len(lines) <= 10
    assert lines[-1].startswith("100/100 versions")
    latecomer.run(settings(), toy(), folder=tmp_path / "b")
    assert capsys.readouterr().err == ""  # a script says nothing of itself


def test_the_rest_counts_from_where_the_run_went_on() -> None:
    rest = progress.Rest()
    assert rest.words(Goal(0.5, "")) == ""
    rest.begin(Goal(0.5, ""))
    assert rest.words(Goal(0.5, "")) == ""
    assert rest.words(Goal(0.75, "")).endswith(" left")
    assert rest.words(Goal(1.0, "")) == ""
