"""The means of attacks: connections, an identity, and a count of the answers."""

import argparse
import itertools
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from fedwire.connect import SERVICE, Address, parse_address
from fedwire.frames import read_reply
from fedwire.service import Stub
from fedwire.v1 import federation_pb2 as pb

from benchmarks.hostile.http2 import Raw, trusting
from benchmarks.hostile.messages import Identity
from fedcore import payloads
from fedcore.params import ParamSpec
from fedcore.payloads import dense_payload
from fedcore.typing import JSON, Seconds

CALL: Seconds = 5.0
_OWN = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.max_send_message_length", 4 << 20),
)


class Attacker:
    """One hostile peer."""

    def __init__(self, options: argparse.Namespace) -> None:
        trust = {
            name: getattr(options, name)
            for name in ("ca", "certificate", "key")
            if getattr(options, name) is not None
        }
        self.address: Address = parse_address(options.address, **trust)
        self.dim: int = options.dim
        self.is_stranger: bool = options.stranger
        layout = {"weight": np.zeros(self.dim, np.float32)}
        self.spec = ParamSpec.of(layout).to_json()
        self.me = Identity()
        self.over = threading.Event()
        self.answers: Counter[str] = Counter()
        self.failure = ""
        self.epoch = self.version = 0
        self.seqs = itertools.count(1)
        self._channels: list[grpc.Channel] = []
        self._raw: list[Raw] = []

    # -------------------------------------------------------------- beginning, ending

    def begin(self) -> None:
        """Before an attack."""
        self.over.clear()
        self.answers.clear()
        self.me = Identity(owner=self.me.owner)  # as if it began anew
        self.seqs = itertools.count(1)
        self.failure = ""

    def make(self, attack: Callable[["Attacker"], None]) -> None:
        """Makes an attack; whatever goes wrong on this side is told."""
        try:
            attack(self)
        except Exception:  # noqa: BLE001  it is told
            self.failure = traceback.format_exc()

    def hang_up(self) -> None:
        """Ends all connections."""
        for channel in self._channels:
            channel.close()
        for raw in self._raw:
            raw.close()
        self._channels.clear()
        self._raw.clear()

    def told(self) -> JSON:
        """What it did, and was answered."""
        return {"answers": dict(self.answers.most_common(12)), "failure": self.failure}

    # -------------------------------------------------------------------- connections

    def connect(self) -> Stub:
        """A connection of its own."""
        if self.address.is_encrypted:
            trust = self.address
            credentials = grpc.ssl_channel_credentials(
                *map(_read, (trust.ca, trust.key, trust.certificate))
            )
            channel = grpc.secure_channel(str(self.address), credentials, _OWN)
        else:
            channel = grpc.insecure_channel(str(self.address), _OWN)
        self._channels.append(channel)
        return Stub(channel)

    def raw(self, *, window: int = 0) -> Raw:
        """A connection without gRPC."""
        trust = self.address
        tls = trusting(trust.ca, trust.certificate, trust.key)
        made = Raw(trust.host, trust.port, tls=tls, window=window)
        self._raw.append(made)
        return made

    def rate(self, each_second: float) -> Iterator[int]:
        """Numbers, so many a second, until the attack is over."""
        began = time.monotonic()
        for number in itertools.count():
            if self.over.wait(
                max(0.0, began + number / each_second - time.monotonic())
            ):
                return
            yield number

    # -------------------------------------------------------------------------- calls

    def ask(self, call: Callable[..., Any], request: Any, **more: Any) -> Any:
        """The reply, or None; the status is counted."""
        try:
            reply = call(request, timeout=more.pop("timeout", CALL), **more)
        except grpc.RpcError as error:
            self.answers[error.code().name] += 1
            return None
        self.answers["OK"] += 1
        return reply

    def enrol(self, stub: Stub, **more: Any) -> Any:
        """Asks to be enrolled, unless it is a stranger; takes over the epoch."""
        if self.is_stranger:
            return None
        reply = self.ask(stub.enrol, self.me.enrol(self.spec, **more))
        if reply is not None:
            self.epoch = reply.epoch
        return reply

    def pull(self, stub: Stub, **more: Any) -> Any:
        """The reply without its chunks; takes over epoch and version."""
        told = {**self.me.who, "epoch": self.epoch, **more}
        try:
            call = stub.pull(pb.PullRequest(**told), timeout=CALL)
            reply = read_reply(next(call))
            call.cancel()
        except grpc.RpcError as error:
            self.answers[error.code().name] += 1
            return None
        if reply.refused:
            self.answers[pb.Answer.Name(reply.refused)] += 1
        else:
            self.answers["PULLED"] += 1
            self.epoch, self.version = reply.epoch or told["epoch"], reply.version
        return reply

    def push(self, stub: Stub, frames: Any, *, timeout: Seconds = CALL) -> Any:
        """The answer to a push."""
        try:
            reply = stub.push(iter(frames), timeout=timeout)
        except grpc.RpcError as error:
            self.answers[error.code().name] += 1
            return None
        self.answers[pb.Answer.Name(reply.answer)] += 1
        return reply

    def update(self) -> bytes:
        """An update that is sound."""
        return payloads.pack(dense_payload(np.full(self.dim, 1e-9, np.float32)))


def _read(path: Path | None) -> bytes | None:
    return None if path is None else path.read_bytes()


def path(method: str) -> str:
    """Of a method of the service."""
    return f"/{SERVICE}/{method}"
