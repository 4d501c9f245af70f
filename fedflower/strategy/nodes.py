"""One node of Flower: its messages, and the known facts about it.

A node with the mod ``compressed`` is a participant and reports itself which model it
holds. For a node without it, the server makes the messages of the protocol: the node
gets the whole model with each task, and its update is the uncompressed difference to
that model.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from fedwire.records import (
    NONCE,
    RECORD,
    Answer,
    Introduction,
    offer_fields,
    read_answer_fields,
)

from fedcore import payloads
from fedcore.algorithm import Algorithm
from fedcore.arrays import norm
from fedcore.coordinator.members import ClientRow
from fedcore.errors import UserCodeError, WorkloadError
from fedcore.params import content_digest
from fedcore.patch import apply_patch
from fedcore.payloads import dense_payload
from fedcore.protocol import (
    NOTHING_SETTLED,
    Epoch,
    ModelName,
    Patch,
    Pull,
    Push,
    Reply,
)
from fedcore.text import keep_finite, printable, wrong_metrics
from fedcore.typing import Seconds, Vector
from fedcore.user_code import LONG_TEXT
from fedflower.app.library import flwr
from fedflower.app.messages import (
    ROUND,
    as_numbers,
    read_reply,
    require_examples,
    require_trained,
)
from fedflower.app.records import RecordLayout

Message = Any  # flwr's type
_FLOAT32 = "float32"
PREFIX = "node-"
MOST_LIVES = 64  # lives of one node in a run of Flower
MOST_FAILURES = 5  # failures of one node in a row
LONGEST_REST: Seconds = 60.0  # for a node whose code has failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The names of records and metrics, as in Flower's own strategies."""

    arrays: str = "arrays"
    config: str = "config"
    weight: str = "num-examples"


@dataclass(slots=True)
class Node:
    """The known facts about one node in one run of Flower."""

    number: int
    """Flower's id of the node."""
    cid: str
    pull: Pull | None = None  # its mod's last report; None if there is none yet
    has_mod: bool | None = None  # None if unknown
    is_there: bool = True
    sent: "Sent | None" = None  # the message whose reply is missing
    failures: int = 0  # failures in a row
    failed_evaluations: int = 0  # failed evaluations in a row
    rests_until: Seconds | None = None

    @property
    def name(self) -> str:
        """The node's name in the run."""
        return f"{PREFIX}{self.number}"

    @property
    def evaluates(self) -> bool:
        """Whether the node evaluates; it does not after too many failures in a row."""
        return self.failed_evaluations < MOST_FAILURES

    def fail_evaluation(self, *, for_good: bool) -> None:
        """Notes a failed evaluation; ``for_good`` if all others would fail too."""
        self.failed_evaluations = (
            MOST_FAILURES if for_good else self.failed_evaluations + 1
        )

    def fail(self, now: Seconds) -> None:
        """Notes a failure; the node rests longer after each further one."""
        self.failures += 1
        rest = min(LONGEST_REST, 2.0 ** (self.failures - 1))
        self.rests_until = math.inf if self.failures >= MOST_FAILURES else now + rest

    def asks(self, epoch: Epoch) -> Pull:
        """Returns the node's next request."""
        return self.pull or Pull(cid=self.cid, nonce=NONCE, epoch=epoch)


class Ids:
    """The ids of nodes as clients, in one run of Flower.

    Flower gives each run fresh Contexts, so a node is a new client there. A node that
    has lost its Context is a new client as well.
    """

    def __init__(self, scope: str) -> None:
        """Sets ``scope``, which names the run and Flower's run."""
        self._scope = scope

    def free(self, number: int, clients: Mapping[str, ClientRow]) -> str:
        """Returns the id of a node: the first one whose client has not left."""
        for life in count():
            cid = self._cid(number, life)
            if cid not in clients or not clients[cid].left:
                return cid
        raise AssertionError("there is no end of ids")

    def has(self, row: ClientRow) -> bool:
        """Returns whether a client is a node of this run of Flower."""
        number = row.name.removeprefix(PREFIX)
        if not number.isdigit():
            return False
        return row.cid in {self._cid(int(number), life) for life in range(MOST_LIVES)}

    def _cid(self, number: int, life: int) -> str:
        return content_digest(f"{self._scope} {number} {life}".encode())[:32]


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that was sent to a node."""

    node: Node
    cid: str
    kind: str  # train or evaluate
    reply: Reply
    base_D: Vector | None  # the model on which a node without the mod trains
    at: Seconds


class Post:
    """Writes messages to nodes, and reads their replies."""

    def __init__(
        self,
        algorithm: Algorithm,
        layout: RecordLayout,
        introduction: Introduction,
        keys: Keys,
        configs: Mapping[str, Any],
    ) -> None:
        """Prepares the messages without sending any.

        Args:
            algorithm: the algorithm of the run.
            layout: the layout of the model.
            introduction: for nodes that have had no task; each gets its own name.
            keys: the names of the records.
            configs: the ConfigRecords of the app, by kind of message.
        """
        self._algorithm, self._layout = algorithm, layout
        self._introduction, self.keys, self._configs = introduction, keys, configs
        floats = [layout.dtypes[tensor.name] for tensor in layout.spec.tensors]
        # A variance is stored as a second moment in the vector; the conversion rounds.
        self._is_bitwise = {*floats} == {_FLOAT32} and not layout.spec.moments
        self._whole: tuple[str, Vector, Any] | None = (
            None  # the newest, with its digest
        )

    def write(
        self, node: Node, kind: str, reply: Reply
    ) -> tuple[Message, Vector | None]:
        """Returns the message of a task, and the model in it, if it has one.

        Args:
            node: the receiver.
            kind: train or evaluate.
            reply: the server's answer to the node's pull.
        """
        app, patch = flwr("flwr.app"), reply.patch
        content = app.RecordDict()
        base_D = None
        if node.pull is None:
            base_D, content[self.keys.arrays] = self._model(reply)
        # As in Flower: an update counts towards a round, an evaluation looks back on
        # it.
        round_ = patch.version + (kind == "train")
        told = {**self._configs[kind], ROUND: round_}
        content[self.keys.config] = app.ConfigRecord(told)
        if node.has_mod is not False:
            own = replace(self._introduction, name=node.name)
            fields = offer_fields(
                reply,
                node.asks(patch.epoch).epoch,
                node.cid,
                own if node.pull is None else None,
                self.keys.arrays,
                in_arrays=base_D is not None and self._is_bitwise,
            )
            content[RECORD] = app.ConfigRecord(fields)
        message = app.Message(
            content,
            dst_node_id=node.number,
            message_type=kind,
            group_id=str(round_),
        )
        return message, base_D

    def _model(self, reply: Reply) -> tuple[Vector, Any]:
        """Returns the model that a whole patch holds, flat and as an ArrayRecord."""
        patch = reply.patch
        if self._whole is None or self._whole[0] != patch.digest:
            sizes = self._algorithm.spec.sizes
            model_D = apply_patch(None, patch.kind, patch.messages(), sizes)
            self._whole = patch.digest, model_D, self._layout.record(model_D)
        return self._whole[1:]

    def answer(self, message: Message) -> Answer | None:
        """Returns the answer of a node's mod; None if the message has none.

        Raises:
            ProtocolError: the answer is not valid.
        """
        record = message.content.config_records.get(RECORD)
        return None if record is None else read_answer_fields(record)

    def push(self, sent: Sent, message: Message, seq: int) -> Push:
        """Returns the update of a node without the mod.

        Args:
            sent: the message that was sent to it.
            message: its reply.
            seq: the number of its last update.

        Raises:
            WorkloadError: there is no update, or it cannot be averaged.
        """
        whose, weight = sent.node.name, self.keys.weight
        if sent.base_D is None:
            raise UserCodeError(f"{whose}: the reply lacks what its mod has to say")
        if self._algorithm.config.uplink.holds == "changes":
            raise UserCodeError(
                f"{whose}: the uplink {self._algorithm.config.uplink.kind} needs the "
                "mod: ClientApp(mods=[compressed])"
            )
        answer = read_reply(message.content, "train", weight, whose)
        found = require_trained(answer, weight, whose)
        trained_D = self._layout.flatten(found.arrays, f"{whose}: train returned")
        delta_D = sent.base_D - trained_D
        packed = payloads.pack(dense_payload(delta_D))
        version, task = sent.reply.patch.version, sent.reply.task
        config = self._algorithm.clients.of(whose).at(version)
        return Push(
            cid=sent.cid,
            epoch=sent.reply.patch.epoch,
            seq=seq + 1,
            base=ModelName(sent.reply.patch.epoch, version),
            payload=packed,
            digest=content_digest(packed),
            settled=NOTHING_SETTLED,
            samples=found.samples,
            steps=config.step_count(found.samples),  # the app's own are not known
            update_norm=norm(delta_D),
            loss=found.loss,
            metrics=keep_finite(found.metrics),
            task=0 if task is None else task.proof,
        )

    def held(self, node: Node, reply: Reply) -> Reply:
        """Returns the answer for a node that already has its model and evaluates it."""
        if node.pull is None:
            return reply
        patch = reply.patch
        nothing = Patch.nothing(patch.epoch, patch.version, patch.digest)
        return replace(reply, patch=nothing, receipt=None)

    def evaluated(self, message: Message, whose: str) -> tuple[dict[str, float], int]:
        """Returns the metrics of an evaluation, and the number of samples.

        Raises:
            WorkloadError: the number of samples is missing, or the metrics are too many
                or have impossible names.
        """
        weight = self.keys.weight
        records = message.content.metric_records
        metrics = as_numbers(next(iter(records.values()), {}))
        examples = metrics.pop(weight, None)
        if reason := wrong_metrics(metrics):
            raise WorkloadError(f"{whose}: evaluate: {reason}")
        return metrics, require_examples(examples, "evaluate", weight, whose)


def brief(reason: str) -> str:
    """Returns the last line of what an app raised, as printable text."""
    lines = [line.strip() for line in str(reason).splitlines() if line.strip()]
    return printable(lines[-1][:LONG_TEXT] if lines else "it gave no reason")
