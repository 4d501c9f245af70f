"""Tries the data and one gradient of the first clients, before a run begins.

The first gradient shows whether a module can be computed for many clients at once, and
whether it can be trained at all.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from fedcore.errors import NotStackableError, WorkloadError
from fedcore.model import FlatModel, StackedModel
from fedcore.rng import Key
from fedcore.samples import require_stackable, stack
from fedcore.user_code import user_code
from fedcore.workload import Client, Workload
from fedsim.engines.fates import nobody_trains


class Tried(NamedTuple):
    """The result of one client's trial."""

    is_read: bool = True
    """Whether the client's data could be read; if not, its training will report it."""
    error: WorkloadError | None = None
    """The error of one step of the client's training; None if it worked."""


def try_clients(clients: Iterable[Client], attempt: Callable[[Client], Tried]) -> None:
    """Tries clients one after the other, until one can train.

    One client's own data may be the reason for a failure.

    Args:
        clients: the first clients.
        attempt: tries one of them.

    Raises:
        NotStackableError: the model cannot do something for many clients at once.
        WorkloadError: none of them can train, so that no client will.
    """
    tried: dict[str, Tried] = {}
    for client in clients:
        found = tried[client.name] = attempt(client)
        if isinstance(found.error, NotStackableError):
            raise found.error
        if found.is_read and found.error is None:
            return
    errors = [found.error for found in tried.values() if found.error is not None]
    if errors and len(errors) == len(tried):
        raise nobody_trains([*tried], errors[-1])


def try_here(
    stacked: StackedModel, model: FlatModel, workload: Workload, client: Client
) -> Tried:
    """Computes one gradient of a client, alone and in a stack, in this process."""
    whose = f"train_data of {client.name}"
    try:
        with user_code(whose):
            samples = workload.samples(workload.train_data(client), whose)
            count = min(2, len(samples))
            batch = samples.batch(np.arange(count))
            require_stackable(batch, count)
            x_1B, y_1B = (stack([part]) for part in batch)
    except WorkloadError as error:
        if isinstance(error, NotStackableError):
            return Tried(error=error)
        return Tried(is_read=False)
    local_L = () if model.local_L is None else model.local_L
    w_D = np.append(model.initial(Key.root(0)), local_L).astype(np.float32)
    try:
        with user_code("training"):
            model.gradient(w_D, *batch)
            stacked.gradient(w_D[np.newaxis], x_1B, y_1B, np.array([count]))
    except WorkloadError as error:
        return Tried(error=error)
    return Tried()
