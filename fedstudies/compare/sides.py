"""The sides of a comparison: runs of one config, one for each seed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedcore.errors import ConfigError
from fedrun.run import differences
from fedstudies.cache import INDEX, read_point
from fedstudies.trial import Group, read_trial
from fedview.results import Results

_WHERE = ("server", "journal", "model", "seed")  # sections that may differ in a side


@dataclass(frozen=True)
class Side(Group):
    """One side of a comparison, with its config as plain data."""

    config: dict[str, Any]

    def differences(self, other: "Side") -> list[str]:
        """Returns the fields that differ, as ``field: ours -> theirs``."""
        return differences(_federation(self.config), _federation(other.config))


def read_sides(runs: Sequence[str | Path | Results]) -> list[Side]:
    """Reads the sides of a comparison, in the given order.

    Runs that differ only in their seeds are one side, unless that leaves only one.

    Args:
        runs: folders of runs or sweeps, or results; ``FOLDER:2`` is a row of a sweep.

    Raises:
        ConfigError: a name is no folder of a run or a sweep, or there is one side.
        JournalError: a run is damaged.
    """
    singles = [
        _of_run(run) if isinstance(run, Results) else _read(str(run)) for run in runs
    ]
    sides = _together(singles)
    if len(sides) < 2:
        sides = singles
    if len(sides) < 2:
        raise ConfigError(
            "compare needs at least two runs; FOLDER:2 names a row of a sweep"
        )
    return sides


def _read(name: str) -> Side:
    folder, colon, rank = name.rpartition(":")
    if colon and rank.isdigit() and not Path(name).exists():
        return _read_point(Path(folder), int(rank))
    path = Path(name)
    if not path.is_dir():
        raise ConfigError(f"{name}: is no folder of a run or a sweep")
    if (path / INDEX).is_file():
        return _read_point(path, 1)
    return _of_run(Results(path))


def _of_run(results: Results) -> Side:
    trial, config = read_trial(results), dict(results.configured.config)
    return Side(results.folder.name, {trial.seed: trial}, config)


def _read_point(folder: Path, rank: int) -> Side:
    name, config, trials = read_point(folder, rank)
    by_seed = {trial.seed: trial for trial in trials}
    return Side(f"{folder.name}:{rank} {name}", by_seed, config)


def _together(singles: Sequence[Side]) -> list[Side]:
    """Joins sides of one config whose seeds differ."""
    sides: list[Side] = []
    for one in singles:
        for place, side in enumerate(sides):
            if not side.trials.keys() & one.trials.keys() and not side.differences(one):
                sides[place] = replace(side, trials={**side.trials, **one.trials})
                break
        else:
            sides.append(one)
    return sides


def _federation(config: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name not in _WHERE}
