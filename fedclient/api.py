"""``latecomer.join`` and ``latecomer.evaluate``: clients from Python."""

from collections.abc import Mapping
from pathlib import Path
from types import NoneType
from typing import Any

from fedclient.commands import run_evaluator, working
from fedclient.device.pace import read_pace
from fedcore.errors import ConfigError, WorkloadError
from fedcore.workload import Workload

Place = str | Path
_MOST = 2**32 - 1  # clients that the protocol can count


def join(
    address: str,
    workload: Workload | str,
    *,
    state: Place,
    name: str = "",
    index: int = 0,
    count: int = 1,
    data: Mapping[str, str] | None = None,
    model: Place | None = None,
    device: str | None = None,
    choose: Mapping[str, Any] | None = None,
    conditions: Place | None = None,
    pace: float | Place = 0.0,
    updates: int | None = None,
    workers: int | None = None,
    stragglers: int | None = None,
    phases: Place | None = None,
    give_up: float | None = None,
    ca: Place | None = None,
    certificate: Place | None = None,
    key: Place | None = None,
    plaintext: bool = False,
) -> None:
    """Trains for a federation until it has ended; ``fedclient join`` from Python.

    Blocks. It sets no handler of signals, so it can be called in any thread. An
    exception, also that of Ctrl-C, loses nothing: the same call continues. What happens
    is logged to the logger ``fedclient``.

    Args:
        address: of the server, as HOST or HOST:PORT.
        workload: the model and the data, or the name of an app, such as
            ``my_app:workload``.
        state: the client's own folder, which it keeps between starts.
        name: the client's name. Without one, a random one.
        index: which of ``count`` clients this is, from 0; passed to ``train_data``.
        count: how many clients share the data; passed to ``train_data``.
        data: what ``train_data`` finds in ``client.args``.
        model: a file with version 0, so that it need not be downloaded.
        device: where to compute: cpu, cuda, cuda:1, mps, or auto for the best that this
            machine has. Without it, the workload's own choice.
        choose: settings of the client algorithm that this client chooses itself, where
            the federation lets it.
        conditions: a file that says when tasks may begin.
        pace: the least seconds of each task, or a file with a line for each task.
        updates: leave for good after this many updates.
        workers: compute the gradients in this many processes, which import the app by
            its name.
        stragglers: how many of the workers may be late or killed at any moment.
        phases: a file to which the phases of tasks are written; ``predict`` reads it.
        give_up: how many seconds to wait for the server before giving up. Without it,
            wait forever.
        ca: the authority that signed the server's certificate.
        certificate: the certificate to show the server.
        key: the private key of the certificate.
        plaintext: use no TLS, even to a server on another machine.

    Raises:
        ConfigError: an argument has an impossible value.
        WorkloadError: the app cannot be found, or its code, model or data cannot be
            used.
        RefusedError: the server does not admit this client.
        UnavailableError: the server does not answer for ``give_up`` seconds.
        StateError: the folder cannot be used, or belongs to another run.
    """
    _require_workload(workload)
    _require("address", address, "HOST or HOST:PORT", str)
    _require("state", state, "the path of a folder", str, Path)
    _require("name", name, "a text", str)
    for what, number in (("index", index), ("count", count)):
        _require(what, number, "a whole number", int)
    _require("data", data, "values by name", Mapping, NoneType)
    _require("choose", choose, "values by name", Mapping, NoneType)
    _require("updates", updates, "a whole number", int, NoneType)
    _require_patience(give_up)
    if updates is not None and updates < 1:
        raise ConfigError(f"updates: expected 1 or more, got {updates}")
    if not 0 <= index < count <= _MOST:
        raise ConfigError(
            f"index={index} and count={count}: expected an index from 0 on, below the "
            f"count, which is {_MOST} at most"
        )
    with working(
        host=address,
        app=workload,
        state=Path(state),
        name=name,
        index=index,
        count=count,
        data={key: str(value) for key, value in (data or {}).items()},
        checkpoint=_path(model),
        device=device,
        choose=choose or {},
        conditions=_path(conditions),
        pace=read_pace(str(pace)),
        updates=updates,
        workers=workers,
        stragglers=stragglers,
        phases=_path(phases),
        give_up=give_up,
        ca=_path(ca),
        certificate=_path(certificate),
        key=_path(key),
        plaintext=plaintext,
    ) as worker:
        worker.run()


def evaluate(
    address: str,
    workload: Workload | str,
    *,
    state: Place | None = None,
    name: str = "evaluator",
    model: Place | None = None,
    device: str | None = None,
    give_up: float | None = None,
    ca: Place | None = None,
    certificate: Place | None = None,
    key: Place | None = None,
    plaintext: bool = False,
) -> None:
    """Evaluates a federation's models until it has ended; ``fedclient evaluate``.

    Blocks, and sets no handler of signals. The metrics are in the run's results. The
    server's config names the evaluators that it admits (``evaluate.evaluators``), or
    they show a certificate of an evaluator.

    Args:
        address: of the server, as HOST or HOST:PORT.
        workload: the model and its ``test_data``, or the name of an app.
        state: the evaluator's own folder. Not needed with a certificate.
        name: the evaluator's name.
        model: a file with version 0, so that it need not be downloaded.
        device: where to compute. Without it, the workload's own choice.
        give_up: how many seconds to wait for the server before giving up. Without it,
            wait forever.
        ca: the authority that signed the server's certificate.
        certificate: the certificate to show the server.
        key: the private key of the certificate.
        plaintext: use no TLS, even to a server on another machine.

    Raises:
        ConfigError: an argument is missing or has an impossible value.
        WorkloadError: the app cannot be found, or has no test data.
        RefusedError: the server does not admit this evaluator.
        UnavailableError: the server does not answer for ``give_up`` seconds.
    """
    _require_workload(workload)
    _require("address", address, "HOST or HOST:PORT", str)
    _require("state", state, "the path of a folder", str, Path, NoneType)
    _require("name", name, "a text", str)
    _require_patience(give_up)
    run_evaluator(
        address,
        _path(state),
        name,
        app=workload,
        checkpoint=_path(model),
        device=device,
        give_up=give_up,
        ca=_path(ca),
        certificate=_path(certificate),
        key=_path(key),
        plaintext=plaintext,
    )


def _path(place: Place | None) -> Path | None:
    return None if place is None else Path(place)


def _require_workload(workload: object) -> None:
    """Checks the type.

    Raises:
        WorkloadError: it is neither a workload nor a name.
    """
    if not isinstance(workload, Workload | str):
        raise WorkloadError(
            "workload: expected a Workload, a TorchWorkload or the name of an app, got "
            f"{type(workload).__name__}"
        )


def _require(what: str, value: object, wanted: str, *kinds: type) -> None:
    """Checks the type of an argument.

    Raises:
        ConfigError: it is none of ``kinds``.
    """
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise ConfigError(f"{what}: expected {wanted}, got {value!r}")


def _require_patience(give_up: object) -> None:
    """Checks for how long to wait.

    Raises:
        ConfigError: it is no number of seconds.
    """
    _require("give_up", give_up, "seconds from 0 on", int, float, NoneType)
    if isinstance(give_up, int | float) and not give_up >= 0:
        raise ConfigError(f"give_up: expected seconds from 0 on, got {give_up!r}")
