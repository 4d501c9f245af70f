"""Sends one costly message for each line on its standard input, beside small calls.

It prints the time until the answer, and the longest wait of another client's small
call: on the core thread, and on the event loop.
"""

import argparse
import json
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Self

import grpc
from fedwire.service import Stub
from fedwire.v1 import federation_pb2 as pb

from benchmarks.hostile.attacker import Attacker
from benchmarks.hostile.dear import DEAR
from benchmarks.hostile.messages import Identity


@dataclass
class Beside:
    """Small calls of another client, one after the other, on a thread of its own."""

    peer: Attacker
    stub: Stub = field(init=False)
    me: Identity = field(default_factory=lambda: Identity(name="other"))
    on_core: list[float] = field(default_factory=list)
    on_loop: list[float] = field(default_factory=list)
    is_over: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        """Enrols."""
        self.stub = self.peer.connect()
        self.peer.ask(self.stub.enrol, self.me.enrol(self.peer.spec), timeout=60.0)

    def __enter__(self) -> Self:
        """Begins."""
        self.is_over.clear()
        self.on_core.clear()
        self.on_loop.clear()
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends."""
        self.is_over.set()
        self._thread.join()

    def _ask(self) -> None:
        upload, report = pb.ResumeRequest(**self.me.who), self.me.report(1, values={})
        while not self.is_over.wait(0.02):
            began = time.monotonic()
            self.peer.ask(self.stub.resume, upload, timeout=60.0)
            between = time.monotonic()
            self.peer.ask(self.stub.report, report, timeout=60.0)
            self.on_loop.append(between - began)
            self.on_core.append(time.monotonic() - between)


def main() -> None:
    options = _options()
    peer = Attacker(options)
    stub, beside = peer.connect(), Beside(peer)
    peer.enrol(stub)
    payload = DEAR[options.message](peer.dim)
    print(json.dumps({"bytes": len(payload)}), flush=True)
    for _ in sys.stdin:
        told = {"epoch": peer.epoch, "seq": next(peer.seqs), "base": 0}
        with beside:
            time.sleep(0.1)
            began = time.monotonic()
            answer = _push(stub, peer.me.frames(payload, **told))
            seconds = time.monotonic() - began
        found = {
            "answer": answer,
            "seconds": round(seconds, 4),
            "core waited": round(max(beside.on_core, default=0.0), 4),
            "loop waited": round(max(beside.on_loop, default=0.0), 4),
        }
        print(json.dumps(found), flush=True)


def _push(stub: Stub, frames: list[bytes]) -> str:
    try:
        return pb.Answer.Name(stub.push(iter(frames), timeout=60.0).answer)
    except grpc.RpcError as error:
        return str(error.code().name)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("--dim", type=int, required=True)
    parser.add_argument("--message", choices=DEAR, required=True)
    parser.set_defaults(stranger=False, ca=None, certificate=None, key=None)
    return parser.parse_args()


if __name__ == "__main__":
    main()
