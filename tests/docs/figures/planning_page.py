"""docs/planning.md: how long plans took, as shares of what was predicted."""

from collections.abc import Iterator

from tests.docs.figures.series import pool, saved
from tests.docs.figures.units import Quote

PAGE = "docs/planning.md"
CHAPTER = "Where workers have unlike data"
CHAPTERS = (CHAPTER,)
SAID = (r"Dirichlet \.3|95 % intervals|claim 12|five seeds",)


def rows() -> Iterator[str]:
    """The table of ratios, with their intervals."""
    for name, plans in saved("planner")["ratios"].items():
        cells = [
            f"{each['mean']:.2f} ± {each['half_width_95']:.2f}"
            for each in plans.values()
        ]
        yield f"| {name} | {' | '.join(cells)} |"


def quotes() -> Iterator[Quote]:
    """All of the page's."""
    yield Quote(CHAPTER, "", pool(saved("planner")["ratios"]))
