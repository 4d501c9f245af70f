"""Thousands of clients that wait for work, on one server process.

Each has a connection of its own, with an open pull and a heartbeat as often as the
server asks for one. One process acts for all of them, on bare sockets, because the
benchmark measures the server.
"""

import argparse
import json
import resource
import selectors
import sys
import time
from contextlib import suppress
from itertools import count

from fedwire.v1 import federation_pb2 as pb

from benchmarks.hostile.attacker import Attacker, path
from benchmarks.hostile.http2 import HEADERS, RESET
from benchmarks.hostile.messages import Identity

HEARTBEAT = 2.0


class Waiting:
    """One client that waits."""

    def __init__(self, peer: Attacker, number: int) -> None:
        self._me, self._epoch = Identity(name=f"idle-{number}"), peer.epoch
        self.raw = peer.raw(window=1 << 16)
        request = self._me.enrol(peer.spec).SerializeToString()
        enrolment = self.raw.begin(path("Enrol"), request)
        self.raw.socket.settimeout(10.0)
        while not any(stream == enrolment for _, stream in self.raw.read() or ()):
            pass
        self.raw.socket.settimeout(0.0)
        beat = pb.Beat(**self._me.who, session=1).SerializeToString()
        self._attendance = self.raw.begin(path("Attend"), beat, ends=False)
        self.pull()

    def pull(self) -> None:
        """Asks for work."""
        request = pb.PullRequest(**self._me.who, epoch=self._epoch, held=0)
        self.waits_on = self.raw.begin(path("Pull"), request.SerializeToString())

    def beat(self) -> None:
        """It is still there."""
        self.raw.say(self._attendance, b"")


def main() -> None:
    options = _options()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    peer = Attacker(options)
    peer.enrol(peer.connect())
    peer.hang_up()
    selector, crowd = selectors.DefaultSelector(), []
    for number in range(options.clients):
        crowd.append(Waiting(peer, number))
        selector.register(crowd[-1].raw, selectors.EVENT_READ, crowd[-1])
    lost = pulls = 0
    print(json.dumps({"clients": len(crowd)}), flush=True)
    began = time.monotonic()
    beats = count(1)
    due = next(beats)
    selector.register(sys.stdin, selectors.EVENT_READ, None)
    while True:
        pause = began + due * HEARTBEAT / len(crowd) - time.monotonic()
        for key, _ in selector.select(max(0.0, pause)):
            if key.data is None:
                sys.stdin.readline()
                print(json.dumps({"lost": lost, "pulls": pulls}), flush=True)
                continue
            frames = key.data.raw.read()
            if frames is None:
                lost += 1
                selector.unregister(key.data.raw)
            elif any(
                s == key.data.waits_on and k in (HEADERS, RESET) for k, s in frames
            ):
                pulls += 1
                key.data.pull()
        while time.monotonic() > began + due * HEARTBEAT / len(crowd):
            with suppress(OSError):
                crowd[due % len(crowd)].beat()
            due = next(beats)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("--dim", type=int, required=True)
    parser.add_argument("--clients", type=int, default=5000)
    parser.set_defaults(stranger=False, ca=None, certificate=None, key=None)
    return parser.parse_args()


if __name__ == "__main__":
    main()
