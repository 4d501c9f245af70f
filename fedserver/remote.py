"""Asking a running server, from another shell."""

import json
from collections.abc import Iterator
from typing import Any

import grpc
from fedwire.connect import explained, parse_address
from fedwire.service import SERVICE, Stub
from fedwire.v1 import federation_pb2 as pb
from grpc_health.v1 import health_pb2, health_pb2_grpc
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fedcore.errors import UnavailableError
from fedcore.text import printable
from fedcore.typing import JSON
from fedrun.cli.traffic_tables import clients_table, overhead_line, totals_table
from fedrun.traffic import OTHERS, Lane, Load, read_lanes
from fedrun.units import counted

_PATIENCE = 5.0


def ask_status(host: str, **trust: Any) -> JSON:
    """The state of the run that a server has."""
    address = parse_address(host, **trust)
    with address.channel() as channel:
        try:
            reply = Stub(channel).status(pb.StatusRequest(), timeout=_PATIENCE)
        except grpc.RpcError as error:
            raise explained(error, address) from error
    return json.loads(reply.json)


def ask_health(host: str, **trust: Any) -> str:
    """``serving``, or an error."""
    address = parse_address(host, **trust)
    with address.channel() as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        request = health_pb2.HealthCheckRequest(service=SERVICE)
        try:
            reply = stub.Check(request, timeout=_PATIENCE)
        except grpc.RpcError as error:
            raise explained(error, address) from error
    name = health_pb2.HealthCheckResponse.ServingStatus.Name(reply.status)
    if name != "SERVING":
        raise UnavailableError(f"{address} is {name.lower().replace('_', ' ')}")
    return "serving"


def status_table(told: JSON) -> RenderableType:
    """The state of a run, for a terminal."""
    head = Table.grid(padding=(0, 2))
    head.add_row("run", told["run"])
    head.add_row("recipe", told["recipe"])
    goal = told["stop"].get("versions")
    of = f" of {goal}" if goal else ""
    head.add_row("version", f"{told['version']}{of}, {_buffer(told)}")
    updates = ", ".join(f"{n} {v}" for v, n in told["updates"].items()) or "none yet"
    head.add_row("updates", f"{updates} ({told['updates_per_second']:.1f}/s)")
    for name, value in told["metrics"].items():
        head.add_row(
            Text(printable(name)), f"{value:.4f} at version {told['measured']}"
        )
    if told["unproved"]:
        head.add_row("unproved", f"{told['unproved']:,} claims of a later state")
    if told.get("disk"):
        head.add_row("disk", Text(told["disk"]))
    for what, sentence in _troubles(told):
        head.add_row(what, Text(sentence))
    head.add_row("ended", told["ended"] or "no")
    table = Table(box=None, header_style="dim")
    columns = (
        "client",
        "does",
        "there",
        "accepted",
        "refused",
        "late by",
        "λ",
        "share",
    )
    for column in columns:
        table.add_column(column)
    for client in sorted(told["clients"], key=lambda c: str(c["name"])):
        table.add_row(
            Text(printable(client["name"])),  # not markup, whatever it holds
            client["doing"],
            "yes" if client["present"] else "no",
            str(client["accepted"]),
            str(client["refused"]),
            str(client["staleness"]),
            f"{client['weight']:.2f}",
            f"{client['recent_share']:.1%}" if client.get("recent_share") else "",
        )
    if told["unlisted"]:
        table.add_row(f"[dim]and {told['unlisted']:,} more[/]")
    return Group(head, Text(""), table, *_bytes(told))


def _troubles(told: JSON) -> Iterator[tuple[str, str]]:
    """What keeps the run from going on, who is hardly in the model, and who fails.

    A server of before tells none of it.
    """
    if "coverage" not in told:
        return
    if told["stalled"]:
        yield "stalled", told["stalled"]
    covered = told["coverage"]
    for warning in covered["warnings"]:
        yield "warning", warning
    if covered["absence"]:
        yield "missing", covered["absence"]
    for client in told["clients"]:
        if client["failures"]:
            times = f"{client['name']} failed {counted(client['failures'], 'time')}"
            yield "failed", f"{times}, last: {client['error']}"
        if client["skipped"]:
            left_out = f"{client['name']} left out {client['skipped']:,} samples"
            yield "skipped", f"{left_out}, last: {client['why']}"


def _bytes(told: JSON) -> list[RenderableType]:
    """Bytes of all, and of each client."""
    lanes: dict[Lane, Load] = {}
    names = {}
    for number, client in enumerate(told["clients"]):
        lanes |= read_lanes(cid := str(number), client["traffic"]["lanes"])
        names[cid] = client["name"]
    everything = read_lanes(OTHERS, told["traffic"]["lanes"])
    if not everything:
        return []
    dim = told["traffic"]["values"]
    return [
        Text(""),
        totals_table(everything, dim),
        Text(overhead_line(everything), style="dim"),
        Text(""),
        clients_table(lanes, names, dim),
    ]


def _buffer(told: JSON) -> str:
    count, size = told["buffer"]
    return f"{count} of {size} updates in the buffer"
