"""Runs that differ only in their seeds, and their means."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedrun import units
from fedstudies.statistics import Estimate, estimate
from fedstudies.terminal import column, largest
from fedstudies.trial import Trial


@dataclass(frozen=True)
class Group:
    """The runs of one config, each with a seed of its own."""

    name: str
    trials: Mapping[int, Trial]
    """The runs by their seeds."""

    def finals(self, metric: str) -> dict[int, float]:
        """The metric at the end, by seed; NaN where the run broke down."""
        return {seed: trial.final(metric) for seed, trial in self.trials.items()}

    def final(self, metric: str) -> Estimate:
        """The metric at the end, over the seeds."""
        return estimate(list(self.finals(metric).values()))

    def best(self, metric: str) -> Estimate:
        """The metric where it was best, over the seeds."""
        return estimate([trial.best(metric) for trial in self.trials.values()])


def cost_columns(
    costs: Mapping[str, Sequence[Estimate]],
) -> tuple[list[str], list[list[str]]]:
    """The heads and the cells of the columns of a table with costs.

    Args:
        costs: the estimates of each row, by ``versions``, ``updates``, ``nbytes`` or
            ``seconds``.
    """
    heads, columns = [], []
    for name, estimates in costs.items():
        unit = units.Unit(1.0, name)
        if name == "seconds":
            unit = units.time_unit(largest(estimates))
        elif name == "nbytes":
            unit = units.byte_unit(largest(estimates))
        heads.append(f"payload {unit.name}" if name == "nbytes" else unit.name)
        columns.append(column(estimates, unit))
    return heads, columns
