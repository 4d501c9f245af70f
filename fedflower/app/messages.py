"""The messages with which a ClientApp is called, and the content of its replies."""

import time
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from fedcore.errors import (
    ConfigError,
    SpecMismatchError,
    UserCodeError,
    WorkloadError,
)
from fedcore.evaluation import number
from fedcore.protocol import MOST_CLIENTS, MOST_COUNTED
from fedcore.workload import Client
from fedflower.app.folder import scalar
from fedflower.app.library import flwr

RUN_ID = 1  # constant: a client's folder belongs to one run
SERVER = 1  # the node that Flower's messages come from
TTL = 43_200.0  # seconds; a reply is never too late
ROUND = "server-round"
LEGACY_ROUND = "server_round"
EXAMPLES = "num-examples"
LOSSES = ("train_loss", "train-loss", "loss")  # the names that apps use for it
LONG_NUMBER = 20  # digits, more than those of any part
_PLACES = (("partition-id", "num-partitions"), ("partition_id", "num_partitions"))
_LEGACY = {"train": "fitres", "evaluate": "evaluateres"}

Content = Any  # flwr's RecordDict
Message = Any
Config = Mapping[str, Any]


class Answer(NamedTuple):
    """The content of a ClientApp's reply."""

    arrays: Any
    """An ArrayRecord; None if the reply has none."""
    examples: float | None
    metrics: dict[str, float]


class TrainReply(NamedTuple):
    """The content of a reply to a train message."""

    arrays: Any
    """The trained model, as Flower's ArrayRecord."""
    samples: int
    loss: float | None
    metrics: dict[str, float]


def node_id(name: str) -> int:
    """Returns a client's node id, which follows from its name and stays the same."""
    return int.from_bytes(sha256(name.encode()).digest()[:8]) >> 1 | 1


def node_config(client: Client) -> dict[str, Any]:
    """Returns the content of ``Context.node_config`` for a client.

    Items of ``--data`` or ``--node-config`` follow the partition, and may replace it.
    """
    given = {key: scalar(value) for key, value in client.args.items()}
    return {"partition-id": client.index, "num-partitions": client.count, **given}


def read_place(config: Config) -> tuple[int, int]:
    """Returns a node's part of the data, index and count, as its node config names it.

    It is (0, 1) if the config has none. The names are those of Flower's simulation.

    Raises:
        ConfigError: the config names a part that cannot be.
    """
    for keys in _PLACES:
        if all(key in config for key in keys):
            index, count = (_whole(config[key]) for key in keys)
            if index is None or count is None or not index < count <= MOST_CLIENTS:
                told = " and ".join(f"{key}={config[key]!r:.40}" for key in keys)
                raise ConfigError(
                    f"node config: {told}: expected whole numbers, 0 <= {keys[0]} < "
                    f"{keys[1]} <= {MOST_CLIENTS}"
                )
            return index, count
    return 0, 1


def _whole(value: object) -> int | None:
    """Returns a whole number from 0 on, also from text; None for anything else."""
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        value = int(value[:LONG_NUMBER])
    return value if type(value) is int and value >= 0 else None


def context(client: Client, state: Any, run_config: Config) -> Any:
    """Returns the Context of a client.

    Args:
        client: the client.
        state: a RecordDict, which the app may change.
        run_config: the app's own settings.
    """
    return flwr("flwr.app").Context(
        run_id=RUN_ID,
        node_id=node_id(client.name),
        node_config=node_config(client),
        state=state,
        run_config=dict(run_config),
    )


def instruction(content: Content, kind: str, client: Client, group: str) -> Message:
    """Returns a message to a client.

    Args:
        content: a RecordDict.
        kind: its message type, such as ``train`` or ``evaluate``.
        client: the receiver.
        group: the round, as text.
    """
    app, to = flwr("flwr.app"), node_id(client.name)
    metadata = app.Metadata(
        run_id=RUN_ID,
        message_id=sha256(f"{to} {kind} {group}".encode()).hexdigest(),
        src_node_id=SERVER,
        dst_node_id=to,
        reply_to_message_id="",
        group_id=group,
        created_at=time.time(),
        ttl=TTL,
        message_type=kind,
    )
    return app.Message(content=content, metadata=metadata)


def call(app: Any, message: Message, context: Any, whose: str) -> Content:
    """Calls a ClientApp, and returns the content of its reply.

    Args:
        app: the ClientApp.
        message: the instruction.
        context: the client's Context; the app may change its state.
        whose: the app's name, for error messages.

    Raises:
        UserCodeError: the reply reports an error.
        WorkloadError: there is no function for such a message, or no reply.
        Exception: the app raised it.
    """
    kind = message.metadata.message_type
    try:
        reply = app(message, context)
    except ValueError as error:
        if lacks_function(kind.partition(".")[0], str(error)):
            raise WorkloadError(
                f"{whose}: the ClientApp has no function for {kind}; "
                f"expected one under @app.{kind.partition('.')[0]}()"
            ) from error
        raise
    if not isinstance(reply, flwr("flwr.app").Message):
        raise WorkloadError(
            f"{whose}: {kind} returned {type(reply).__name__}; expected a Message, "
            "such as Message(content, reply_to=message)"
        )
    if reply.has_error():
        raise UserCodeError(f"{whose}: {kind} replied an error: {reply.error.reason}")
    return reply.content


def lacks_function(category: str, error: str) -> bool:
    """Returns whether an error says that a ClientApp has no function for a message.

    Args:
        category: ``train`` or ``evaluate``.
        error: the error in Flower's words.
    """
    return f"No {category} function registered" in error


def read_reply(content: Content, kind: str, weight: str, whose: str) -> Answer:
    """Returns the content of a reply of a ClientApp or of a NumPyClient.

    Args:
        content: the reply's records.
        kind: ``train`` or ``evaluate``.
        weight: the metric that holds the number of examples.
        whose: the app's name, for error messages.

    Raises:
        WorkloadError: there are several records of a kind.
        UserCodeError: a NumPyClient reports a failure.
    """
    legacy = _LEGACY[kind]
    if f"{legacy}.num_examples" in content:
        return _read_legacy(content, legacy, whose)
    arrays, metrics = content.array_records, content.metric_records
    for what, records in (("ArrayRecord", arrays), ("MetricRecord", metrics)):
        if len(records) > 1:
            raise WorkloadError(
                f"{whose}: {kind} returned {len(records)} {what}s "
                f"({', '.join(records)}); expected one"
            )
    found = as_numbers(next(iter(metrics.values()), {}))
    examples = found.pop(weight, None)
    return Answer(next(iter(arrays.values()), None), examples, found)


def require_examples(examples: float | None, kind: str, weight: str, whose: str) -> int:
    """Returns the number of examples in a reply.

    Raises:
        UserCodeError: it has no such number, or one that is not from 1 to
            ``MOST_COUNTED``.
    """
    if examples is None:
        raise UserCodeError(
            f"{whose}: {kind} returned no {weight}; expected it in the MetricRecord of "
            "the reply, as the weight of the client"
        )
    if not 1 <= examples <= MOST_COUNTED:
        raise UserCodeError(
            f"{whose}: {kind} returned {weight} {examples:g}; expected 1 to "
            f"{MOST_COUNTED}"
        )
    return round(examples)


def require_trained(found: Answer, weight: str, whose: str) -> TrainReply:
    """Returns the required content of a reply to a train message.

    Args:
        found: the content of the reply.
        weight: the metric that holds the number of examples.
        whose: the app's name, for error messages.

    Raises:
        SpecMismatchError: it has no arrays.
        UserCodeError: it has no number of examples, or an impossible one.
    """
    if found.arrays is None or not len(found.arrays):
        raise SpecMismatchError(
            f"{whose}: train returned no arrays; expected one ArrayRecord with the "
            "trained model"
        )
    samples = require_examples(found.examples, "train", weight, whose)
    loss = next((found.metrics[name] for name in LOSSES if name in found.metrics), None)
    return TrainReply(found.arrays, samples, loss, found.metrics)


def as_numbers(record: Mapping[str, Any]) -> dict[str, float]:
    """Returns the numbers of a record; list entries are named ``name.0`` and so on.

    Texts and bytes, which are no metrics, are left out.

    Raises:
        WorkloadError: a value is of another type.
    """
    found: dict[str, float] = {}
    for name, value in record.items():
        if isinstance(value, list):
            found |= as_numbers({f"{name}.{i}": each for i, each in enumerate(value)})
        elif not isinstance(value, str | bytes):
            found[name] = number(f"the metric {name!r}", value)
    return found


def in_round(config: Config, number: int) -> dict[str, Any]:
    """Returns a message's config with another round number, if it has one."""
    known = {key: number for key in (ROUND, LEGACY_ROUND) if key in config}
    return {**config, **known}


def _read_legacy(content: Content, legacy: str, whose: str) -> Answer:
    status = content.config_records.get(f"{legacy}.status", {})
    if status.get("code", 0):
        raise UserCodeError(f"{whose}: the client failed: {status.get('message', '')}")
    arrays = content.array_records.get(f"{legacy}.parameters")
    examples = content.metric_records[f"{legacy}.num_examples"]["num_examples"]
    metrics = as_numbers(content.config_records.get(f"{legacy}.metrics", {}))
    loss = content.metric_records.get(f"{legacy}.loss")
    if loss is not None:
        metrics = {**as_numbers(loss), **metrics}
    return Answer(arrays, float(examples), metrics)
