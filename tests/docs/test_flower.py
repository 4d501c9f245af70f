"""The tables of docs/flower.md are what was saved."""

from collections.abc import Callable

import pytest

from benchmarks.flower.report import deployed_table, saved, simulated_table
from fedcore.typing import JSON
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "flower.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("part", "table"), [("simulated", simulated_table), ("deployed", deployed_table)]
)
def test_the_tables_are_what_was_saved(
    part: str, table: Callable[[JSON], list[str]]
) -> None:
    assert "\n".join(table(saved(part))) in PAGE
