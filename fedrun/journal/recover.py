"""Makes a coordinator from a journal: from the newest snapshot and later records."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedcore.coordinator import Coordinator
from fedcore.coordinator.events import Stepped
from fedcore.coordinator.state import ServerState
from fedcore.errors import IMPOSSIBLE, CorruptJournalError, JournalError
from fedcore.params import ParamSpec, digest
from fedcore.protocol import Epoch
from fedcore.typing import JSON, Vector
from fedrun.config import FederationConfig, parse_config
from fedrun.journal.disk import impossible, making_sense_of
from fedrun.journal.journal import Journal
from fedrun.journal.store import Configured

_log = logging.getLogger(__name__)
WITHOUT_UPDATES = "without updates"  # noted in the journal of such a run
SECRET = "secret"  # noted in it: what proofs are made with. Never shown to anybody


@dataclass(frozen=True)
class Recovered:
    """A recovered coordinator, and how many records were replayed for it."""

    coordinator: Coordinator
    run_id: str
    snapshot: int | None  # the record up to which a snapshot held the state
    replayed: int  # records applied after it


def new_coordinator(
    config: FederationConfig,
    spec: ParamSpec,
    initial_D: Vector,
    epoch: Epoch,
    secret: bytes | None = None,
    *,
    served: bool = True,
) -> Coordinator:
    """Makes a coordinator at version 0; ``served`` as in :class:`Coordinator`."""
    return Coordinator(
        config.algorithm.build(spec),
        initial_D,
        epoch=epoch,
        seed=config.seed,
        stop=config.stop,
        evaluate=config.evaluate,
        timeouts=config.timeouts,
        secret=secret,
        served=served,
    )


def recover(journal: Journal) -> Recovered:
    """Makes the coordinator that the journal describes, bit for bit.

    Raises:
        CorruptJournalError: a record or a model differs from what was written.
    """
    start = journal.newest_snapshot()
    while True:
        try:
            return recover_from(journal, start)
        except CorruptJournalError as error:
            if start is None:
                raise
            older = journal.newest_snapshot(start - 1)
            if (older or 0) < journal.store.first_payload():
                raise  # payloads after the older snapshot were dropped
            _log.warning("%s; going back to an older snapshot", error)
            start = older


def recover_from(
    journal: Journal, start: int | None, until: int | None = None
) -> Recovered:
    """Makes the coordinator from a snapshot, or from version 0, up to a record."""
    require_updates(journal)
    first = journal.store.first_payload()
    if (start or 0) < min(first, first if until is None else until):
        raise JournalError(
            f"{journal.folder}: payloads up to record {first} were dropped "
            f"(journal.keep_bytes, or a repair), and no snapshot covers them"
        )
    recorded = journal.configurations()
    newest = recorded[-1][1]
    spec, initial_D = _initial(journal, newest)
    config = parse_config(newest.config)
    coordinator = new_coordinator(
        config, spec, initial_D, newest.epoch, secret_of(journal)
    )
    algorithms = {
        n: parse_config(each.config).algorithm.build(spec) for n, each in recorded
    }
    state = coordinator.state
    state.amend(
        algorithms[max(n for n in algorithms if n <= (start or recorded[0][0]))]
    )
    if start is not None:
        _load(state, journal, start)
    replayed = 0
    for number, record in journal.entries(start or 0):
        if until is not None and number > until:
            break
        replayed += 1
        if isinstance(record, Configured):
            state.amend(algorithms[number])
            continue
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # digests tell
                state.restore(record)
        except IMPOSSIBLE as error:
            raise impossible(f"{journal.folder}: record {number}", error) from error
        if isinstance(record, Stepped) and state.published.digest != record.digest:
            raise CorruptJournalError(
                f"{journal.folder}: record {number}: version {record.version} should "
                f"have digest {record.digest}, the replay has {state.published.digest}"
            )
    return Recovered(coordinator, newest.run_id, start, replayed)


def _load(state: ServerState, journal: Journal, number: int) -> None:
    """Takes over the state that a snapshot holds.

    Raises:
        CorruptJournalError: it is damaged, or not of this run.
    """
    scalars, arrays = journal.snapshots.load(number)
    with making_sense_of(str(journal.snapshots.path(number))):
        load_state(state, scalars, arrays)


def load_state(state: ServerState, scalars: JSON, arrays: Mapping[str, Any]) -> None:
    """Takes over the state of a server, for the same algorithm.

    Raises:
        TypeError, ValueError, LookupError, AttributeError: it is not one of its.
    """
    state.load(scalars, arrays)
    for vector_D in (state.exact_D, state.published.public_D):
        if vector_D.shape != (state.algorithm.spec.dim,):
            raise ValueError(f"it has a model of the shape {vector_D.shape}")
        if vector_D.dtype != np.float32:
            raise TypeError(f"it has a model of the type {vector_D.dtype}")


def require_updates(journal: Journal) -> None:
    """Checks that the journal holds the updates that were decided on.

    Raises:
        JournalError: the run was simulated in stacks, which keep no updates.
    """
    if journal.store.read_fact(WITHOUT_UPDATES):
        raise JournalError(
            f"{journal.folder}: this run was simulated in stacks; its journal has the "
            "decisions, but no updates. Simulate it again with --set "
            "simulate.engine.kind=exact"
        )


def require_all_updates(journal: Journal) -> None:
    """Checks that the journal holds every update since version 0.

    Raises:
        JournalError: payloads were dropped, or the run kept none.
    """
    require_updates(journal)
    if first := journal.store.first_payload():
        raise JournalError(
            f"{journal.folder}: payloads up to record {first} were dropped "
            "(journal.keep_bytes, or a repair); a replay needs them all"
        )


def secret_of(journal: Journal) -> bytes | None:
    """Returns the secret of the run's proofs; None if the run was never served."""
    return journal.store.read_fact_as(bytes.fromhex, SECRET)


def _initial(journal: Journal, configured: Configured) -> tuple[ParamSpec, Vector]:
    spec, initial_D = journal.initial()
    if spec.to_json() != configured.spec or digest(initial_D) != configured.origin:
        raise CorruptJournalError(
            f"{journal.folder}: models/initial.safetensors is not the model that the "
            "run began with"
        )
    return spec, initial_D
