"""``fedsim compare``: runs side by side, and whether they differ by chance."""

from collections.abc import Sequence
from dataclasses import KW_ONLY
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import FiniteFloat
from rich.console import Console

from fedstudies.compare.comparison import Comparison, compare
from fedstudies.compare.sides import read_sides
from fedstudies.frame import Option, Steps, Study
from fedstudies.functions import carry_out, give_doc_of, naming_arguments
from fedview.results import Results


class Compare(Study[Comparison]):
    """Compare runs or sweeps by metric and cost.

    A sweep stands for its best point; FOLDER:2 names another row. Runs that differ only
    in their seeds are averaged.

    Returns:
        The ``sides``, their costs and their differences; ``sentences()`` are in words.

    Raises:
        ConfigError: a folder holds no run and no sweep, or there is only one run.
        WorkloadError: the metric was not measured.
    """

    runs: Annotated[
        Sequence[str | Path | Results],
        Option(
            is_argument=True,
            wanted="folders or Results, one after the other",
        ),
    ]
    """Folders of runs or sweeps; a script may also give Results."""
    _: KW_ONLY
    metric: str | None = None
    """The metric to compare by. Without it, accuracy, or the first one measured."""
    target: FiniteFloat | None = None
    """Count costs up to this value of the metric. Without it, up to stop.target, or to
    the best value that all runs reach."""
    out: Annotated[str | Path | None, Option(also="-o")] = None
    """The file of a page with the curves. Without it, none is written."""

    examples: ClassVar = ("runs/a runs/b --target 0.9 -o page.html",)
    function: ClassVar = "compare_runs"
    writes: ClassVar = "page"

    def perform(self, console: Console) -> Steps[Comparison]:
        """Reads the runs, and compares all with the first."""
        yield from ()
        return compare(read_sides(self.runs), self.metric, self.target)


@give_doc_of(Compare)
def compare_runs(
    *runs: str | Path | Results,
    metric: str | None = None,
    target: float | None = None,
    out: str | Path | None = None,
) -> Comparison:
    """Compares runs, which come one after the other and not as a list."""
    with naming_arguments(Compare):
        return carry_out(Compare(runs, metric=metric, target=target, out=out))
