"""A peer that says whatever a test wants, true or not."""

import hashlib
import itertools
from collections.abc import Iterable
from typing import Any, Self

import grpc
import numpy as np
from fedwire.connect import OPTIONS
from fedwire.frames import chunk_frames, header_frame, read_chunk, read_reply
from fedwire.keys import KEY_BYTES, cid_of
from fedwire.service import PROTOCOLS, Stub
from fedwire.v1 import federation_pb2 as pb

from fedcore import payloads
from fedcore.params import content_digest
from fedcore.payloads import dense_payload
from fedcore.typing import Vector
from tests.served import DIM, spec_of

CALL = 20.0


def packed(values_D: Vector) -> bytes:
    """An update, uncompressed."""
    return payloads.pack(dense_payload(np.asarray(values_D, np.float32)))


def digest_of(payload: bytes) -> bytes:
    """The name of a payload as it travels."""
    return bytes.fromhex(content_digest(payload))


def key_of(name: str) -> bytes:
    """A key that follows from a name, so that a test may be run again."""
    return hashlib.sha256(name.encode()).digest()[:KEY_BYTES]


class Peer:
    """One client, spoken for by a test; its keys follow from its name."""

    def __init__(self, address: str, name: str = "peer", dim: int = DIM) -> None:
        self.name, self.dim = name, dim
        self.key = self.owner = key_of(name)
        self.cid = cid_of(self.key)
        self.channel = grpc.insecure_channel(address, OPTIONS)
        self.stub = Stub(self.channel)
        self.epoch, self.version, self.seq = 0, 0, 0
        self.task = 0  # the proof of the task that it was given last

    def __enter__(self) -> Self:
        """Enrols."""
        self.enrol()
        return self

    def __exit__(self, *_: object) -> None:
        """Hangs up."""
        self.channel.close()

    def enrol(self, **changes: Any) -> pb.EnrolReply:
        """Asks to be enrolled."""
        told: dict[str, Any] = {
            "protocols": PROTOCOLS,
            "key": self.key,
            "owner": self.owner,
            "name": self.name,
            "spec": spec_of(self.dim).to_json(),
        }
        reply = self.stub.enrol(pb.EnrolRequest(**{**told, **changes}), timeout=CALL)
        self.epoch = reply.epoch
        return reply

    def pull(self, **changes: Any) -> pb.PullReply:
        """Asks for work; takes over the version that comes."""
        told = {"key": self.key, "epoch": self.epoch}
        request = pb.PullRequest(**{**told, **changes})
        frames = self.stub.pull(request, timeout=CALL)
        reply = read_reply(next(frames))
        chunks = [bytes(read_chunk(frame).data) for frame in frames]
        self.body = reply.patch or b"".join(chunks)
        if not reply.refused:
            self.epoch, self.version = reply.epoch or request.epoch, reply.version
            self.task = reply.task_proof
        return reply

    def header(self, payload: bytes, **changes: Any) -> pb.PushHeader:
        """What an honest client would say of its next update, but for the changes."""
        told: dict[str, Any] = {
            "key": self.key,
            "epoch": self.epoch,
            "seq": self.seq + 1,
            "base": self.version,
            "size": len(payload),
            "digest": digest_of(payload),
            "samples": 1,
            "steps": 1,
            "task": self.task,
        }
        return pb.PushHeader(**{**told, **changes})

    def push(self, payload: bytes, **changes: Any) -> pb.PushReply:
        """Delivers an update; asks for a task before, unless it has one."""
        if not self.task and "task" not in changes:
            self.pull()
        header = self.header(payload, **changes)
        reply = self.send([header_frame(header), *chunk_frames([payload])])
        if pb.ANSWER_ACCEPTED <= reply.answer <= pb.ANSWER_DISCARDED:
            self.seq, self.task = header.seq, 0
        return reply

    def send(self, frames: Iterable[bytes]) -> pb.PushReply:
        """Any frames as a push."""
        return self.stub.push(iter(frames), timeout=CALL)

    def attend(self, session: int, beats: Iterable[Any] = ()) -> Any:
        """Shows that it is there, for as long as there are beats."""
        first = pb.Beat(key=self.key, session=session)
        return self.stub.attend(itertools.chain([first], beats))
