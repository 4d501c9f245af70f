"""``Latecomer``: a strategy of Flower that runs one of our recipes.

Its ``start`` drives our coordinator over Flower's Grid, with a journal beside the
ServerApp. With ``synchronous=True`` it leaves the loop to Flower, or to a wrapper
around it, and only provides the recipe's arithmetic.
"""

import logging
import secrets
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from fedwire.records import Introduction

from fedcore.coordinator.settings import EvaluateConfig
from fedcore.errors import ConfigError, WorkloadError
from fedcore.params import Rest
from fedcore.proofs import SECRET_BYTES
from fedcore.typing import Seconds, Vector
from fedflower.app.library import flwr
from fedflower.app.messages import ROUND, read_reply, require_trained
from fedflower.app.records import RecordLayout
from fedflower.strategy.central import EvaluateFunction, Wishes, of_vectors
from fedflower.strategy.federation import Federation
from fedflower.strategy.nodes import Keys, Post
from fedflower.strategy.results import Aggregate, Metrics, weighted_mean
from fedflower.strategy.rounds import Returned, SynchronousRounds, is_finite
from fedflower.strategy.settings import EXACT, Settings, build, read_settings
from fedflower.strategy.timing import Time, WallTime
from fedrun.config import FederationConfig
from fedrun.journal import exists
from fedrun.run import Run, open_run, start_run

_log = logging.getLogger("flwr.latecomer")  # Flower shows log lines below its name
PURPOSE = "fedflower.strategy"
WAIT: Seconds = 1.0  # seconds between two checks for enough nodes
Strategy: Any = flwr("flwr.serverapp.strategy", PURPOSE).Strategy
ArrayRecord = Any  # flwr's type, like the others
Message = Any


class Latecomer(Strategy):  # type: ignore[misc]
    """A recipe of ours as a strategy; by default ``latecomer``.

    Example:
        ``Latecomer(buffer=4)``, ``Latecomer(kind="fed_buff", journal="runs/one")``,
        ``Latecomer("federation.yaml")``.
    """

    def __init__(
        self,
        settings: Settings = None,
        *,
        journal: str | Path | None = None,
        seed: int | None = None,
        evaluate_every: int = 1,
        evaluate_nodes: bool = True,
        synchronous: bool = False,
        weighted_by_key: str = "num-examples",
        arrayrecord_key: str = "arrays",
        configrecord_key: str = "config",
        train_metrics_aggr_fn: Aggregate | None = None,
        evaluate_metrics_aggr_fn: Aggregate | None = None,
        **recipe: Any,
    ) -> None:
        """Checks the settings; nothing is written yet.

        Args:
            settings: the file of a federation, of which everything but ``stop`` and
                ``server`` counts, or the section ``algorithm`` as a mapping.
            journal: the folder of the run. A ServerApp that finds a run there continues
                it. None: a new temporary folder, which the log names.
            seed: the seed of all random numbers; by default that of ``settings``, or 0.
            evaluate_every: the distance in versions between two evaluations.
            evaluate_nodes: whether nodes evaluate the models that they are given.
            synchronous: whether to leave the loop to Flower: plain arrays in rounds, no
                journal.
            weighted_by_key: the metric that holds a reply's number of examples.
            arrayrecord_key: the name of the model in messages.
            configrecord_key: the name of the config in messages.
            train_metrics_aggr_fn: the mean of the nodes' training metrics; by default
                Flower's own.
            evaluate_metrics_aggr_fn: the same for evaluations.
            recipe: settings of the recipe, such as ``kind``, ``buffer`` and ``uplink``.

        Raises:
            ConfigError: one line for each mistake.
        """
        self.config = self._configure(
            settings, recipe, seed, evaluate_every, nodes=evaluate_nodes
        )
        if synchronous:
            given = {**recipe, "uplink": EXACT, "downlink": EXACT}
            self.config = self._configure(
                settings, given, seed, evaluate_every, nodes=evaluate_nodes
            )
        self.synchronous = synchronous
        self.journal = None if journal is None else Path(journal)
        self.keys = Keys(
            arrays=arrayrecord_key, config=configrecord_key, weight=weighted_by_key
        )
        self._train_mean = train_metrics_aggr_fn
        self._evaluate_mean = evaluate_metrics_aggr_fn
        self._evaluates_nodes = evaluate_nodes
        self._clock: Callable[[Seconds], Time] = WallTime
        self._layout: RecordLayout | None = None
        self._rounds: SynchronousRounds | None = None

    @staticmethod
    def _configure(
        settings: Settings,
        recipe: Mapping[str, Any],
        seed: int | None,
        every: int,
        *,
        nodes: bool,
    ) -> FederationConfig:
        if every < 1:
            raise ConfigError(f"evaluate_every is {every}; expected 1 or more")
        config = read_settings(settings, recipe, seed)
        evaluate = EvaluateConfig(every_versions=every, clients=nodes)
        return config.model_copy(update={"evaluate": evaluate})

    def summary(self) -> None:
        """Logs a summary of the strategy."""
        algorithm = self.config.algorithm
        pace = "synchronous" if algorithm.synchronous else "asynchronous"
        _log.info("\t├──> Recipe: %s, %s", algorithm.kind, pace)
        _log.info("\t├──> Updates a version: %d", algorithm.buffer)
        _log.info(
            "\t├──> Uplink: %s | downlink: %s",
            algorithm.uplink.kind,
            algorithm.downlink.kind,
        )
        _log.info("\t└──> Journal: %s", self.journal or "a temporary folder")

    # ------------------------------------------------------------ our own loop

    def start(
        self,
        grid: Any,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: Any = None,
        evaluate_config: Any = None,
        evaluate_fn: EvaluateFunction | None = None,
    ) -> Any:
        """Runs the federation until it has made a number of versions.

        Args:
            grid: the ServerApp's Grid.
            initial_arrays: version 0. A run that is in the journal has its own.
            num_rounds: the number of versions to make, including those in the journal.
            timeout: the number of seconds without any reply after which it gives up.
            train_config: the ConfigRecord of train messages.
            evaluate_config: the ConfigRecord of evaluate messages.
            evaluate_fn: evaluates a version at the server.

        Returns:
            Flower's Result, with versions in the place of rounds.

        Raises:
            LatecomerError: the journal is of another run, the model cannot be averaged,
                or
                all nodes fail.
        """
        if self.synchronous or getattr(grid, "captures", False):
            return super().start(
                grid,
                initial_arrays,
                num_rounds,
                timeout,
                train_config,
                evaluate_config,
                evaluate_fn,
            )
        _log.info("Starting %s strategy:", type(self).__name__)
        self.summary()
        layout = RecordLayout.of(initial_arrays)
        run = self._open(layout, initial_arrays, num_rounds)
        with closing(run.journal):
            metrics = Metrics(self.keys.weight, self._train_mean, self._evaluate_mean)
            if run.recovered is not None:
                entries = run.journal.store.entries(payloads=False)
                metrics.note(entry.record for entry in entries)
            algorithm = run.coordinator.algorithm
            post = Post(
                algorithm,
                layout,
                _introduction(run, self.keys),
                self.keys,
                {"train": train_config or {}, "evaluate": evaluate_config or {}},
            )
            wishes = Wishes(
                evaluate=of_vectors(evaluate_fn, layout),
                every=self.config.evaluate.every_versions,
                patience=timeout,
            )
            clock = self._clock(run.coordinator.state.at)
            Federation(run, grid, post, metrics, wishes, clock).execute()
            last = layout.record(run.coordinator.state.published.public_D)
            result = metrics.result(last)
        _log.info("Final results:\n%s", result)
        return result

    def _open(self, layout: RecordLayout, arrays: ArrayRecord, versions: int) -> Run:
        """Begins a run, or continues the one in the journal.

        Raises:
            ConfigError: the run in the journal began with other settings.
            SpecMismatchError: its model has other arrays.
            ModelError: the first model is not finite.
            JournalError: the journal is in use, or cannot be read.
        """
        folder = self.journal
        if folder is None:
            folder = Path(tempfile.mkdtemp(prefix="latecomer-")) / "run"
            _log.info(
                "The journal is %s; give journal= a folder to resume from", folder
            )
        server = self.config.server.model_copy(update={"journal": folder})
        config = self.config.model_copy(
            update={
                "stop": self.config.stop.model_copy(update={"versions": versions}),
                "server": server,
                "app": None,
                "model": folder / "not-used.safetensors",
            }
        )
        build(config.algorithm, layout.spec)
        if not exists(folder):
            initial_D = layout.flatten(arrays)
            layout.spec.require_finite(initial_D, "initial_arrays")
            return start_run(
                config,
                layout.spec,
                initial_D,
                time.time(),
                rest=Rest(dict(layout.first), {}),
                secret=secrets.token_bytes(SECRET_BYTES),
            )
        run = open_run(config, time.time())
        try:
            known = run.coordinator.algorithm.model
            known.require(layout.spec, "initial_arrays of this ServerApp")
        except WorkloadError:
            run.journal.close()
            raise
        _log.info(
            "Going on with the run in %s, from version %d; its model counts, not "
            "initial_arrays",
            folder,
            run.coordinator.state.version,
        )
        return run

    # ------------------------------------------------------- rounds of Flower's

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: Any, grid: Any
    ) -> Iterable[Message]:
        """Chooses the nodes of a round by the recipe, and returns their messages."""
        model_D = self._in_rounds(arrays)
        assert self._rounds is not None
        numbers = {str(n): n for n in _enough(grid, self._rounds.fewest)}
        chosen = self._rounds.begin(model_D, sorted(numbers))
        return self._messages(
            "train", [numbers[cid] for cid in chosen], server_round, arrays, config
        )

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, Any]:
        """Takes the recipe's step with the results of the nodes.

        Returns:
            The next model and the mean metrics; None if no reply counts.

        Raises:
            ConfigError: no round was configured.
        """
        if self._rounds is None or self._layout is None:
            raise ConfigError("aggregate_train came before configure_train")
        returned, contents = [], []
        for reply in replies:
            whose = f"node {reply.metadata.src_node_id}"
            try:
                returned.append(self._read_returned(reply, whose))
                contents.append(reply.content)
            except WorkloadError as error:
                _log.warning("round %d: %s", server_round, error)
        model_D, counts = self._rounds.end(returned)
        if model_D is None:
            return None, None
        contents = [c for c, counted in zip(contents, counts, strict=True) if counted]
        mean = self._train_mean or weighted_mean()
        return self._layout.record(model_D), mean(contents, self.keys.weight)

    def _read_returned(self, reply: Message, whose: str) -> Returned:
        """Returns the content of a reply.

        Raises:
            WorkloadError: the reply does not count; the message says why.
        """
        if reply.has_error():
            raise WorkloadError(f"{whose} failed: {reply.error.reason}")
        assert self._layout is not None
        weight = self.keys.weight
        answer = read_reply(reply.content, "train", weight, whose)
        found = require_trained(answer, weight, whose)
        model_D = self._layout.flatten(found.arrays, f"{whose}: train returned")
        if not is_finite(model_D):
            raise WorkloadError(f"{whose} returned a model that is not finite")
        cid = str(reply.metadata.src_node_id)
        return Returned(cid, model_D, found.samples, found.loss)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: Any, grid: Any
    ) -> Iterable[Message]:
        """Returns a message for every node, in the rounds that are evaluated."""
        every = self.config.evaluate.every_versions
        if not self._evaluates_nodes or server_round % every:
            return []
        numbers = sorted(grid.get_node_ids())
        return self._messages("evaluate", numbers, server_round, arrays, config)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> Any:
        """Returns the mean of the nodes' metrics of the model; None without any."""
        contents = []
        for reply in replies:
            if reply.has_error():
                number = reply.metadata.src_node_id
                _log.warning(
                    "round %d: node %d: %s", server_round, number, reply.error.reason
                )
            else:
                contents.append(reply.content)
        mean = self._evaluate_mean or weighted_mean()
        return mean(contents, self.keys.weight) if contents else None

    def _in_rounds(self, arrays: ArrayRecord) -> Vector:
        """Returns a round's model as a flat vector; the first one begins the rounds."""
        if self._layout is None:
            self._layout = RecordLayout.of(arrays)
        model_D = self._layout.flatten(arrays)
        if self._rounds is None:
            self._layout.spec.require_finite(model_D, "initial_arrays")
            algorithm = build(self.config.algorithm, self._layout.spec)
            self._rounds = SynchronousRounds(algorithm, model_D, self.config.seed)
        return model_D

    def _messages(
        self, kind: str, numbers: list[int], round_: int, arrays: Any, config: Any
    ) -> list[Message]:
        app = flwr("flwr.app")
        config[ROUND] = round_
        content = app.RecordDict({self.keys.arrays: arrays, self.keys.config: config})
        return [
            app.Message(
                content, dst_node_id=number, message_type=kind, group_id=str(round_)
            )
            for number in numbers
        ]


def _introduction(run: Run, keys: Keys) -> Introduction:
    return Introduction(
        name="",
        run_id=run.run_id,
        epoch=run.coordinator.state.epoch,
        seed=run.config.seed,
        algorithm=run.config.algorithm.model_dump_json(),
        weight=keys.weight,
    )


def _enough(grid: Any, fewest: int) -> list[int]:
    """Waits until enough nodes are connected, as Flower's own strategies do."""
    while len(found := list(grid.get_node_ids())) < fewest:
        _log.info("%d nodes are connected; waiting for %d", len(found), fewest)
        time.sleep(WAIT)
    return found
