"""Tables on a terminal: nothing is broken that should stay whole."""

from io import StringIO

import pytest
from rich.console import Console

from fedstudies.tables import Cells, bars

HEAD = ("workers", "plan of the year", "predicted seconds", "at the target")
ROWS = [
    ("1", "preemptible workers", "3 min 14 s", "20 of 20"),
    ("16", "on demand", "71 min 20 s", "19 of 20"),
]
CELLS = Cells(HEAD, ROWS, "n nn")


def shown(width: int, cells: Cells = CELLS) -> list[str]:
    console = Console(file=StringIO(), width=width)
    console.print(cells.on_screen(title="Title", caption="Caption"))
    assert isinstance(console.file, StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


@pytest.mark.parametrize("width", [30, 40, 50, 60, 80, 140])
def test_no_word_of_a_table_is_broken_and_no_number(width: int) -> None:
    lines = shown(width)
    text = "\n".join(lines)
    assert all(len(line) <= width for line in lines)
    for number in ("3 min 14 s", "71 min 20 s", "20 of 20", "19 of 20"):
        assert number in text
    words = [word for cell in HEAD for word in cell.split()]
    assert {*words, "preemptible", "demand"} <= {*text.split()}
    assert (text.count("Title"), text.count("Caption")) == (1, 1)


def test_a_table_that_is_too_wide_comes_in_parts_with_the_first_column() -> None:
    def first(width: int, word: str) -> int:
        return sum(line.split()[:1] == [word] for line in shown(width))

    assert (first(140, "16"), first(40, "16")) == (1, 2)


def test_each_part_of_a_table_says_which_row_is_which() -> None:
    head = ("up", "down", "accuracy of the last version", "bytes", "seconds")
    rows = [("top_k", "cast", "0.1", "1", "5"), ("top_k", "top_k", "0.2", "2", "6")]
    lines = shown(34, Cells(head, rows, "  nnn"))
    assert sum(line.split()[:2] == ["top_k", "cast"] for line in lines) == 2
    assert sum(line.split()[:2] == ["top_k", "top_k"] for line in lines) == 2


def test_a_table_that_fits_is_as_wide_as_its_texts() -> None:
    assert all(name in "\n".join(shown(140)) for name in HEAD)
    assert max(map(len, shown(140))) < 80


def test_a_table_without_rows_has_a_head() -> None:
    assert any("workers" in line for line in shown(80, Cells(HEAD, [], "n nn")))


def test_of_a_bar_the_last_result_is_cut_and_not_the_time() -> None:
    shown = bars(Console(file=StringIO(), force_terminal=True))
    name = "dead_zone:ratio=0.01 up, dead_zone:ratio=0.05 down, and another one"
    shown.add_task("simulations", total=34, completed=34, last=name)
    console = Console(file=StringIO(), width=80)
    console.print(shown)
    assert isinstance(console.file, StringIO)
    (line,) = console.file.getvalue().splitlines()
    assert " 34/34 -:--:-- dead_zone:ratio=0.01 up" in line
    assert line.rstrip().endswith("…")
