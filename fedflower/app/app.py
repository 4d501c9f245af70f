"""A Flower app in this process: its ClientApp, and its ServerApp's first message."""

import sys
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from fedcore.errors import WorkloadError
from fedcore.rng import Key, seed_global
from fedcore.typing import Seconds
from fedcore.workload import Client
from fedflower.app import messages
from fedflower.app.folder import FlowerFolder, Value
from fedflower.app.initial import LEGACY_EVALUATE, LIMIT, First, first_message
from fedflower.app.library import flwr
from fedflower.app.messages import Answer
from fedflower.app.records import RecordLayout

USUAL = Key.root(0).fold_in("initial")  # key of version 0 in a run with the seed 0


@dataclass(frozen=True)
class FlowerApp:
    """A Flower app, imported once.

    Attributes:
        folder: the app's folder.
        replaced: values that replace those in its pyproject.toml.
        limit: how long to wait for the ServerApp's first message.
    """

    folder: FlowerFolder
    replaced: Mapping[str, Value] = field(default_factory=dict)
    limit: Seconds = LIMIT
    _drawn: dict[int, First] = field(default_factory=dict, repr=False)  # the last one

    def __post_init__(self) -> None:
        """Checks that the replaced values exist.

        Raises:
            WorkloadError: the app's pyproject.toml has no such value.
        """
        unknown = [key for key in self.replaced if key not in self.folder.config]
        if unknown:
            known = ", ".join(self.folder.config) or "none"
            raise WorkloadError(
                f"{self.name}: {unknown[0]!r} is not in [tool.flwr.app.config]; there: "
                f"{known}"
            )

    @property
    def name(self) -> str:
        """The app's name, for messages."""
        return str(self.folder.path)

    @property
    def run_config(self) -> dict[str, Value]:
        """The content of ``Context.run_config``."""
        return {**self.folder.config, **self.replaced}

    @cached_property
    def client_app(self) -> Any:
        """The ClientApp."""
        return self.folder.load(self.folder.client, "ClientApp")

    @cached_property
    def server_app(self) -> Any:
        """The ServerApp.

        Raises:
            WorkloadError: the folder names none.
        """
        if not self.folder.server:
            raise WorkloadError(
                f"{self.name}: [tool.flwr.app.components] has no serverapp, which "
                "sends version 0 of the model"
            )
        return self.folder.load(self.folder.server, "ServerApp")

    @cached_property
    def layout(self) -> RecordLayout:
        """The layout of the model's arrays in a flat vector."""
        return RecordLayout.of(self.first.arrays)

    @cached_property
    def first(self) -> First:
        """The ServerApp's first message; its arrays are drawn with the seed 0."""
        return self._draw(USUAL)

    def first_of(self, key: Key) -> First:
        """Returns the ServerApp's first message, with arrays drawn by this key.

        Only the last one is kept beside :attr:`first`, because each holds a model.

        Raises:
            WorkloadError: the ServerApp sends nothing, or raises.
        """
        seed = key.seed()
        if seed == USUAL.seed():
            return self.first
        if seed not in self._drawn:
            found = self._draw(key)
            self._drawn.clear()
            self._drawn[seed] = found
        return self._drawn[seed]

    def _draw(self, key: Key) -> First:
        """Runs the ServerApp until its first message for training."""
        seed_all(key)
        context = flwr("flwr.app").Context(
            run_id=messages.RUN_ID,
            node_id=messages.SERVER,
            node_config={},
            state=flwr("flwr.app").RecordDict(),
            run_config=self.run_config,
        )
        return first_message(
            self.server_app,
            context,
            self._ask,
            self.folder.nodes,
            self.name,
            self.limit,
        )

    def _ask(self, node: int, message: Any) -> Any:
        """Returns a client's reply to a request before the first training."""
        client = Client(f"client-{node}", node, self.folder.nodes)
        state = flwr("flwr.app").RecordDict()
        return self.client_app(message, self.context(client, state))

    def context(self, client: Client, state: Any) -> Any:
        """Returns the Context of a client."""
        return messages.context(client, state, self.run_config)

    def has(self, kind: str) -> bool:
        """Returns whether the ClientApp has a function of this kind."""
        functions = getattr(self.client_app, "_registered_funcs", None)
        if functions is None or getattr(self.client_app, "_call", None):
            return True  # a NumPyClient reports it when it is asked
        return f"{kind}.default" in functions

    def train(self, arrays: Any, client: Client, state: Any, version: int) -> Answer:
        """Lets the ClientApp train on a client's data.

        Args:
            arrays: an ArrayRecord of the model.
            client: the client with the data.
            state: the client's state; the app may change it.
            version: the version of the model.
        """
        first = self.first
        app, records = (
            flwr("flwr.app"),
            deepcopy(first.records),
        )  # the app may change it
        for name, record in records.items():
            if isinstance(record, app.ConfigRecord):
                records[name] = app.ConfigRecord(messages.in_round(record, version + 1))
        content = app.RecordDict({first.arrays_key: arrays, **records})
        return self._answer(first.kind, content, client, state, version + 1)

    def evaluate(self, arrays: Any, client: Client, state: Any, version: int) -> Answer:
        """Lets the ClientApp evaluate a model on a client's data; see :meth:`train`."""
        first, app = self.first, flwr("flwr.app")
        configs = [
            name for name, r in first.records.items() if isinstance(r, app.ConfigRecord)
        ]
        config = deepcopy(dict(first.evaluate_config or {}))
        keys = first.arrays_key, configs[0] if configs else "config"
        if first.is_legacy:
            keys = f"{LEGACY_EVALUATE}.parameters", f"{LEGACY_EVALUATE}.config"
            config = messages.in_round(config, version)
        else:
            config[messages.ROUND] = version
        content = app.RecordDict({keys[0]: arrays, keys[1]: app.ConfigRecord(config)})
        return self._answer("evaluate", content, client, state, version)

    def _answer(
        self, kind: str, content: Any, client: Client, state: Any, number: int
    ) -> Answer:
        message = messages.instruction(content, kind, client, str(number))
        context = self.context(client, state)
        whose = f"{self.name}, {client.name}" if client.name else self.name
        found = messages.call(self.client_app, message, context, whose)
        category = kind.partition(".")[0]
        return messages.read_reply(found, category, self.first.weight, whose)


def seed_all(key: Key) -> None:
    """Seeds the global generators, from which the code of a Flower app draws."""
    seed_global(key)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(key.seed())
