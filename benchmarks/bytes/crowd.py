"""Many clients in one process, each as ``fedclient join`` would run it.

Every client has a thread, a state directory and a TCP connection of its own; they share
the process and the data set, because a hundred processes do not fit on this machine.
"""

import argparse
import threading
import traceback
from dataclasses import dataclass
from pathlib import Path

import grpc
from fedwire.connect import OPTIONS, Address, parse_address

from fedclient.state.store import ClientStore
from fedclient.work.membership import Identity, Membership
from fedclient.work.worker import Worker
from fedcore.workload import Client, Workload
from fedrun.app import load_app


@dataclass(frozen=True)
class OwnSocket(Address):
    """An address to which each channel makes a connection of its own."""

    def channel(self) -> grpc.Channel:
        """Not one for all channels of this process, as gRPC would make it."""
        own = ("grpc.use_local_subchannel_pool", 1)
        return grpc.insecure_channel(str(self), (*OPTIONS, own))


def work(given: argparse.Namespace, workload: Workload, index: int) -> None:
    """One client, until the run has ended."""
    client, model = who(given, index), workload.flat()
    target = parse_address(given.address)
    member = Membership(
        OwnSocket(target.host, target.port),
        model,
        ClientStore(given.folder / client.name),
        Identity(name=client.name, index=index, count=given.count),
        checkpoint=given.model,
    )
    try:
        Worker(member, workload, model, client).run()
    finally:
        member.close()


def who(given: argparse.Namespace, index: int) -> Client:
    """What a client knows of itself."""
    args = {"data": given.data, "seed": str(given.seed)}
    return Client(f"client-{index}", index, given.count, args)


def main() -> int:
    """Returns 1 if a client failed."""
    given = _options()
    workload = load_app(given.app)
    workload.train_data(who(given, given.first))  # read once, before all need it
    failed = threading.Event()

    def client(index: int) -> None:
        try:
            work(given, workload, index)
        except Exception:  # noqa: BLE001 -- whatever it was, the benchmark must end
            traceback.print_exc()
            failed.set()

    threads = [
        threading.Thread(target=client, args=(index,))
        for index in range(given.first, given.count, given.step)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return int(failed.is_set())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bytes.crowd")
    parser.add_argument("address")
    parser.add_argument("--app", required=True)
    parser.add_argument("--model", type=Path, required=True, help="version 0")
    parser.add_argument("--folder", type=Path, required=True, help="for their states")
    parser.add_argument("--data", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, required=True, help="of all clients")
    parser.add_argument("--first", type=int, default=0, help="the first one here")
    parser.add_argument("--step", type=int, default=1, help="from one here to the next")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
