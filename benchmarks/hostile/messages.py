"""The messages of a peer, in the version of the wire protocol that is imported.

A client is identified by a secret key in every request; in earlier versions, by an id
that anybody could show.
"""

import os
import zlib
from dataclasses import dataclass, field
from typing import Any

from fedwire.convert import INLINE
from fedwire.frames import chunk_frames, header_frame
from fedwire.service import PROTOCOLS
from fedwire.v1 import federation_pb2 as pb

from fedcore.params import content_digest

BY_KEY = "key" in pb.PullRequest.DESCRIPTOR.fields_by_name
_PROOFS = [f for f in pb.PullRequest.DESCRIPTOR.fields if "proof" in f.name]


@dataclass
class Identity:
    """A client as the peer shows it."""

    name: str = "hostile"
    key: bytes = field(default_factory=lambda: os.urandom(16))
    owner: bytes = field(default_factory=lambda: os.urandom(16))

    @property
    def who(self) -> dict[str, Any]:
        """The field that names it in every request."""
        return {"key": self.key} if BY_KEY else {"cid": self.key.hex()}

    def enrol(self, spec: str, **more: Any) -> Any:
        """Asks to be enrolled."""
        told: dict[str, Any] = {"protocols": PROTOCOLS, "name": self.name, "spec": spec}
        if BY_KEY:
            told["owner"] = self.owner
        return pb.EnrolRequest(**{**told, **self.who, **more})

    def report(self, epoch: int, version: int = 0, **more: Any) -> Any:
        """What it claims to have measured on a version."""
        model = pb.ModelName(epoch=epoch, version=version)
        told: dict[str, Any] = {"model": model, "samples": 1000}
        return pb.ReportRequest(**{**told, **self.who, **more})

    def header(self, payload: bytes, **more: Any) -> Any:
        """A payload's header; of a small one, with the payload in it."""
        told: dict[str, Any] = {**self.who, "samples": 1, "steps": 1}
        if len(payload) <= INLINE:
            told |= {"payload": payload, "crc32": zlib.crc32(payload)}
        else:
            digest = bytes.fromhex(content_digest(payload))
            told |= {"size": len(payload), "digest": digest}
        return pb.PushHeader(**{**told, **more})

    def frames(self, payload: bytes, **more: Any) -> list[bytes]:
        """A whole push."""
        header = self.header(payload, **more)
        body = chunk_frames([payload]) if header.size else ()
        return [header_frame(header), *body]


def pretended(cid: str) -> dict[str, Any]:
    """Another client, of which its id is known and nothing else."""
    if not BY_KEY:
        return {"cid": cid}
    try:
        return {"key": bytes.fromhex(cid)}
    except ValueError:
        return {"key": cid.encode()}


def random_proofs() -> dict[str, Any]:
    """Something in each field for proofs; nothing where the wire has none."""
    return {each.name: _random(each) for each in _PROOFS}


def _random(each: Any) -> Any:
    number = int.from_bytes(os.urandom(7), "little")
    value = os.urandom(8) if each.type == each.TYPE_BYTES else number
    return [value] if each.is_repeated else value
