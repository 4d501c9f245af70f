"""``latecomer.run``: a simulation from Python and notebooks."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console

from fedcore.errors import ConfigError, WorkloadError
from fedcore.workload import Workload
from fedrun.app import app_of, load_app
from fedrun.config import FederationConfig, read_config
from fedsim.progress import RunProgress
from fedsim.simulation import OnEvent, simulate
from fedview.callbacks import Callback, Notifier
from fedview.results import Results


def run(
    config: FederationConfig | Mapping[str, Any] | str | Path,
    workload: Workload | None = None,
    *,
    folder: str | Path | None = None,
    on_event: OnEvent | None = None,
    callbacks: Sequence[Callback] = (),
    data: Mapping[str, str] | None = None,
    progress: bool | None = None,
    resume: bool = False,
) -> Results:
    """Simulates a federation and returns its results.

    The records of a run remain on disk even if an exception or Ctrl-C ends it. A note
    of the exception names the folder, and ``Results(folder)`` reads it.

    Args:
        config: the path of a YAML file, a mapping of the same shape, or a config that
            was read before.
        workload: the model and the data, as in a deployment. Without it, the one that
            ``app:`` names, which is looked for in the folder of the file.
        folder: the folder of the run. Without it, the next free one beside
            ``server.journal``.
        on_event: a function that is called with the run and each event. Where clients
            are computed in stacks, it is called after each version and each evaluation.
            If it returns a text, the run ends there, for that reason.
        callbacks: objects that receive the run's metrics; they may stop the run
            (:meth:`fedview.callbacks.Callback.stop`).
        data: items that are added to ``simulate.args``; ``train_data`` finds them in
            ``client.args``.
        progress: whether to show a bar in a notebook or on a terminal, and lines on
            the standard error elsewhere. Without a value, only in a notebook.
        resume: continue the run in ``folder``, which was interrupted or killed, from
            its last snapshot.

    Returns:
        The tables, models and summary of the run.

    Raises:
        ConfigError: the config has mistakes or never ends, or the folder holds a run
            that made a version.
        ModelError: the file that ``model:`` names holds no model.
        SpecMismatchError: it holds another model than the workload's.
        WorkloadError: the user's code failed: in what all clients share, or until too
            few clients were left, or in the last evaluations; or one client alone does
            not fit into memory.
    """
    _check_given(workload, on_event, callbacks, data)
    if resume and folder is None:
        raise ConfigError("resume: say which run: folder=")
    path = Path(config) if isinstance(config, str | Path) else None
    read = read_config(config)
    if workload is None:
        workload = load_app(*app_of(None, read, path), fresh=True)
    read = _place(read, None if folder is None else Path(folder), data or {})
    console = Console(stderr=True)
    is_shown = console.is_jupyter if progress is None else progress
    with ExitStack() as stack:
        notifier = stack.enter_context(Notifier(callbacks))
        watching: list[OnEvent] = [notifier] if callbacks else []
        watching += [] if on_event is None else [on_event]
        if is_shown:
            watching.append(stack.enter_context(RunProgress(read.stop, console)))
        results = simulate(read, workload, watching, resume=resume)
        notifier.end(results)
    return results


def _place(
    config: FederationConfig, folder: Path | None, data: Mapping[str, str]
) -> FederationConfig:
    """Returns the config with the run's folder and the items for ``train_data``."""
    place = free_folder(config) if folder is None else folder
    server = config.server.model_copy(update={"journal": place})
    config = config.model_copy(update={"server": server})
    if not data:
        return config
    args = {**config.simulate.args, **{k: str(value) for k, value in data.items()}}
    section = config.simulate.model_copy(update={"args": args})
    return config.model_copy(update={"simulate": section})


def _check_given(
    workload: object, on_event: object, callbacks: object, data: object
) -> None:
    """Checks the types of the arguments.

    Raises:
        WorkloadError: the workload has a wrong type.
        ConfigError: another argument has a wrong type.
    """
    if workload is not None and not isinstance(workload, Workload):
        raise WorkloadError(
            "workload: expected a Workload or a TorchWorkload, got "
            f"{_kind(workload)}"
            + ("; a name belongs into the config, as app:" * isinstance(workload, str))
        )
    if on_event is not None and not callable(on_event):
        raise ConfigError(f"on_event: expected a function, got {_kind(on_event)}")
    if isinstance(callbacks, Callback) or not isinstance(callbacks, Sequence):
        raise ConfigError(
            f"callbacks: expected a list of Callback objects, got {_kind(callbacks)}"
        )
    for callback in callbacks:
        if not isinstance(callback, Callback):
            raise ConfigError(
                f"callbacks: expected Callback objects, got {_kind(callback)}"
            )
    if data is not None and not isinstance(data, Mapping):
        raise ConfigError(
            f"data: expected a mapping such as {{'site': 'a'}}, got {_kind(data)}"
        )


def _kind(given: object) -> str:
    if isinstance(given, type):
        return f"the class {given.__name__}; make an object of it"
    return type(given).__name__


def free_folder(config: FederationConfig, what: str = "sim") -> Path:
    """Returns an unused folder beside ``server.journal``, named after ``what``."""
    base = config.server.journal
    number = 1
    while (folder := base.with_name(f"{base.name}-{what}-{number}")).exists():
        number += 1
    return folder
