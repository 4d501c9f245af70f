"""``fedsim codecs``: pairs of compressors, compared on the user's own model."""

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import KW_ONLY
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field
from rich.console import Console

from fedcore.config import Count
from fedrun import units
from fedstudies.codecs.comparison import Comparison, summary
from fedstudies.codecs.measurements import Measurements
from fedstudies.codecs.pairs import pairs_of
from fedstudies.federated import CONFIG, Simulating
from fedstudies.frame import (
    Option,
    Phase,
    Progress,
    Say,
    Steps,
    Stopped,
    stopping,
)
from fedstudies.functions import function_of
from fedstudies.runner import simulate
from fedstudies.runs import Cell


class Codecs(Simulating[Comparison]):
    """Compare codecs on your model, and recommend a pair.

    Without a config, the app is simulated with all defaults. Finished runs are kept in
    the folder: a command that was stopped simulates only what is left.

    Returns:
        The pairs, the uncompressed one first: ``rows``, ``values`` and ``front``;
        ``advice`` and ``yaml`` recommend one.

    Raises:
        ConfigError: a setting is wrong.
        UserCodeError: the user's code raised.
    """

    config: Annotated[str | Path | None, CONFIG] = None
    """The YAML file of the federation."""
    _: KW_ONLY
    uplinks: Annotated[Sequence[str], Option("CODEC")] = ()
    """A codec to try for updates, such as top_k:ratio=0.01 or as YAML."""
    downlinks: Annotated[Sequence[str], Option("CODEC")] = ()
    """A codec to try for models."""
    versions: Annotated[Count, Option(also="--rounds")] = 100
    """How many versions each simulation makes."""
    seeds: Count = 1
    """How often each pair is simulated; the means are compared."""
    tolerance: Annotated[float, Field(ge=0)] = 0.005
    """How much worse than uncompressed the recommended pair may be."""
    fresh: bool = False
    """Simulate again what is done already in the folder."""
    out: Annotated[str | Path | None, Option(also="-o")] = None
    """The folder for the page and the numbers. Without it, the next free one beside
    server.journal."""

    examples: ClassVar = (
        "federation.yaml --uplink top_k:ratio=0.01",
        "--app my_app:workload",
    )
    function: ClassVar = "compare_codecs"

    def perform(self, console: Console) -> Steps[Comparison]:
        """Times and simulates all pairs; after Ctrl-C, what was measured counts."""
        federation = self.federation()
        config, app, place = federation
        found = Measurements(
            config=config,
            app=app,
            place=place,
            workload=federation.load(),
            pairs=pairs_of(config, self.uplinks, self.downlinks),
            versions=self.versions,
            seeds=self.seeds,
            tolerance=self.tolerance,
            folder=self.folder,
        )
        found.check()
        with stopping(lambda: _stop(found)):
            cells = found.cells()
            left, asked = cells if self.fresh else found.recall(cells), len(cells)
            if len(left) < asked:
                known = units.amount(asked - len(left), "run")
                yield Say(f"known from before: {known} of {asked:,}")
            yield Phase("codecs timed", len(found.pairs))
            for pair in found.take_times():
                yield Progress(1, str(pair))
            yield Phase("simulations", len(left))
            yield from self._simulate(found, left)
        comparison = found.comparison()
        assert comparison is not None  # all was measured
        return comparison

    def _simulate(
        self, found: Measurements, left: Sequence[Cell]
    ) -> Generator[Progress]:
        done, pairs = 0, len(found.pairs)
        beside = self.folder.parent  # there is no folder before there is a result
        with closing(found.simulate(simulate, left, beside, self.jobs)) as results:
            for cells, _ in results:
                for number in {cell.number for cell in cells}:
                    row, line = found.row(number), ""
                    if row is not None:
                        done += 1
                        line = f"{done}/{pairs} {summary(row)}"
                    yield Progress(1, str(found.pairs[number]), line)


compare_codecs = function_of(Codecs)


def _stop(found: Measurements) -> Stopped:
    comparison = found.comparison()
    if comparison is None:
        why = "not even the uncompressed pair was measured"
        return Stopped(why, again=())
    return Stopped(comparison, again=())
