"""One task, one client: from the public model to an update.

The result depends on the model, the data, the key and the settings alone, so it is
the same wherever the task runs.
"""

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from fedcore.algorithm import Algorithm
from fedcore.clients import ClientAlgorithmConfig, join_kept, split_kept
from fedcore.errors import StoppedError
from fedcore.evaluation import check_metrics
from fedcore.model import EvaluatesVersion, FlatModel, Metrics, Writer
from fedcore.participant import ParticipantState, Trained, assign, start_of
from fedcore.protocol import ModelName, Plan
from fedcore.rng import Key, Words, word, words
from fedcore.text import printable
from fedcore.typing import Counts, Indices, State, Vector
from fedcore.user_code import LONG_TEXT, user_code
from fedcore.workload import NOBODY, Client, LocalTask, Workload


def client_seed(seed: int, client: str) -> int:
    """Returns the seed of the stream that gives the keys of a client's tasks."""
    return Key.root(seed).fold_in("client", client).seed()


def task_key(seed: int, client: str, seq: int) -> Key:
    """Returns the randomness of a client's task.

    It is two words of the client's stream, so the keys of many tasks can be drawn
    together.

    Args:
        seed: of the run.
        client: the client's name.
        seq: the sequence number of the task's message.
    """
    stream = client_seed(seed, client)
    pair = word(stream, 2 * seq), word(stream, 2 * seq + 1)
    return Key(b"".join(each.to_bytes(8, "big") for each in pair))


def task_seeds(client_seeds_N: Words, seq_N: Indices) -> Words:
    """Returns ``task_key(...).seed()`` for one task of each client, (N,)."""
    return words(client_seeds_N, 2 * seq_N) >> np.uint64(1)


def initial_model(model: FlatModel, seed: int) -> Vector:
    """Draws version 0 of a run, as its clients can do as well."""
    return model.initial(Key.root(seed).fold_in("initial"))


def text_of_model(model: FlatModel, public_D: Vector) -> str:
    """Returns what a model writes for people, printable; empty if it writes nothing."""
    if not isinstance(model, Writer):
        return ""
    return printable(model.write(public_D), lines=True)[:LONG_TEXT]


def evaluate_central(
    model: FlatModel, public_D: Vector, version: int, data: Any, *, told: bool = True
) -> tuple[Metrics, int]:
    """Evaluates a version of the model on the test data.

    Args:
        model: of the workload.
        public_D: the public model, shape (D,).
        version: of the public model.
        data: what ``test_data`` returned.
        told: whether the metrics are for the records of a run.

    Returns:
        The metrics, and the number of samples.

    Raises:
        WorkloadError: the metrics cannot be recorded.
    """
    if isinstance(model, EvaluatesVersion):
        values, samples = model.evaluate_version(public_D, data, version)
    else:
        values, samples = model.evaluate(public_D, data)
    return check_metrics(values) if told else values, samples


def evaluate_own(
    model: FlatModel,
    config: ClientAlgorithmConfig,
    public_D: Vector,
    version: int,
    kept: State,
    data: Any,
) -> tuple[Metrics, int]:
    """Evaluates what one client uses: the public model with its own local tensors.

    Metrics of its personal model follow as ``personal_...``, where it has one.

    Args:
        model: of the workload.
        config: of the client algorithm.
        public_D: the public model, shape (D,).
        version: of the public model.
        kept: what the client has kept from its last task; None: it has had none.
        data: the client's evaluation data.

    Returns:
        The metrics, and the number of samples.

    Raises:
        WorkloadError: the metrics cannot be recorded.
    """
    method, local_L = split_kept(kept, model.local_L)
    if isinstance(model, EvaluatesVersion):
        values, samples = model.evaluate_version(public_D, data, version, kept)
    else:
        values, samples = model.evaluate(public_D, data, local_L)
    personal_D = config.personal(method)
    if personal_D is not None:
        own, _ = model.evaluate(personal_D, data, local_L)
        values = {**values, **{f"personal_{name}": own[name] for name in own}}
    return check_metrics(values), samples


class Trainer:
    """Trains one workload's model with one client algorithm."""

    def __init__(
        self,
        workload: Workload,
        algorithm: Algorithm,
        *,
        model: FlatModel | None = None,
        share_labels: bool = True,
    ) -> None:
        self._workload = workload
        self._algorithm = algorithm
        self._share_labels = share_labels
        self.model = model or workload.flat()
        workload.fits(algorithm)
        for config in algorithm.clients.all:
            sampling = config.build().sampling
            if sampling is not None:  # refused before the first task, if at all
                workload.weighted_gradient(self.model, sampling.priority)
        algorithm.model.require(self.model.spec, "this workload's model")

    def plan(self, data: Any) -> Plan | None:
        """Returns what a client announces before it asks for a task.

        Args:
            data: what ``train_data`` returned for the client.

        Returns:
            None where the update filter does not judge tasks before they are
            computed, or where there are no samples.

        Raises:
            WorkloadError: the data are no samples.
        """
        samples = self._workload.samples(data, "train_data")
        count = len(samples)

        def label_counts() -> Counts | None:
            return samples.label_counts(np.arange(count))

        judges = self._algorithm.config.update_filter
        return judges.plan(count, label_counts if self._share_labels else None)

    def task(
        self,
        state: ParticipantState,
        data: Any,
        seed: int,
        client: Client,
        ahead: Trained | None = None,
    ) -> tuple[Trained, ModelName, Key]:
        """Computes a client's next task on the model that it holds.

        Args:
            state: of a participant that holds a model.
            data: what ``train_data`` returned for the client.
            seed: of the run.
            client: whose task it is.
            ahead: what :meth:`steps` returned, where the steps are taken already.

        Returns:
            The update, the model that it is based on, and the key for its message:
            the arguments of ``Participant.finish``.
        """
        assert state.held is not None
        assert state.public_D is not None
        key, held = task_key(seed, client.name, state.seq + 1), state.held
        uplink = self._algorithm.config.uplink
        start_D = start_of(uplink, state.public_D, state.memory_D)
        trained = ahead or self.steps(state, data, seed, client)
        trained = self._meet_model(start_D, trained, held.version, client)
        return trained, ModelName(held.epoch, held.version), key.fold_in("uplink")

    def steps(
        self,
        state: ParticipantState,
        data: Any,
        seed: int,
        client: Client,
        goes_on: Callable[[], bool] | None = None,
    ) -> Trained:
        """Takes the steps of a client's next task; see :meth:`task`.

        Where the client algorithm overlaps, they do not depend on the model that the
        client holds, once it has kept one of its own.

        Args:
            state: of a participant that holds a model.
            data: what ``train_data`` returned for the client.
            seed: of the run.
            client: whose task it is.
            goes_on: asked before each gradient; None: all steps are taken.

        Raises:
            StoppedError: it does not go on.
        """
        assert state.held is not None
        assert state.public_D is not None
        key = task_key(seed, client.name, state.seq + 1)
        given, version = assign(self._algorithm, state), state.held.version
        uplink, model = self._algorithm.config.uplink, self.model
        if goes_on is not None:
            model = cast(FlatModel, _Stoppable(model, goes_on))
        return self._steps(
            model,
            start_of(uplink, state.public_D, state.memory_D),
            data,
            key,
            state.kept,
            given.work,
            version,
            client,
            given.samples,
        )

    def train(
        self,
        start_D: Vector,
        data: Any,
        key: Key,
        kept: State = None,
        work: float = 1.0,
        version: int = 0,
        client: Client = NOBODY,
        wanted: int | None = None,
    ) -> Trained:
        """Returns the update of one task, Δ = start - w, on this version of the model.

        Raises:
            UserCodeError: the user's code raised.
            WorkloadError: the data are no samples, or there are none.
        """
        model = self.model
        trained = self._steps(
            model, start_D, data, key, kept, work, version, client, wanted
        )
        return self._meet_model(start_D, trained, version, client)

    def _steps(
        self,
        model: FlatModel,
        start_D: Vector,
        data: Any,
        key: Key,
        kept: State,
        work: float,
        version: int,
        client: Client,
        wanted: int | None,
    ) -> Trained:
        config = (
            self._algorithm.clients.of(client.name).at(version).with_samples(wanted)
        )
        task = LocalTask(
            config, key, kept, work, version, client, self._share_labels, wanted
        )
        self.model.seed(key.fold_in("model"))
        with user_code("training"):
            return self._workload.train_task(model, start_D, data, task)

    def _meet_model(
        self, start_D: Vector, trained: Trained, version: int, client: Client
    ) -> Trained:
        """Returns a task's result for the model that its update changes."""
        meet = self._algorithm.clients.of(client.name).at(version).build().meet
        if meet is None:
            return trained
        method, local_L = split_kept(trained.kept, self.model.local_L)
        delta_D, kept = meet(start_D, method)
        kept = kept if local_L is None else join_kept(kept, local_L)
        return trained._replace(delta_D=delta_D, kept=kept)


class _Stoppable:
    """A model whose training can be stopped between two steps."""

    def __init__(self, model: FlatModel, goes_on: Callable[[], bool]) -> None:
        self._model, self._goes_on = model, goes_on

    def gradient(self, w_D: Vector, x: Any, y: Any) -> tuple[float, Vector]:
        """Returns the model's gradient, as long as it goes on."""
        if not self._goes_on():
            raise StoppedError("nobody waits for these steps any more")
        return self._model.gradient(w_D, x, y)

    def __getattr__(self, name: str) -> Any:
        """Returns the model's attribute."""
        return getattr(self._model, name)
