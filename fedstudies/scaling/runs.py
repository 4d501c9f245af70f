"""Runs with various numbers of clients, measured: their scaling, as it was."""

from collections.abc import Sequence
from pathlib import Path

from fedcore.errors import ConfigError
from fedcore.planning.scaling import Scaling, scaling
from fedcore.typing import Seconds
from fedview.results import Results


def measure_scaling(folders: Sequence[Path]) -> Scaling | None:
    """The scaling of runs that differ in their number of clients.

    Strong scaling is the time for the same number of updates, weak scaling that for one
    update of each client. Runs of as many clients are averaged.

    Args:
        folders: of the runs.

    Returns:
        None where all runs have as many clients.

    Raises:
        ConfigError: a run accepted no update, or took no time.
        JournalError: a folder holds no run.
    """
    seconds: dict[int, list[Seconds]] = {}
    for folder in folders:
        clients, took = seconds_an_update(folder)
        seconds.setdefault(clients, []).append(took)
    if len(seconds) < 2:
        return None
    strong = {n: sum(found) / len(found) for n, found in seconds.items()}
    return scaling(strong, {n: n * took for n, took in strong.items()})


def seconds_an_update(folder: Path) -> tuple[int, Seconds]:
    """Returns the clients of a run, and its seconds for each accepted update.

    Raises:
        ConfigError: it accepted no update, or took no time.
        JournalError: the folder holds no run.
    """
    summary = Results(folder).summary
    if not summary["accepted"] or not summary["seconds"]:
        raise ConfigError(
            f"--run {folder}: accepted no update, so there is no rate to compare"
        )
    return summary["clients"], summary["seconds"] / summary["accepted"]
