"""Figures that pages quote stand in the results that were saved."""

from tests.docs.pages import ROOT
from tests.mutants.table import table

PAGE = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")


def test_the_table_of_mutants_is_what_was_saved() -> None:
    assert table() in PAGE
