"""Version 0 of a Flower app: the first message that its ServerApp sends for training.

The ServerApp runs against a Grid that answers earlier requests, keeps the first message
of type ``train``, and then ends the ServerApp. A ServerApp of the older kind, with a
strategy of ``flwr.server.strategy`` and clients that are NumPyClients, is asked for the
parameters and the instructions of its first round.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import wraps
from inspect import signature
from typing import Any

from fedcore.errors import LatecomerError, WorkloadError
from fedcore.typing import Seconds
from fedcore.user_code import user_code
from fedflower.app.library import flwr
from fedflower.app.messages import EXAMPLES, RUN_ID, SERVER, as_numbers

LIMIT: Seconds = 120.0
MOST_NODES = 4096
LEGACY_TRAIN, LEGACY_EVALUATE = "fitins", "evaluateins"
# Arguments: a version, and its ArrayRecord.
CentralEvaluation = Callable[[int, Any], Mapping[str, float]]
Ask = Callable[[int, Any], Any]  # a node's number and a message; returns the reply
_ONE_AT_A_TIME = threading.Lock()


@dataclass
class First:
    """The ServerApp's first message, and its settings of training and evaluation.

    Attributes:
        arrays: the ArrayRecord of version 0.
        arrays_key: its name in a message.
        records: all other records of the message, by name.
        kind: the type of the message, such as ``train``.
        evaluate_config: the config of evaluations by clients; None: like ``records``.
        weight: the metric that holds a client's number of examples.
        rounds: the number of rounds of the ServerApp; None if unknown.
        fraction: the share of clients that train in a round.
        fewest: the least number of clients that train in a round.
        strategy: the name of its strategy; empty if unknown.
        evaluate: evaluates a model at the server; None if the ServerApp does not.
    """

    arrays: Any = None
    arrays_key: str = "arrays"
    records: dict[str, Any] = field(default_factory=dict)
    kind: str = "train"
    evaluate_config: Any = None
    weight: str = EXAMPLES
    rounds: int | None = None
    fraction: float = 1.0
    fewest: int = 1
    strategy: str = ""
    evaluate: CentralEvaluation | None = None

    @property
    def is_legacy(self) -> bool:
        """Whether the clients are of the older kind."""
        return self.arrays_key.startswith(LEGACY_TRAIN)


def first_message(
    app: Any, context: Any, ask: Ask, nodes: int, whose: str, limit: Seconds
) -> First:
    """Runs a ServerApp until it sends its first message for training.

    Args:
        app: the ServerApp.
        context: its Context.
        ask: answers an earlier message, as a client.
        nodes: the number of nodes of the Grid at first. Each repeated question before a
            message adds more nodes.
        whose: the app's name, for error messages.
        limit: how long to wait for the message.

    Raises:
        UserCodeError: the ServerApp raised.
        WorkloadError: the ServerApp ended without such a message, or sent none in time.
    """
    first, failure = First(), list[LatecomerError]()
    grid = _grid()(first, ask, nodes)

    def run() -> None:
        try:
            with (
                user_code(f"{whose}: the ServerApp"),
                _quiet(),
                _watch(first, grid),
                suppress(_CapturedError),
            ):
                if getattr(app, "_main", None) is not None:
                    app(grid, context)
                else:
                    _run_legacy(app, context, grid, first)
        except LatecomerError as error:
            failure.append(error)

    with _ONE_AT_A_TIME:
        thread = threading.Thread(target=run, name="ServerApp", daemon=True)
        thread.start()
        thread.join(limit)
    if thread.is_alive():
        grid.is_over = True
        raise WorkloadError(
            f"{whose}: the ServerApp has sent no message for training in {limit:g} "
            "seconds; it may wait for something that is not there"
        )
    if first.arrays is None:
        if failure:
            raise failure[0]
        raise WorkloadError(
            f"{whose}: the ServerApp ended without a message of type train"
        )
    return first


class _CapturedError(BaseException):
    """Ends a ServerApp; no handler of Exception catches it."""


def _grid() -> Any:
    """Returns the class of a Grid that keeps the first message for training."""
    base = flwr("flwr.serverapp").Grid
    run_type = _run_type()

    class CapturingGrid(base):  # type: ignore[misc, valid-type]
        """A Grid that answers all messages, but keeps the first one for training."""

        captures = True  # a strategy with a loop of its own leaves it to Flower's

        def __init__(self, first: First, ask: Ask, nodes: int) -> None:
            self._first, self._ask, self._nodes = first, ask, nodes
            self._asked = 0  # how often for the nodes, since the last message
            self._replies: dict[str, Any] = {}
            self.is_over = False

        def set_run(self, *args: Any, **options: Any) -> None:
            """Does nothing, because there is only one run."""

        @property
        def run(self) -> Any:
            """Returns the run."""
            return run_type.create_empty(RUN_ID)

        def create_message(
            self,
            content: Any,
            message_type: str,
            dst_node_id: int,
            group_id: str,
            ttl: float | None = None,
        ) -> Any:
            """Returns a new message."""
            return flwr("flwr.app").Message(
                content=content,
                dst_node_id=dst_node_id,
                message_type=message_type,
                ttl=ttl,
                group_id=group_id,
            )

        def get_node_ids(self) -> Iterable[int]:
            """Returns the nodes; a caller that asks repeatedly gets more of them."""
            if self.is_over:
                raise _CapturedError
            self._asked += 1
            if self._asked > 3:  # two calls belong to a round of FedAvg
                self._nodes = min(2 * self._nodes, MOST_NODES)
            return list(range(1, self._nodes + 1))

        def push_messages(self, messages: Iterable[Any]) -> Iterable[str]:
            """Answers messages, and ends the ServerApp at one for training."""
            names = []
            for message in messages:
                if self.is_over:
                    raise _CapturedError
                if message.metadata.message_type.partition(".")[0] == "train":
                    keep(self._first, message)
                    self.is_over = True
                    raise _CapturedError
                self._asked = 0
                name = f"{len(self._replies)}"
                node = message.metadata.dst_node_id - 1
                self._replies[name] = self._ask(node, message)
                names.append(name)
            return names

        def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Any]:
            """Returns the replies to these messages."""
            return [self._replies.pop(i) for i in message_ids if i in self._replies]

        def send_and_receive(
            self, messages: Iterable[Any], *, timeout: float | None = None
        ) -> Iterable[Any]:
            """Answers messages."""
            return self.pull_messages(self.push_messages(messages))

    return CapturingGrid


def keep(first: First, message: Any) -> None:
    """Keeps the content of a message for training.

    Raises:
        WorkloadError: it holds no arrays, or several ArrayRecords.
    """
    content = message.content
    arrays = dict(content.array_records)
    if len(arrays) != 1:
        raise WorkloadError(
            f"the message for training has {len(arrays)} ArrayRecords"
            f"{': ' if arrays else ''}{', '.join(arrays)}; expected one, with the model"
        )
    [(first.arrays_key, first.arrays)] = arrays.items()
    first.kind = message.metadata.message_type
    first.records = {name: r for name, r in content.items() if name not in arrays}


@contextmanager
def _watch(first: First, grid: Any) -> Iterator[None]:
    """Notes how a strategy is started; leaves central evaluations to our evaluator."""
    strategies = flwr("flwr.serverapp.strategy")
    kind = strategies.Strategy
    original = kind.start

    @wraps(original)
    def start(*given: Any, **named: Any) -> Any:
        bound = signature(original).bind(*given, **named)
        told = bound.arguments
        if told.get("grid") is grid:
            first.rounds = told.get("num_rounds", first.rounds)
            first.evaluate_config = told.get("evaluate_config")
            strategy = told["self"]
            first.strategy = type(strategy).__name__
            first.fraction = getattr(strategy, "fraction_train", 1.0)
            first.fewest = getattr(strategy, "min_train_nodes", 1)
            first.weight = getattr(strategy, "weighted_by_key", EXAMPLES)
            first.evaluate = _central(told.pop("evaluate_fn", None))
        return original(*bound.args, **bound.kwargs)

    kind.start = start
    try:
        yield
    finally:
        kind.start = original


def _central(evaluate_fn: Any) -> CentralEvaluation | None:
    if evaluate_fn is None:
        return None
    return lambda version, arrays: as_numbers(evaluate_fn(version, arrays) or {})


def _run_legacy(app: Any, context: Any, grid: Any, first: First) -> None:
    """Asks a strategy of the older kind for the instructions of its first round."""
    server = flwr("flwr.server")
    with app._lifespan(context) if hasattr(app, "_lifespan") else nullcontext():
        parts: Any = None
        if app._server_fn is not None:
            parts = app._server_fn(context)
        strategy = parts.strategy if parts else app._strategy
        whole = parts.server if parts else app._server
        if strategy is None:
            kind = flwr("flwr.server.strategy").FedAvg
            strategy = kind() if whole is None else whole.strategy
        config = parts.config if parts else app._config
        first.rounds = getattr(config, "num_rounds", None)
        first.strategy = type(strategy).__name__
        first.fraction = getattr(strategy, "fraction_fit", 1.0)
        first.fewest = getattr(strategy, "min_fit_clients", 1)
        manager = server.SimpleClientManager()
        proxy = flwr("flwr.server.compat.grid_client_proxy").GridClientProxy
        waits = getattr(strategy, "min_available_clients", 1)
        for node in range(1, max(waits, len(list(grid.get_node_ids()))) + 1):
            manager.register(proxy(node, grid, RUN_ID))
        parameters = strategy.initialize_parameters(client_manager=manager)
        if parameters is None:
            parameters = _ask(manager)
        first.evaluate = _legacy_central(strategy)
        evaluations = strategy.configure_evaluate(1, parameters, manager)
        first.evaluate_config = dict(evaluations[0][1].config) if evaluations else {}
        fits = strategy.configure_fit(1, parameters, manager)
        if fits:
            client, instructions = fits[0]
            client.fit(instructions, None, 1)


def _ask(manager: Any) -> Any:
    """Returns the initial parameters of one of the clients."""
    common = flwr("flwr.common")
    found = manager.sample(1)[0].get_parameters(common.GetParametersIns({}), None, 0)
    if found.status.code != common.Code.OK or not found.parameters.tensors:
        raise WorkloadError(
            "neither the strategy (initial_parameters=) nor the clients "
            "(get_parameters) have parameters to begin with"
        )
    return found.parameters


def _legacy_central(strategy: Any) -> CentralEvaluation | None:
    base = flwr("flwr.server.strategy").FedAvg
    own = type(strategy).evaluate is not base.evaluate
    if getattr(strategy, "evaluate_fn", None) is None and not own:
        return None
    common = flwr("flwr.common")

    def evaluate(version: int, arrays: Any) -> Mapping[str, float]:
        values = [array.numpy() for array in arrays.values()]
        found = strategy.evaluate(version, common.ndarrays_to_parameters(values))
        if found is None:
            return {}
        loss, metrics = found
        return {"loss": float(loss), **as_numbers(metrics)}

    return evaluate


@contextmanager
def _quiet() -> Iterator[None]:
    """Makes Flower log only warnings, and names the author of its messages."""
    logger = logging.getLogger("flwr")
    before = logger.level
    logger.setLevel(logging.WARNING)
    _name_task()
    try:
        yield
    finally:
        logger.setLevel(before)


def _name_task() -> None:
    """Sets the author of the messages that are made here, as newer flwr requires."""
    try:
        identity = flwr("flwr.supercore.task_identity").TaskIdentity
    except ModuleNotFoundError:
        return
    identity.task_id, identity.run_id, identity.node_id = 1, RUN_ID, SERVER


def _run_type() -> Any:
    try:
        return flwr("flwr.supercore.run").Run
    except ModuleNotFoundError:
        return flwr("flwr.common.typing").Run
