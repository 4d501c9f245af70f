"""One run of a sweep, in whatever process: its errors are results."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fedcore.errors import LatecomerError, UserCodeError
from fedcore.workload import last_words, user_code
from fedrun.app import load_app
from fedsim.campaign.play import play
from fedsim.campaign.trial import Trial, read_trial
from fedsim.sweep.cache import Cache


@dataclass(frozen=True)
class Task:
    """One simulation: all of it is plain data, for another process."""

    key: str
    """What it depends on, as a digest."""
    app: str
    place: Path
    """Where the app is looked for."""
    settings: dict[str, Any]
    scratch: Path
    """Its run is here until it was read."""
    kept: Path | None
    """The sweep's folder, if runs are kept."""


@dataclass(frozen=True)
class Failure:
    """A run that ended with an error."""

    sentence: str
    trace: str = ""
    """The end of the traceback of the user's code."""


def execute(task: Task) -> Trial | Failure:
    """Simulates, reads the result, and keeps the run if that was asked for."""
    try:
        with user_code("the simulation"):
            workload = load_app(task.app, task.place)
            with TemporaryDirectory(dir=task.scratch) as folder:
                run = Path(folder) / "run"
                played = play(workload, task.settings, run)
                trial = read_trial(played.results, broken=played.broken)
                if task.kept is not None:
                    Cache(task.kept).keep(task.key, run)
                return trial
    except UserCodeError as error:
        return Failure(str(error), last_words(error) if error.__cause__ else "")
    except LatecomerError as error:
        return Failure(str(error))
