"""The work behind the commands of ``fedclient``."""

import contextlib
import logging
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fedwire.connect import parse_address
from fedwire.v1 import federation_pb2 as pb

from fedclient.device.conditions.config import read_conditions
from fedclient.device.conditions.gate import ALWAYS, Gate
from fedclient.device.conditions.readings import Reader
from fedclient.device.pace import AT_ONCE, Pace
from fedclient.silo.workload import read_workers, with_workers
from fedclient.state.store import ClientStore
from fedclient.wire.phases import OFF, Both, PhaseLog
from fedclient.wire.spans import SpanPhases
from fedclient.work.evaluator import Evaluator
from fedclient.work.membership import Identity, Membership
from fedclient.work.worker import Worker
from fedcore.errors import ConfigError, SpecMismatchError
from fedcore.model import FlatModel
from fedcore.training import initial_model
from fedcore.typing import JSON
from fedcore.user_code import user_code
from fedcore.workload import Client, Workload
from fedrun.app import code_hash, load_app
from fedrun.evaluation import Evaluation, evaluate_files, require_test_data
from fedrun.files import load_model_for, save_model, warm_start
from fedrun.tracing import OFF as NO_TRACES
from fedrun.tracing import make_tracer

_log = logging.getLogger("fedclient")


@contextlib.contextmanager
def working(
    *,
    host: str,
    app: str | Workload,
    state: Path,
    name: str,
    index: int,
    count: int,
    data: Mapping[str, str],
    give_up: float | None,
    checkpoint: Path | None,
    device: str | None = None,
    updates: int | None = None,
    pace: Pace = AT_ONCE,
    choose: Mapping[str, Any] = MappingProxyType({}),
    phases: Path | None = None,
    workers: int | None = None,
    stragglers: int | None = None,
    conditions: Path | None = None,
    **trust: Any,
) -> Iterator[Worker]:
    """Makes a worker that is ready to join; releases its folder at the end.

    The arguments are those of :func:`fedclient.api.join`, ``checkpoint`` is its
    ``model``.

    Raises:
        ConfigError: an argument has an impossible value.
    """
    if index >= count:
        raise ConfigError(f"--index {index} of --count {count}: it counts from 0")
    address = parse_address(host, **trust)
    code, gate = read_workers(workers, stragglers), read_gate(conditions)
    workload = _workload(app, device)
    # At the end the workers stop first, and the file of the trace is closed last.
    with contextlib.ExitStack() as closing, contextlib.ExitStack() as silo:
        if code is not None:
            if not isinstance(app, str):
                raise ConfigError(
                    "--workers: the workers import the app by its name; give the name "
                    "in place of the workload"
                )
            workload = with_workers(workload, app, device, code, silo)
        model = _advise(workload.flat())
        store = ClientStore(state)
        closing.callback(store.close)
        member = Membership(
            address,
            model,
            store,
            Identity(name=name, index=index, count=count, code=_code(app)),
            give_up,
            checkpoint,
            choose,
        )
        _begin(member, closing)
        client = Client(name or store.name() or "", index, count, dict(data))
        if phases is not None:
            connection = member.connection
            log = PhaseLog(phases, connection.transferred)
            traced = connection.phases is not OFF
            connection.phases = Both(log, connection.phases) if traced else log
        yield Worker(
            member, workload, model, client, updates=updates, pace=pace, gate=gate
        )


def read_gate(path: Path | None) -> Gate:
    """Returns what lets a client begin tasks.

    Raises:
        ConfigError: the file is wrong, or this device does not tell what it asks for.
    """
    if path is None:
        return ALWAYS
    asked = read_conditions(path)
    reader = Reader(asked)
    reader.require_known()
    return Gate(asked, reader)


def run_evaluator(
    host: str,
    state: Path | None,
    name: str,
    *,
    app: str | Workload,
    give_up: float | None,
    checkpoint: Path | None,
    device: str | None = None,
    **trust: Any,
) -> None:
    """Evaluates until the run has ended."""
    address = parse_address(host, **trust)
    workload = _workload(app, device)
    test_data = require_test_data(workload, app if isinstance(app, str) else name)
    if state is None and address.certificate is None and not address.is_socket:
        raise ConfigError(
            f"--state is missing: the name {name!r} belongs to the key that is kept "
            "there (without a folder, show a --certificate)"
        )
    model = workload.flat()
    with contextlib.ExitStack() as stack:
        folder = state or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        identity = Identity(role=pb.ROLE_EVALUATOR, name=name)
        store = ClientStore(folder)
        stack.callback(store.close)
        member = Membership(address, model, store, identity, give_up, checkpoint)
        _begin(member, stack)
        with user_code("test_data"):
            data = test_data()
        Evaluator(member, model, data).run()


def _begin(member: Membership, closing: contextlib.ExitStack) -> None:
    """Has a client closed at the end, and traced if the environment asks for it.

    Raises:
        ConfigError: a package is missing, or the environment asks for what is not here.
    """
    closing.callback(lambda: member.connection.phases.close())
    closing.callback(member.close)
    tracer = make_tracer("fedclient")
    if tracer is not NO_TRACES:
        member.connection.phases = SpanPhases(tracer)


def write_model(app: str, out: Path, seed: int, source: Path | None = None) -> str:
    """Writes version 0 of an app's model; returns a sentence about the file.

    Args:
        app: the workload's name.
        out: the file to write.
        seed: of the run.
        source: a file that has the values; None: they are drawn.
    """
    model = _advise(_make_here(app))
    flat_D = initial_model(model, seed) if source is None else warm_start(model, source)
    save_model(out, model.spec, flat_D, rest=model.rest(), seed=str(seed))
    return f"{out}: {model.spec.dim} values in {len(model.spec.tensors)} tensors"


def fit_model(app: str, out: Path, source: Path) -> JSON:
    """Compares a model file with an app's model, for another process.

    Args:
        app: the workload's name.
        out: is written, if a server cannot begin with ``source`` as it is.
        source: the file.

    Returns:
        What differs (``misfit``; empty: nothing), and what was done to its values
        (``changes``).
    """
    model = _make_here(app)
    try:
        loaded = load_model_for(model.spec, source, model.rest(), "the app's model")
    except SpecMismatchError as error:
        return {"misfit": str(error), "changes": []}
    if not loaded.is_own:
        save_model(out, model.spec, loaded.flat_D, rest=model.rest())
    return {"misfit": "", "changes": list(loaded.changes)}


def _make_here(app: str) -> FlatModel:
    """An app's model on the CPU, which is here whatever clients compute on."""
    return load_app(app).on("cpu").flat()


def _advise(model: FlatModel) -> FlatModel:
    if model.advice:
        _log.warning("%s", model.advice)
    return model


def evaluate_models(
    app: str, paths: Sequence[Path], device: str | None = None
) -> Iterator[tuple[Path, Evaluation]]:
    """Evaluates model files on the app's test data; yields each with its metrics."""
    found = evaluate_files(_workload(app, device), paths, app)
    yield from zip(paths, found, strict=True)


def _workload(app: str | Workload, device: str | None) -> Workload:
    """Returns the workload on this device; as it is if no device is given."""
    workload = load_app(app) if isinstance(app, str) else app
    return workload if device is None else workload.on(device)


def _code(app: str | Workload) -> str:
    """Returns the digest of an app's code; none of an object, which has no file."""
    return code_hash(app) if isinstance(app, str) else ""
