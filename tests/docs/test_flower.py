"""The tables of docs/flower.md are what was saved."""

from benchmarks.flower.report import simulated_table
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "flower.md").read_text(encoding="utf-8")


def test_the_table_of_both_simulators_is_what_was_saved() -> None:
    assert "\n".join(simulated_table()) in PAGE
