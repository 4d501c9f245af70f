"""Three parties count the same bytes: the codecs, the server, and a proxy between."""

import os
import re
import signal

import pytest
from click.testing import CliRunner
from rich.console import Console

from fedcore.coordinator.events import Decided, Leased
from fedrun.cli.traffic_tables import bytes_of_all
from fedrun.traffic import CONTROL, OTHERS, WAYS, by_client, in_messages, total
from fedrun.traffic_file import read_traffic
from fedserver.cli import main
from fedview.results import Results
from tests.integration.conftest import Make
from tools.counting_proxy import CountingProxy
from tools.local import LocalFederation

CLIENTS = 3
CODECS = {
    "uplink": {"kind": "error_feedback", "inner": {"kind": "top_k", "ratio": 0.05}},
    "downlink": {"kind": "top_k", "ratio": 0.05},
}
ALGORITHM = {"kind": "double_compression", "buffer": CLIENTS, "min_clients": CLIENTS}
ALGORITHM |= {"client": {"kind": "local_sgd", "lr": 0.1, "batch": 32}}
SUMMARY = re.compile(r"(up|down): (\d+) payloads? of (\S+ \S+) \(([^)]+)\)")


def run(fed: LocalFederation, host: str) -> None:
    """Clients train to the end of the run."""
    children = [fed.client(i, CLIENTS, host=host) for i in range(CLIENTS)]
    for child in (*children, fed.children["server"]):
        assert child.wait() == 0, child.tail()


@pytest.mark.processes
@pytest.mark.parametrize("codecs", [{}, CODECS], ids=["identity", "top_k"])
def test_codec_message_and_proxy_agree_within_what_is_reported(
    federation: Make, codecs: dict[str, object]
) -> None:
    identity = {"uplink": {"kind": "identity"}, "downlink": {"kind": "identity"}}
    fed = federation(
        algorithm={**ALGORITHM, **(codecs or identity)}, stop={"versions": 8}
    )
    fed.server("--no-evaluator")
    with CountingProxy(fed.address) as proxy:
        run(fed, proxy.address)
        outside = dict(proxy.sent)
        connections = proxy.connections
    results, book = Results(fed.run), read_traffic(fed.run)
    assert book is not None
    lanes = book.lanes()
    console = Console(width=120)
    for table in bytes_of_all(lanes, results.dim):
        console.print(table)
    console.print(f"proxy: {outside}, {connections} connections")

    # The codec against the journal, which knows the tasks but not the last model.
    way_up = total(load for lane, load in lanes.items() if lane.way == "up")
    assert way_up.payload == sum(r.nbytes for r in results.of(Decided))
    assert way_up.transfers == len(results.of(Decided))
    down = total(load for lane, load in lanes.items() if lane.way == "down")
    last = 4 * results.dim + 6  # at most the whole model once more
    leased = sum(r.nbytes for r in results.of(Leased))
    assert leased <= down.payload <= leased + CLIENTS * last
    formats = {lane.codec.split()[0] for lane in lanes if lane.codec != CONTROL}
    assert formats <= ({"sparse", "values", "dense"} if codecs else {"dense"})

    # Each level holds the one below: messages the payloads, the network the messages.
    for own in by_client(lanes).values():
        for way in WAYS:
            load = total(load for lane, load in own.items() if lane.way == way)
            assert load.payload < load.framed
    framed = dict.fromkeys(WAYS, 0)
    for lane, load in lanes.items():
        if lane.cid != OTHERS:  # who asks for the status comes by no proxy
            framed[lane.way] += load.framed
    for way in WAYS:
        assert framed[way] < outside[way] < 3 * framed[way] + 10_000, way
    assert results.messages == in_messages(lanes)

    # What the clients say, and what the page shows.
    for index in range(CLIENTS):
        (told,) = re.findall(
            "bytes of this session: .*", fed.children[f"client-{index}"].log.read_text()
        )
        said = {way: (int(n), size) for way, n, size, _ in SUMMARY.findall(told)}
        own = by_client(lanes)[_cid(results, f"client-{index}")]
        for way in WAYS:
            load = total(load for lane, load in own.items() if lane.way == way)
            assert said[way][0] == load.transfers
    page = CliRunner().invoke(main, ["report", str(fed.run)])
    assert page.exit_code == 0
    assert "in messages" in (fed.run / "report.html").read_text()


def _cid(results: Results, name: str) -> str:
    return next(cid for cid, known in results.names.items() if known == name)


@pytest.mark.processes
def test_a_killed_server_counts_on(federation: Make) -> None:
    fed = federation(algorithm=ALGORITHM | CODECS)
    server = fed.server("--no-evaluator")
    for index in range(CLIENTS):
        fed.client(index, CLIENTS)
    fed.wait_until(
        lambda: (fed.status() or {"version": 0})["version"] >= 3, "3 versions"
    )
    fed.wait_until(lambda: read_traffic(fed.run) is not None, "the book")
    fed.wait_until(lambda: _payload(fed) > 0, "it is written")
    for child in fed.children.values():
        if child is not server:
            child.kill()
    before = fed.status()["traffic"]
    fed.wait_until(
        lambda: _payload(fed) >= _payload_of(before), "what was told is on the disk"
    )
    assert server.process is not None
    os.killpg(server.process.pid, signal.SIGKILL)
    server.process.wait()
    fed.server("--no-evaluator")
    after = fed.status()["traffic"]
    assert _payload_of(after) == _payload_of(before)


def _payload(fed: LocalFederation) -> int:
    book = read_traffic(fed.run)
    return total(book.lanes().values()).payload if book is not None else 0


def _payload_of(told: dict[str, object]) -> int:
    lanes = told["lanes"]
    assert isinstance(lanes, list)
    return sum(lane["payload"] for lane in lanes)
