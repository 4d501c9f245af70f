"""A load generator: clients that push updates without training.

``python -m benchmarks.speed.load ADDRESS MODEL --kind KIND`` enrols its clients and
lets each pull once; then, for every number on its standard input, they push that many
updates in all, and it prints the seconds that this took. The chunks are made
beforehand, so that the load costs little beside the measured server. It reads the
secret of the run in the folder beside the model, and proves the tasks that it was not
given, so that it need not pull for each push. ``--bare`` leaves out enrolment and pull,
for a peer that knows only pushes.
"""

import argparse
import itertools
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
from fedwire.connect import Address, parse_address
from fedwire.convert import epoch_name, push_header, read_answer
from fedwire.frames import chunk_frames, header_frame
from fedwire.keys import cid_of, fresh_key
from fedwire.service import Stub
from fedwire.v1 import federation_pb2 as pb

from benchmarks.speed.processes import answer
from fedclient.wire.connection import Connection, Refusal
from fedcore import payloads
from fedcore.arrays import top_k_indices
from fedcore.params import ParamSpec, content_digest
from fedcore.payloads import dense_payload, sparse_payload
from fedcore.proofs import Authenticator
from fedcore.protocol import (
    NOTHING_SETTLED,
    Held,
    ModelName,
    Pull,
    Push,
    Settled,
    Verdict,
)
from fedcore.rng import Key
from fedrun.files import load_model
from fedrun.journal import Journal
from fedrun.journal.recover import secret_of

KEPT = 0.01
RUN = "run"  # the folder of the served run, beside the model


def make_payload(kind: str, dim: int, key: Key) -> bytes:
    """An update as an uplink of this kind sends it."""
    values_D = np.float32(1e-3) * key.generator().standard_normal(dim, np.float32)
    if kind == "dense":
        return payloads.pack(dense_payload(values_D))
    kept_K = top_k_indices(np.abs(values_D), max(1, round(KEPT * dim)))
    return payloads.pack(sparse_payload(dim, kept_K, values_D[kept_K]))


class LoadClient:
    """One client: a connection of its own, and the same payload every time."""

    def __init__(
        self, address: Address, spec: ParamSpec, payload: bytes, cid: str
    ) -> None:
        self._payload, self._name = payload, cid
        self._key, self._owner = fresh_key(), fresh_key()
        self._cid = cid_of(self._key)
        self._digest = content_digest(payload)
        self._chunks = list(chunk_frames([payload]))
        self._connection = Connection(address, spec, self._key)
        self._push = Stub(address.channel()).push
        self._epoch, self._seq = "0" * 16, 0
        self._settled = NOTHING_SETTLED
        self._proofs = Authenticator()

    def join(self, proofs: Authenticator) -> None:
        """Enrols, and pulls once: there is work, and version 0 need not travel.

        Args:
            proofs: makes those of the tasks.
        """
        self._proofs = proofs
        reply = self._connection.enrol(
            pb.EnrolRequest(key=self._key, owner=self._owner, name=self._name)
        )
        self._epoch = epoch_name(reply.epoch)
        held = Held(self._epoch, 0, reply.origin.hex())
        pull = Pull(cid=self._cid, nonce=1, epoch=self._epoch, held=held)
        answered = self._connection.pull(pull)
        assert not isinstance(answered, Refusal), answered
        assert answered.task is not None

    @property
    def frame_bytes(self) -> int:
        """What one update takes on the wire, but for HTTP/2."""
        return sum(map(len, self._frames()))

    def push(self, *, bare: bool) -> None:
        """The next update; the server must accept it."""
        self._seq += 1
        reply = self._push(self._frames())
        if bare:
            return
        assert read_answer(reply.answer) is Verdict.ACCEPTED, reply
        self._settled = Settled(self._seq, Verdict.ACCEPTED)

    def _frames(self) -> Iterator[bytes]:
        push = Push(
            cid=self._cid,
            epoch=self._epoch,
            seq=self._seq,
            base=ModelName(self._epoch, 0),
            payload=self._payload,
            digest=self._digest,
            settled=self._settled,
            samples=100,
            steps=10,
            update_norm=1.0,
            loss=1.0,
            task=self._proofs.task(self._epoch, self._cid, 0, self._seq - 1),
        )
        header = push_header(push, self._key)
        yield header_frame(header)
        if header.size:
            yield from self._chunks


def main() -> None:
    options = _options()
    spec, _ = load_model(options.model)
    address, key = parse_address(options.address), Key.root(0).fold_in("speed")
    clients = [
        LoadClient(
            address,
            spec,
            make_payload(options.kind, spec.dim, key.fold_in(index)),
            f"load-{index}",
        )
        for index in range(options.clients)
    ]
    if not options.bare:
        with closing(Journal.open(options.model.parent / RUN, read_only=True)) as run:
            proofs = Authenticator(secret_of(run))
        for client in clients:
            client.join(proofs)
    answer({"bytes": clients[0].frame_bytes})
    with ThreadPoolExecutor(len(clients)) as pool:
        for line in sys.stdin:
            shares = _shares(int(line), len(clients))
            began = time.perf_counter()
            list(pool.map(_push_all, clients, shares, itertools.repeat(options.bare)))
            answer(time.perf_counter() - began)


def _push_all(client: LoadClient, count: int, bare: bool) -> None:
    for _ in range(count):
        client.push(bare=bare)


def _shares(count: int, clients: int) -> list[int]:
    return [count // clients + (place < count % clients) for place in range(clients)]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed.load")
    parser.add_argument("address")
    parser.add_argument("model", type=Path)
    parser.add_argument("--kind", choices=["dense", "sparse"], default="dense")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--bare", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
