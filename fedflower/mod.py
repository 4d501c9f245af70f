"""A mod of a Flower ClientApp that compresses updates: ``mods=[compressed]``.

The mod is a :class:`~fedcore.participant.Participant` whose state is stored in Flower's
``Context.state``: the public model, the error memory, and the message in flight. The
app gets the model as its usual ArrayRecord, and returns one; the patch to the model and
the message of the update travel instead. A verdict comes with the next task, and it
alone settles the memory (docs/protocol.md).

Messages of other strategies pass through unchanged.
"""

import json
import logging
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from fedwire.records import (
    NONCE,
    RECORD,
    Fields,
    Introduction,
    Offer,
    answer_fields,
    read_offer,
)

from fedclient.state.saved_state import (
    facts_of,
    require_whole,
    state_of,
    trees_of,
    vectors_of,
)
from fedcore import payloads
from fedcore.algorithm import Algorithm
from fedcore.errors import (
    ConfigError,
    LatecomerError,
    PayloadError,
    ProtocolError,
    StateError,
    UserCodeError,
)
from fedcore.params import ParamSpec
from fedcore.participant import (
    OutdatedError,
    Participant,
    ParticipantState,
    Trained,
    WrongModelError,
    start_of,
)
from fedcore.payloads import dense_payload
from fedcore.protocol import ModelName, Pull
from fedcore.rng import Key
from fedcore.text import keep_finite
from fedcore.training import task_key
from fedcore.typing import Vector
from fedcore.user_code import can_be_shown, describe_exit, require_users
from fedflower.app.app import seed_all
from fedflower.app.library import flwr
from fedflower.app.messages import read_place, read_reply, require_trained
from fedflower.app.records import RecordLayout
from fedrun.config.load import parse_algorithm

Message = Any  # flwr's type, like all of these
Context = Any
RecordDict = Any
PURPOSE = "the mod 'compressed'"
LOCAL = "latecomer-local"  # the arrays that stay on this node, as an ArrayRecord
_log = logging.getLogger("flwr.latecomer")  # Flower shows log lines below its name


class _ResyncError(LatecomerError):
    """The server assumes another state of this node than the one in its Context."""


def compressed(
    message: Message, context: Context, call_next: Callable[[Message, Context], Message]
) -> Message:
    """Trains and evaluates on the patched model, and compresses the update.

    Args:
        message: a strategy's message; without a record of ours, it passes through.
        context: the node's Context, whose ``state`` keeps the protocol's values.
        call_next: the app, or the next mod.

    Returns:
        The reply, with the update as bytes.

    Raises:
        WorkloadError: the app returned something that cannot be averaged.
    """
    kind = message.metadata.message_type.partition(".")[0]
    record = message.content.config_records.get(RECORD)
    if record is None or kind not in ("train", "evaluate"):
        return call_next(message, context)
    offer = read_offer(record)
    try:
        node = _Node.load(context, offer, message.content)
    except StateError as error:
        return _answer(message, answer_fields(offer.cid, None, fault=str(error)))
    try:
        node.receive(offer, message.content)
    except OutdatedError as error:
        _forget(context)
        return _answer(message, answer_fields(offer.cid, None, fault=str(error)))
    except (_ResyncError, WrongModelError, PayloadError) as error:
        node.save(context)
        fields = answer_fields(offer.cid, node.pull(), fault=str(error))
        return _answer(message, fields)
    node.save(context)  # the received state stays, whatever the app does
    if kind == "evaluate":
        node.give(message, offer.arrays, node.model())
        reply = _call(call_next, message, context)
        if not reply.has_error():
            _add(reply.content, answer_fields(offer.cid, node.pull()))
        return reply
    return _train(node, offer, message, context, call_next)


def _train(
    node: "_Node",
    offer: Offer,
    message: Message,
    context: Context,
    call_next: Callable[[Message, Context], Message],
) -> Message:
    """Returns the reply to a train message: the update, or the one still in flight."""
    state = node.participant.state
    try:
        place = read_place(context.node_config)
    except ConfigError as error:
        _log.error("%s", error)
        fields = answer_fields(state.cid, node.pull(), fault=str(error))
        return _answer(message, fields)
    if state.pending is not None:  # its verdict was lost: send the same bytes again
        push = node.participant.push()
        return _answer(message, answer_fields(state.cid, node.pull(), push, place))
    start_D: Vector = start_of(
        node.algorithm.config.uplink, node.model(), state.memory_D
    )
    node.give(message, offer.arrays, start_D)
    seed_all(node.key().fold_in("model"))  # as our own clients do
    reply = _call(call_next, message, context)
    if reply.has_error():
        return reply
    sends = node.finish(start_D, reply.content)
    node.save(context)
    fields = answer_fields(
        state.cid,
        node.pull(),
        node.participant.push() if sends else None,
        place,
        node.participant.unusable,
    )
    for name in list(reply.content.array_records):
        del reply.content[name]  # the update travels in our record
    _add(reply.content, fields)
    return reply


def _call(
    call_next: Callable[[Message, Context], Message], message: Message, context: Context
) -> Message:
    """Returns the app's reply.

    Raises:
        Exception: the app raised it; Flower reports it to the server.
        UserCodeError: the app tried to end the process, which the server would not have
            learnt.
    """
    try:
        return call_next(message, context)
    except BaseException as error:
        if isinstance(error, Exception) and can_be_shown(error):
            raise
        require_users(error)
        raise UserCodeError(f"the ClientApp {describe_exit(error)}") from error


@dataclass
class _Node:
    """The state of one node in one run."""

    name: str
    seed: int
    weight: str  # the metric that holds the number of examples
    text: str  # the algorithm as JSON
    algorithm: Algorithm
    layout: RecordLayout
    participant: Participant
    local: Mapping[str, Any]

    @classmethod
    def load(cls, context: Context, offer: Offer, content: RecordDict) -> Self:
        """Returns the node that the Context holds, or a new one.

        Raises:
            StateError: the Context holds no node, and the server sent no introduction.
        """
        saved = context.state.config_records.get(RECORD)
        if saved is not None and saved["cid"] == offer.cid:
            try:
                return cls._read(saved, context.state)
            except (ValueError, KeyError, TypeError) as error:
                raise StateError(f"Context.state is damaged: {error}") from error
        if offer.introduction is None:
            raise StateError("Context.state of this node holds nothing of this run")
        return cls._new(offer.cid, offer.introduction, content)

    @classmethod
    def _new(cls, cid: str, told: Introduction, content: RecordDict) -> Self:
        layout = RecordLayout.of(_arrays(content))
        algorithm = parse_algorithm(told.algorithm).build(layout.spec)
        state = ParticipantState(cid, told.run_id, told.epoch)
        participant = Participant(algorithm.of_client(told.name), state)
        return cls(
            told.name,
            told.seed,
            told.weight,
            told.algorithm,
            algorithm,
            layout,
            participant,
            layout.first,
        )

    @classmethod
    def _read(cls, saved: Mapping[str, Any], records: RecordDict) -> Self:
        for name, crc in zip(saved["names"], saved["crcs"], strict=True):
            if zlib.crc32(saved[name]) != crc:
                raise ValueError(f"{name} is not what was written")
        facts = json.loads(saved["facts"])
        local = records.array_records.get(LOCAL, {})
        first = {name: array.numpy() for name, array in local.items()}
        layout = RecordLayout(
            ParamSpec.from_json(saved["spec"]), json.loads(saved["dtypes"]), first
        )
        algorithm = parse_algorithm(saved["algorithm"]).build(layout.spec)
        vectors = {
            name.removeprefix("vector."): saved[name]
            for name in saved["names"]
            if name.startswith("vector.")
        }
        history = [
            (seq, in_model, saved[f"sent.{seq}"])
            for seq, in_model in json.loads(saved["history"])
        ]
        state = state_of(facts, vectors, history)
        require_whole(state)
        return cls(
            saved["name"],
            int(saved["seed"]),
            saved["weight"],
            saved["algorithm"],
            algorithm,
            layout,
            Participant(algorithm.of_client(saved["name"]), state),
            first,
        )

    def save(self, context: Context) -> None:
        """Puts the state into the Context, which Flower keeps after the call."""
        state = self.participant.state
        trees, arrays = trees_of(state)
        blobs = {
            f"vector.{name}": bytes(memoryview(vector).cast("B"))
            for name, vector in {**vectors_of(state), **arrays}.items()
            if vector is not None
        }
        blobs |= {f"sent.{sent.seq}": bytes(sent.payload) for sent in state.history}
        fields: Fields = {
            "cid": state.cid,
            "name": self.name,
            "seed": str(self.seed),
            "weight": self.weight,
            "algorithm": self.text,
            "spec": self.layout.spec.to_json(),
            "dtypes": json.dumps(dict(self.layout.dtypes)),
            "facts": json.dumps(facts_of(state, trees, arrays)),
            "history": json.dumps(
                [[sent.seq, int(sent.in_model)] for sent in state.history]
            ),
            "names": list(blobs),
            "crcs": [zlib.crc32(blob) for blob in blobs.values()],
            **blobs,
        }
        app = flwr("flwr.app", PURPOSE)
        context.state[RECORD] = app.ConfigRecord(fields)
        if self.local:
            arrays_ = {name: app.Array(value) for name, value in self.local.items()}
            context.state[LOCAL] = app.ArrayRecord(arrays_)

    def model(self) -> Vector:
        """Returns the model that the node holds."""
        public_D = self.participant.state.public_D
        assert public_D is not None
        return public_D

    def pull(self) -> Pull:
        """Returns the facts that the server needs for the next task."""
        return self.participant.pull(NONCE)

    def receive(self, offer: Offer, content: RecordDict) -> None:
        """Applies the verdict and the model of a task.

        Raises:
            OutdatedError: the server knows a later state of this node than its Context.
            WrongModelError: the patch leads to another model than the server's.
            PayloadError: the patch cannot be read.
        """
        pull, patch = self.pull(), offer.patch
        if offer.in_arrays:
            model_D = self.layout.flatten(_arrays(content))
            patch = payloads.pack(dense_payload(model_D))
        reply = offer.answer(pull, patch)
        held = self.participant.state.held
        if reply.patch.kind == "none" and (
            held is None or held.version != reply.patch.version
        ):
            raise _ResyncError("the server supposes another version on this node")
        self.participant.receive(reply)

    def give(self, message: Message, key: str, model_D: Vector) -> None:
        """Puts the model for the app into a message, and removes our record from it."""
        content = flwr("flwr.app", PURPOSE).RecordDict()
        content[key] = self.layout.record(model_D, self.local)
        for name, record in message.content.items():
            if name not in (RECORD, key):
                content[name] = record
        message.content = content

    def finish(self, start_D: Vector, content: RecordDict) -> bool:
        """Makes the message of the app's result; returns whether there is one.

        Args:
            start_D: the model that the app was given.
            content: the content of its reply.

        Raises:
            WorkloadError: the result cannot be averaged.
        """
        state, whose = self.participant.state, f"node {self.name}"
        answer = read_reply(content, "train", self.weight, whose)
        found = require_trained(answer, self.weight, whose)
        trained_D = self.layout.flatten(found.arrays, f"{whose}: train returned")
        assert state.held is not None
        base = ModelName(state.held.epoch, state.held.version)
        config = self.algorithm.clients.of(self.name).at(base.version)
        trained = Trained(
            delta_D=start_D - trained_D,
            samples=found.samples,
            steps=config.step_count(found.samples),  # the app's own are not known
            loss=found.loss,
            kept=state.kept,
            metrics=keep_finite(found.metrics),
        )
        self.local = {**self.local, **self.layout.local(found.arrays)}
        return self.participant.finish(trained, base, self.key().fold_in("uplink"))

    def key(self) -> Key:
        """Returns the randomness of the next task."""
        return task_key(self.seed, self.name, self.participant.state.seq + 1)


def _arrays(content: RecordDict) -> Any:
    """Returns the only ArrayRecord of a message.

    Raises:
        ProtocolError: it has none, or more than one.
    """
    found = list(content.array_records.values())
    if len(found) != 1:
        raise ProtocolError(
            f"a first task has {len(found)} ArrayRecords; expected the model alone"
        )
    return found[0]


def _answer(message: Message, fields: Fields) -> Message:
    """Returns a reply that does not come from the app."""
    app = flwr("flwr.app", PURPOSE)
    content = app.RecordDict()
    _add(content, fields)
    return app.Message(content, reply_to=message)


def _add(content: RecordDict, fields: Fields) -> None:
    content[RECORD] = flwr("flwr.app", PURPOSE).ConfigRecord(fields)


def _forget(context: Context) -> None:
    for name in (RECORD, LOCAL):
        if name in context.state:
            del context.state[name]


__all__ = ["compressed"]
