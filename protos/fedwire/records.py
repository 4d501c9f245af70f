"""The protocol inside Flower's messages: the values of one ConfigRecord.

Flower calls the client, so a task comes before it is asked for. The message to a node
is the answer to the pull that its last message brought, and the message from a node
is a push with the next pull. The verdict on a push comes with the next task, as its
receipt.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError

from fedcore.errors import ProtocolError
from fedcore.params import content_digest
from fedcore.protocol import MOST_CLIENTS, Epoch, Pull, Push, Reply
from fedcore.typing import Bytes
from fedwire.convert import (
    pull_reply,
    pull_request,
    push_header,
    read_pull,
    read_pull_reply,
    read_push,
)
from fedwire.v1 import federation_pb2 as pb

RECORD = "latecomer"
"""The name of the ConfigRecord beside the app's own."""
NONCE = 0  # a message of Flower answers exactly one other
_NO_KEY = b""  # the SuperLink knows who sends
Fields = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Introduction:
    """The facts that a node must know before its first task."""

    name: str
    run_id: str
    epoch: Epoch
    seed: int
    algorithm: str  # the section of the config as JSON
    weight: str  # the metric that holds a reply's number of examples


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A message to a node: a task on the newest model."""

    cid: str
    introduction: Introduction | None  # None: the node has it
    reply: bytes
    patch: Bytes
    arrays: str  # the name under which the app expects the model
    in_arrays: bool  # the model lies there already, so that no patch travels

    def answer(self, pull: Pull, patch: Bytes) -> Reply:
        """Returns the answer to a node's pull.

        Raises:
            ProtocolError: it is none.
        """
        try:
            message = pb.PullReply.FromString(self.reply)
        except DecodeError as error:
            raise ProtocolError(f"a task cannot be read: {error}") from error
        return read_pull_reply(message, pull, patch or message.patch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The message that a node sends back."""

    cid: str
    pull: Pull | None  # None: it has no state
    push: Push | None
    place: tuple[int, int]  # its part of the data: index and count
    fault: str  # why there is no update, in words; empty: none is missing


def offer_fields(
    reply: Reply,
    asked: Epoch,
    cid: str,
    introduction: Introduction | None,
    arrays: str,
    *,
    in_arrays: bool,
) -> Fields:
    """Returns a task as values of a ConfigRecord.

    Args:
        reply: the answer to the node's pull.
        asked: the epoch of that pull.
        cid: the client's id.
        introduction: for a node that has had no task.
        arrays: the name under which the app expects the model.
        in_arrays: the message has the model under this name, bit by bit, so that its
            patch need not travel.
    """
    message = pull_reply(reply, asked)
    body = b"".join(reply.patch.parts)
    is_beside = in_arrays or bool(message.patch)
    if in_arrays:
        message.patch = b""
        message.lengths[:] = reply.patch.lengths
    fields: Fields = {
        "cid": cid,
        "reply": message.SerializeToString(),
        "patch": b"" if is_beside else body,
        "arrays": arrays,
        "in-arrays": in_arrays,
    }
    if introduction is not None:
        fields |= {
            "name": introduction.name,
            "run": introduction.run_id,
            "epoch": introduction.epoch,
            "seed": str(introduction.seed),  # Flower's integers end at 2^63
            "algorithm": introduction.algorithm,
            "weight": introduction.weight,
        }
    return fields


def read_offer(fields: Mapping[str, Any]) -> Offer:
    """Returns the task that a ConfigRecord holds.

    Raises:
        ProtocolError: it holds none.
    """
    try:
        introduction = None
        if "algorithm" in fields:
            introduction = Introduction(
                name=fields["name"],
                run_id=fields["run"],
                epoch=fields["epoch"],
                seed=int(fields["seed"]),
                algorithm=fields["algorithm"],
                weight=fields["weight"],
            )
        return Offer(
            cid=fields["cid"],
            introduction=introduction,
            reply=fields["reply"],
            patch=fields["patch"],
            arrays=fields["arrays"],
            in_arrays=bool(fields["in-arrays"]),
        )
    except (KeyError, ValueError) as error:
        raise ProtocolError(f"the record {RECORD!r} is no task: {error}") from error


def answer_fields(
    cid: str,
    pull: Pull | None,
    push: Push | None = None,
    place: tuple[int, int] = (0, 1),
    fault: str = "",
) -> Fields:
    """Returns a node's answer as values of a ConfigRecord; see :class:`Answer`."""
    fields: Fields = {"cid": cid, "index": place[0], "count": place[1], "fault": fault}
    if pull is not None:
        fields["pull"] = pull_request(pull, _NO_KEY).SerializeToString()
    if push is not None:
        header = push_header(push, _NO_KEY)
        fields["push"] = header.SerializeToString()
        if not header.payload:
            fields["payload"] = bytes(push.payload)
    return fields


def read_answer_fields(fields: Mapping[str, Any]) -> Answer:
    """Returns a node's answer; all that it says is a claim.

    Raises:
        ProtocolError: it is none.
    """
    try:
        cid = str(fields["cid"])
        place = int(fields["index"]), int(fields["count"])
        pull = push = None
        if "pull" in fields:
            pull = read_pull(pb.PullRequest.FromString(fields["pull"]), cid, NONCE)
        if "push" in fields:
            header = pb.PushHeader.FromString(fields["push"])
            payload = fields.get("payload") or header.payload
            push = read_push(header, cid, payload, content_digest(payload))
    except (KeyError, TypeError, ValueError, DecodeError) as error:
        raise ProtocolError(f"the record {RECORD!r} is no answer: {error}") from error
    if not 0 <= place[0] < place[1] <= MOST_CLIENTS:
        raise ProtocolError(f"part {place[0]} of {place[1]} of the data does not exist")
    return Answer(
        cid=cid, pull=pull, push=push, place=place, fault=str(fields.get("fault", ""))
    )
