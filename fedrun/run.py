"""Opens a run: begins a new one, or resumes one from its journal."""

import platform
import secrets
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from fedcore.coordinator import Coordinator
from fedcore.coordinator.actions import Action
from fedcore.coordinator.answers import objection
from fedcore.coordinator.events import Act, Freed, SnapshotOrdered, Stepped
from fedcore.errors import ConfigError, JournalError, SpecMismatchError
from fedcore.params import NO_REST, ParamSpec, Rest, digest, on_grid, version_0
from fedcore.proofs import SECRET_BYTES
from fedcore.trees import Arrays
from fedcore.typing import JSON, Seconds, Vector
from fedrun.config import FederationConfig, parse_config
from fedrun.files import load_model, load_model_for, load_rest
from fedrun.journal import Configured, Journal, exists, new_coordinator, recover, remove
from fedrun.journal.recover import SECRET
from fedrun.journal.repair import cut_off
from fedrun.journal.store import NO_FACTS, split_actions
from fedrun.lock import is_locked
from fedrun.methods import list_packages, require_same


@dataclass
class Run:
    """A coordinator with its journal, ready for events."""

    config: FederationConfig
    run_id: str
    journal: Journal
    coordinator: Coordinator
    actions: list[Action]  # to be carried out first; their records are on disk
    recovered: int | None  # records replayed; None for a fresh run

    def snapshot(
        self, number: int, more: JSON | None = None, beside: Arrays | None = None
    ) -> None:
        """Writes the state after record ``number``, from which a restart can begin.

        Args:
            number: of the last record.
            more: what else belongs to it, such as simulated clients.
            beside: vectors of that, under names that the server's state has not.

        Raises:
            DiskError: it could not be written.
        """
        scalars, arrays = self.coordinator.state.dump()
        scalars, arrays = {**scalars, **(more or {})}, {**arrays, **(beside or {})}
        keep_bytes = self.config.journal.keep_bytes
        self.journal.save_snapshot(number, scalars, arrays, keep_bytes)


def fresh_name() -> str:
    """Returns a random 64-bit name, for an epoch or a run."""
    return secrets.token_hex(8)


def open_run(
    config: FederationConfig,
    at: Seconds,
    *,
    amend: bool = False,
    durable: bool = True,
    model: Path | None = None,
) -> Run:
    """Opens the run in the config's journal folder.

    Args:
        config: of the run.
        at: now.
        amend: go on with another algorithm.
        durable: whether what is written outlasts a power cut.
        model: the file with which a new run begins; None: the config's.

    Raises:
        ConfigError: the journal's algorithm or seed is another one.
        JournalError: the folder cannot be used.
    """
    folder = config.server.journal
    if not exists(folder):
        begins_with = model or config.model
        spec, initial_D = load_model(begins_with)
        return start_run(
            config,
            spec,
            initial_D,
            at,
            rest=load_rest(begins_with),
            durable=durable,
            secret=secrets.token_bytes(SECRET_BYTES),
        )
    journal = Journal.open(folder)
    try:
        return _resume(journal, config, at, amend=amend)
    except BaseException:
        journal.close()
        raise


def free_name(folder: Path, name: str, at: Seconds) -> bool:
    """Frees a client's name in a run that no server has; returns whether it was taken.

    Raises:
        JournalError: there is no run, or a server has it.
    """
    with _open_unserved(folder, at) as run:
        actions = run.coordinator.handle(Freed(at=at, name=name))
        _persist(run.journal, actions)
        return bool(actions)


class Done(NamedTuple):
    """The outcome of an operator's act."""

    version: int
    """The newest version of the run."""
    snapshot: Path | None = None
    """The file that was asked for."""


def operate(folder: Path, act: Act) -> Done:
    """Carries out an act of an operator in a run that no server has.

    Raises:
        ConfigError: it cannot be done; the message says why.
        JournalError: there is no run, a server has it, or its disk failed.
    """
    with _open_unserved(folder, act.at) as run:
        coordinator, journal = run.coordinator, run.journal
        act = replace(act, at=max(act.at, coordinator.state.at))
        if reason := objection(act, coordinator.state):
            raise ConfigError(f"{folder}: {reason}")
        _persist(journal, coordinator.handle(act))
        done = Done(coordinator.state.version)
        if isinstance(act, SnapshotOrdered):
            number = journal.store.last
            run.snapshot(number)
            done = done._replace(snapshot=journal.snapshots.path(number))
        return done


@contextmanager
def _open_unserved(folder: Path, at: Seconds) -> Iterator[Run]:
    """Opens a run that no server has, with the settings that it has."""
    with closing(Journal.open(folder)) as journal:
        recorded = journal.configurations()[-1][1]
        yield _resume(journal, parse_config(recorded.config), at, amend=False)


def require_run(folder: Path) -> None:
    """Checks that a folder holds a run.

    Raises:
        JournalError: there is none, as on a volume that is not mounted.
    """
    if not exists(folder):
        raise JournalError(
            f"{folder}: there is no run here to resume; is the volume mounted? "
            "Without --must-resume a new run begins"
        )


def forget_failed(folder: Path) -> bool:
    """Removes a simulation without versions; returns whether it was one.

    The run of a server is never removed: clients may know it.

    Raises:
        JournalError: it cannot be read.
    """
    if is_locked(folder):
        return False
    with closing(Journal.open(folder, read_only=True)) as journal:
        is_served = journal.store.read_fact(SECRET) is not None
        has_versions = any(journal.store.find(Stepped.__name__))
    if is_served or has_versions:
        return False
    remove(folder)
    return True


def start_run(
    config: FederationConfig,
    spec: ParamSpec,
    initial_D: Vector,
    at: Seconds,
    *,
    rest: Rest = NO_REST,
    durable: bool = True,
    epoch: str | None = None,
    secret: bytes | None = None,
) -> Run:
    """Begins a run from this model; rounds it to the grid if messages must add exactly.

    ``rest`` goes into the files of its models, which are whole checkpoints then.
    ``secret`` is for the proofs that clients are given; simulated ones need none.

    Raises:
        ModelError: the model is not finite.
    """
    spec.require_finite(initial_D, "version 0 of the model")
    if config.algorithm.downlink.adds_exactly:
        initial_D = on_grid(initial_D)
    epoch, run_id = epoch or fresh_name(), fresh_name()
    configured = _record_setup(config, at, run_id, spec, epoch, digest(initial_D))
    facts = NO_FACTS if secret is None else {SECRET: secret.hex()}
    journal = Journal.create(
        config.server.journal,
        configured,
        initial_D,
        rest=rest,
        facts=facts,
        durable=durable,
    )
    coordinator = new_coordinator(config, spec, initial_D, epoch, secret)
    return _begin(Run(config, run_id, journal, coordinator, [], None), at)


def _resume(
    journal: Journal, config: FederationConfig, at: Seconds, *, amend: bool
) -> Run:
    recorded = journal.configurations()[-1][1]
    changes = differences(_as_json(parse_config(recorded.config)), _as_json(config))
    _refuse_changes(journal, changes, amend=amend)
    if not amend:
        require_same(recorded.config)
    if journal.store.read_fact(SECRET) is None:  # a simulation
        journal.store.note(SECRET, secrets.token_hex(SECRET_BYTES))
    recovered = recover(journal)
    coordinator = recovered.coordinator
    require_first_model(config, coordinator.algorithm.model, recorded)
    coordinator.algorithm.config.require_successor(config.algorithm)
    at = max(at, coordinator.state.at)
    actions: list[Action] = []
    if journal.loss is not None:
        actions += cut_off(journal, coordinator, at, fresh_name())
    if changes:
        spec = coordinator.algorithm.model
        if coordinator.state.count and any(
            "algorithm.aggregator" in c for c in changes
        ):
            actions += _persist(journal, coordinator.flush(at))
        configured = _record_setup(
            config, at, recorded.run_id, spec, recorded.epoch, recorded.origin
        )
        journal.append([configured])
        coordinator.amend(
            config.algorithm.build(spec), config.stop, config.evaluate, config.timeouts
        )
    resume = any(change.startswith("stop") for change in changes)
    run = Run(
        config, recorded.run_id, journal, coordinator, actions, recovered.replayed
    )
    return _begin(run, at, resume=resume)


def _refuse_changes(journal: Journal, changes: list[str], *, amend: bool) -> None:
    """Refuses another seed, and another algorithm unless ``amend``."""
    seed = [change for change in changes if change.startswith("seed")]
    algorithm = [change for change in changes if change.startswith("algorithm")]
    if seed or (algorithm and not amend):
        raise ConfigError(
            f"{journal.folder}: this run began with other settings: "
            f"{'; '.join(seed + algorithm)}; put them back, or start another run "
            f"(server.journal){'' if seed else ', or say --amend'}"
        )


def _begin(run: Run, at: Seconds, *, resume: bool = False) -> Run:
    actions = run.coordinator.begin(at, resume=resume)
    run.actions += _persist(run.journal, actions)
    return run


def _persist(journal: Journal, actions: list[Action]) -> list[Action]:
    """Makes records durable; returns the other actions, to be carried out then."""
    records, others = split_actions(actions)
    if records:
        journal.append(records)
    return others


def require_first_model(
    config: FederationConfig, spec: ParamSpec, recorded: Configured
) -> None:
    """Compares the config's ``model``, if it is there, with what a run began with.

    Args:
        config: names the file.
        spec: of the run's model.
        recorded: the record of the run's settings.

    Raises:
        SpecMismatchError: it is another model.
    """
    if not config.model.is_file():
        return
    loaded = load_model_for(spec, config.model)
    if version_0(loaded.flat_D, recorded.origin) is None:
        raise SpecMismatchError(
            f"{config.model} is not the model that this run began with; put it back, "
            "or start another run (server.journal)"
        )


def differences(old: Any, new: Any, path: str = "") -> list[str]:
    """Lists the differences between two configs, as ``field: old -> new``."""
    if isinstance(old, dict) and isinstance(new, dict):
        found = []
        for key in sorted({*old, *new}):
            inner = f"{path}.{key}" if path else key
            found += differences(old.get(key), new.get(key), inner)
        return found
    return [] if old == new else [f"{path}: {old!r} -> {new!r}"]


def _as_json(config: FederationConfig) -> Any:
    return config.model_dump(mode="json")


def _record_setup(
    config: FederationConfig,
    at: Seconds,
    run_id: str,
    spec: ParamSpec,
    epoch: str,
    origin: str,
) -> Configured:
    versions = {"python": platform.python_version(), "machine": platform.machine()}
    for package in ("latecomer", "numpy", *list_packages()):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "unknown"
    return Configured(
        at=at,
        run_id=run_id,
        seed=config.seed,
        config=_as_json(config),
        spec=spec.to_json(),
        epoch=epoch,
        origin=origin,
        versions=versions,
    )
