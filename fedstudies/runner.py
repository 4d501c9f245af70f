"""The simulations of an experiment: each ends, and its result is plain data."""

import shutil
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Generic, TypeVar

from fedcore.coordinator.events import Failed
from fedcore.errors import DivergedError, LatecomerError, UserCodeError, WorkloadError
from fedcore.training import evaluate_central, initial_model
from fedcore.user_code import last_words, user_code
from fedcore.workload import Workload
from fedrun.app import load_app
from fedrun.config import FederationConfig
from fedrun.plain_files import make_own, remove_tree
from fedrun.run import Run
from fedsim.api import run
from fedstudies.processes import run_all
from fedstudies.trial import Trial, choose_metric, read_trial
from fedview.callbacks import Notice
from fedview.results import Results
from fedview.results.failures import last_line

Key = TypeVar("Key")
Found = TypeVar("Found")

# Events without a new version, per client, after which a federation has broken down:
# its clients train, and no update of theirs can be used.
PATIENCE = 500


@dataclass(frozen=True)
class Task(Generic[Key]):
    """A simulation to do, as plain data for another process."""

    key: Key
    """The caller's name for it."""
    app: str
    place: Path
    """The folder where the app is looked for."""
    settings: dict[str, Any]
    """The whole config."""
    scratch: Path
    """The folder that holds the run until its result was read."""
    kept: Path | None = None
    """The folder to which the run is moved afterwards; None: the run is deleted."""


@dataclass(frozen=True)
class Failure:
    """A simulation that ended with an error."""

    sentence: str
    trace: str = ""
    """The end of the traceback of the user's code."""


class BrokenDownError(LatecomerError):
    """The federation makes no versions any more."""


def require_measured(
    workload: Workload, config: FederationConfig, app: str, what: str
) -> None:
    """Checks that the models will be evaluated, before anything is simulated.

    Args:
        workload: the workload of the federation.
        config: its config, which says whether clients evaluate.
        app: the name of the workload.
        what: what is compared, in the plural, for the message.

    Raises:
        WorkloadError: there is no data to evaluate with.
    """
    if workload.test_data is None and not (
        config.evaluate.clients and workload.valid_data
    ):
        raise WorkloadError(f"app {app!r}: has no test_data to compare the {what} with")


def require_metric(
    workload: Workload, config: FederationConfig, metric: str | None
) -> None:
    """Checks that a metric is measured, by an evaluation of the initial model.

    Without ``test_data``, only the clients of a run can tell, and nothing is checked.

    Args:
        workload: the workload of the federation.
        config: its config.
        metric: the name; None: any metric will do.

    Raises:
        UserCodeError: the user's code raised.
        WorkloadError: it is not measured.
    """
    if metric is None or workload.test_data is None:
        return
    with user_code("the evaluation of the initial model"):
        model = workload.flat()
        initial_D, data = initial_model(model, config.seed), workload.test_data()
        values, _ = evaluate_central(model, initial_D, 0, data)
    choose_metric([*values], metric)


def simulate_all(
    function: Callable[[Task[Key]], Found],
    tasks: Callable[[Path], Iterable[Task[Key]]],
    folder: Path,
    jobs: int,
) -> Generator[tuple[Task[Key], Found]]:
    """Yields each simulation with its result, in the order in which they end.

    Args:
        function: :func:`simulate`, which raises an error, or :func:`attempt`, which
            returns it.
        tasks: makes the simulations, given the folder for their runs.
        folder: the folder in which that one is made; it is removed at the end.
        jobs: how many processes simulate.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (
        TemporaryDirectory(prefix=".scratch-", dir=folder) as scratch,
        closing(run_all(function, list(tasks(Path(scratch))), jobs)) as results,
    ):
        yield from results


def simulate(task: Task[Any]) -> Trial:
    """Simulates, reads the result, and keeps or deletes the run.

    Raises:
        LatecomerError: the app, the config or the user's code has a mistake.
    """
    workload = load_app(task.app, task.place)
    with TemporaryDirectory(dir=task.scratch) as folder:
        place = Path(folder) / "run"
        trial = simulate_in(place, workload, task.settings)
        if task.kept is not None:
            make_own(task.kept.parent)
            remove_tree(task.kept)
            shutil.move(place, task.kept)
        return trial


def attempt(task: Task[Any]) -> Trial | Failure:
    """Simulates like :func:`simulate`, and returns an error instead of raising it."""
    try:
        with user_code("the simulation"):
            return simulate(task)
    except UserCodeError as error:
        return Failure(str(error), last_words(error) if error.__cause__ else "")
    except LatecomerError as error:
        return Failure(str(error))


def simulate_in(folder: Path, workload: Workload, settings: dict[str, Any]) -> Trial:
    """Simulates a federation, and ends the run if the federation breaks down.

    Args:
        folder: the folder of the run.
        workload: the workload of the federation.
        settings: its whole config, as plain data.
    """
    broken = False
    try:
        run(settings, workload, folder=folder, on_event=Patience(settings))
    except (BrokenDownError, DivergedError):
        broken = True
    return read_trial(Results(folder), broken=broken)


class Patience:
    """Ends a simulation that makes no versions any more."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._most = PATIENCE * settings["simulate"]["clients"]
        self._version, self._events = 0, 0
        self.failure = ""
        """What a client's code raised since the newest version, in a line."""

    def __call__(self, run: Run, event: Notice) -> None:
        """Counts the events between two versions."""
        version = run.coordinator.state.version
        if version != self._version:
            self._version, self._events, self.failure = version, 0, ""
        if isinstance(event, Failed):
            self.failure = last_line(event.error)
        self._events += 1
        if self._events > self._most and run.coordinator.state.closed is None:
            raise BrokenDownError(f"no version after {version}")
