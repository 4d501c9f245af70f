"""Names of clients in tables that are too narrow for them."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from fedserver.view.names import Name


def shown(names: list[str], width: int) -> list[str]:
    table = Table(box=None, show_header=False, padding=0)
    table.add_column()
    for name in names:
        table.add_row(Name(name))
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_names_that_begin_alike_can_be_told_apart() -> None:
    names = [f"hospital-radiology-site-{n}" for n in range(3)]
    assert shown(names, 13) == ["hospit…site-0", "hospit…site-1", "hospit…site-2"]


@pytest.mark.parametrize("width", [25, 80])
def test_a_name_for_which_there_is_room_is_whole(width: int) -> None:
    assert shown(["hospital-radiology-site-1", "a"], width)[0].endswith("site-1")
    assert "…" not in shown(["hospital-radiology-site-1"], width)[0]


@given(st.text(min_size=1), st.integers(3, 30))
def test_any_name_is_one_line_of_the_width(name: str, width: int) -> None:
    [line] = shown([name], width)
    assert cell_len(line) <= width


def test_a_name_is_no_markup() -> None:
    assert shown(["[red]a[/red]"], 40) == ["[red]a[/red]"]
