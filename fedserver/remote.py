"""Asks a running server for its status or health, or for what its operator wants."""

import errno
import time
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from fedwire.connect import SOCKET, Address, explaining, parse_address
from fedwire.service import SERVICE, Stub
from fedwire.v1 import federation_pb2 as pb
from grpc_health.v1 import health_pb2, health_pb2_grpc
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fedcore.errors import (
    IMPOSSIBLE,
    ConfigError,
    JournalError,
    ProtocolError,
    UnavailableError,
)
from fedcore.text import from_peer, printable
from fedcore.typing import JSON
from fedrun.cli.traffic_tables import clients_table, overhead_line, totals_table
from fedrun.journal import exists
from fedrun.json_text import read_json
from fedrun.lock import is_locked
from fedrun.plain_files import read_plain
from fedrun.run import Done, free_name
from fedrun.run import operate as operate_unserved
from fedrun.traffic import OTHERS, Lane, Load, read_lanes
from fedrun.units import counted
from fedserver.acts import event_of, this_operator
from fedserver.listening import OPERATOR_FILE

Reply = TypeVar("Reply")
MOST_LABELS = 12  # in a line of the status
_MOST_ADDRESS = 4096  # bytes of a note with an address
_PATIENCE, _FREE_SECONDS, _ACT_SECONDS = 5.0, 10.0, 60.0  # seconds


def ask_status(target: str, **trust: Any) -> JSON:
    """Returns the status of a run, as :func:`fedserver.status.status_json`.

    Args:
        target: RUN, the folder of a run that is served, or HOST.
        trust: how a HOST is trusted.

    Raises:
        JournalError: there is no run, or no server has it.
        UnavailableError: the server does not answer.
        RefusedError: the server wants another certificate.
    """

    def unserved(folder: Path) -> JSON:
        raise JournalError(
            f"{folder}: no server has this run; fedserver report {folder} tells how it "
            f"stands, and fedserver journal show {folder} prints its records"
        )

    return _at(target, _status, unserved, **trust)


def _status(address: Address) -> JSON:
    with address.channel() as channel, explaining(address):
        reply = Stub(channel).status(pb.StatusRequest(), timeout=_PATIENCE)
    try:
        told = read_json(reply.json)
    except ValueError as error:
        raise ProtocolError(f"{address} tells no status: {error}") from error
    if not isinstance(told, dict):
        raise ProtocolError(f"{address} tells no status")
    return told


def ask_health(host: str, **trust: Any) -> str:
    """Returns ``serving``.

    Raises:
        UnavailableError: the server does not answer, or is not serving.
    """
    address = parse_address(host, **trust)
    with address.channel() as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        request = health_pb2.HealthCheckRequest(service=SERVICE)
        with explaining(address):
            reply = stub.Check(request, timeout=_PATIENCE)
    name = health_pb2.HealthCheckResponse.ServingStatus.Name(reply.status)
    if name != "SERVING":
        raise UnavailableError(f"{address} is {name.lower().replace('_', ' ')}")
    return "serving"


def free(run: Path, name: str) -> bool:
    """Frees a name, through the run's server or in its journal if none runs.

    Returns:
        Whether a client had the name.

    Raises:
        JournalError: there is no run, or its server cannot be reached.
    """
    try:
        return _by_server(run / OPERATOR_FILE, name)
    except (OSError, UnavailableError):  # no server, or one that was killed
        return free_name(run, name, time.time())


def _by_server(note: Path, name: str) -> bool:
    address = _socket_in(note)
    with address.channel() as channel:
        request = pb.FreeRequest(name=name)
        with explaining(address):
            return bool(Stub(channel).free(request, timeout=_FREE_SECONDS).was_taken)


def _socket_in(note: Path) -> Address:
    """Returns the address of a socket that a server has noted in the folder of its run.

    Raises:
        OSError: there is no note, or it says something else.
    """
    text = read_plain(note, _MOST_ADDRESS, links=False).decode(errors="replace")
    if not text.startswith(SOCKET):
        raise OSError(errno.EINVAL, "names no socket", str(note))
    return parse_address(text)


def operate(target: str, request: pb.OperateRequest, **trust: Any) -> Done:
    """Carries out an act in the run of a folder, served or not, or at a server.

    Args:
        target: RUN, a folder, or HOST.
        request: the act; who the operator is is added.
        trust: how a HOST is trusted.

    Raises:
        ConfigError: the act cannot be done; the message says why.
        JournalError: there is no run.
        UnavailableError: the server does not answer.
        RefusedError: the server wants another certificate.
    """
    request.by = this_operator()

    def unserved(folder: Path) -> Done:
        act = event_of(request, time.time())
        assert act is not None
        return operate_unserved(folder, act)

    return _at(target, lambda at: _operate(target, at, request), unserved, **trust)


def _operate(target: str, address: Address, request: pb.OperateRequest) -> Done:
    with address.channel() as channel, explaining(address):
        reply = Stub(channel).operate(request, timeout=_ACT_SECONDS)
    if reply.objection:
        raise ConfigError(f"{target}: {reply.objection}")
    return Done(reply.version, Path(reply.snapshot) if reply.snapshot else None)


def _at(
    target: str,
    call: Callable[[Address], Reply],
    unserved: Callable[[Path], Reply],
    **trust: Any,
) -> Reply:
    """Calls the server of a run.

    Args:
        target: RUN, a folder, or HOST.
        call: the server at an address; for a folder its operator's socket.
        unserved: what to do with the folder of a run that no server has.
        trust: how a HOST is trusted.

    Raises:
        JournalError: there is no run in the folder.
        UnavailableError: the server does not answer.
    """
    folder = Path(target)
    if target.startswith(SOCKET) or not exists(folder):
        if not target.startswith(SOCKET) and (folder.is_dir() or folder.parent.name):
            raise JournalError(f"{folder}: no journal here")
        try:
            return call(parse_address(target, **trust))
        except UnavailableError as error:
            raise UnavailableError(
                f"{error}; and {target} is no run's folder"
            ) from None
    try:
        return call(_socket_in(folder / OPERATOR_FILE))
    except (OSError, UnavailableError) as error:  # no server, or one that was killed
        if isinstance(error, UnavailableError) and is_locked(folder):
            raise  # its disk fails, or it is about to stop
        return unserved(folder)


def _as_told(table: Callable[[JSON], RenderableType]) -> Callable[[JSON], Any]:
    """Shows what a server says in printable texts, and what is no status as an error.

    Raises:
        ProtocolError: it is not the status of a run.
    """

    @wraps(table)
    def shown(status: JSON) -> RenderableType:
        try:
            return table(_printable(status))
        except IMPOSSIBLE as error:
            why = f"{type(error).__name__}: {from_peer(str(error))}"
            raise ProtocolError(
                f"the server does not tell the status of a run: {why}"
            ) from error

    return shown


def _printable(told: Any) -> Any:
    if isinstance(told, dict):
        return {from_peer(key): _printable(value) for key, value in told.items()}
    if isinstance(told, list):
        return list(map(_printable, told))
    return from_peer(told) if isinstance(told, str) else told


@_as_told
def status_table(status: JSON) -> RenderableType:
    """Returns the state of a run, for a terminal."""
    head = Table.grid(padding=(0, 2))
    head.add_row("run", Text(status["run"]))
    head.add_row("recipe", Text(status["recipe"]))
    goal = status["stop"].get("versions")
    of = f" of {goal}" if goal else ""
    head.add_row("version", f"{status['version']}{of}, {_buffer(status)}")
    updates = ", ".join(f"{n} {v}" for v, n in status["updates"].items()) or "none yet"
    head.add_row("updates", f"{updates} ({status['updates_per_second']:.1f}/s)")
    for name, value in status["metrics"].items():
        at = status.get("evaluated_version", status.get("measured"))  # an older server
        head.add_row(Text(printable(name)), f"{value:.4f} at version {at}")
    if status["unproved"]:
        head.add_row("unproved", f"{status['unproved']:,} claims of a later state")
    if status.get("disk"):
        head.add_row("disk", Text(status["disk"]))
    for what, sentence in _troubles(status):
        head.add_row(what, Text(sentence))
    if (why := status.get("paused")) is not None:  # an older server tells neither
        paused = "nobody is given training until it is resumed"
        head.add_row("paused", Text(printable(f"{why}: {paused}" if why else paused)))
    for name, why in status.get("evicted", {}).items():
        head.add_row("evicted", Text(printable(f"{name}: {why}" if why else name)))
    if labels := _labels(status):
        head.add_row("labels", Text(printable(labels)))
    head.add_row("ended", status["ended"] or "no")
    names = ("client", "does", "there", "accepted", "refused", "late by", "λ")
    table = Table(
        *(*names, "share", "recently"),
        box=None,
        header_style="dim",
    )
    for client in sorted(status["clients"], key=lambda c: str(c["name"])):
        table.add_row(
            Text(printable(client["name"])),  # not markup, whatever it holds
            _doing(client),
            "yes" if client["present"] else "no",
            str(client["accepted"]),
            str(client["refused"]),
            str(client["staleness"]),
            f"{client['weight']:.2f}",
            *(_share(client, name) for name in ("share", "recent_share")),
        )
    if status["unlisted"]:
        table.add_row(f"[dim]and {status['unlisted']:,} more[/]")
    return Group(head, Text(""), table, *_bytes(status))


def _doing(client: JSON) -> str:
    """What a client does, in a word; an older server tells of none that waits."""
    return "waits" if client.get("waiting") else str(client["doing"])


def _share(client: JSON, name: str) -> str:
    """A client's share in the model, where it has one; an older server tells none."""
    return f"{client[name]:.1%}" if client.get(name) else ""


def _labels(status: JSON) -> str:
    """The shares of the labels in the model, the largest first."""
    found = status.get("coverage", {}).get("labels", {})
    shares = sorted(((own["share"], name) for name, own in found.items()), reverse=True)
    said = [f"{name}: {share:.1%}" for share, name in shares[:MOST_LABELS]]
    more = len(shares) - len(said)
    return ", ".join(said) + (f" and {more:,} more" if more > 0 else "")


def _troubles(status: JSON) -> Iterator[tuple[str, str]]:
    """Yields warnings: a stalled run, clients that the model hardly has, failures.

    An older server sends none of these.
    """
    if "coverage" not in status:
        return
    if status["stalled"]:
        yield "stalled", status["stalled"]
    covered = status["coverage"]
    for warning in covered["warnings"]:
        yield "warning", warning
    if covered["absence"]:
        yield "missing", covered["absence"]
    for client in status["clients"]:
        if client["failures"]:
            times = f"{client['name']} failed {counted(client['failures'], 'time')}"
            yield "failed", f"{times}, last: {client['error']}"
        if why := client.get("waiting"):
            yield "waiting", f"{client['name']} waits: {why}"
        if client["skipped"]:
            left_out = f"{client['name']} left out {client['skipped']:,} samples"
            yield "skipped", f"{left_out}, last: {client['why']}"


def _bytes(status: JSON) -> list[RenderableType]:
    """Makes tables of the bytes of all clients and of each client."""
    lanes: dict[Lane, Load] = {}
    names = {}
    for number, client in enumerate(status["clients"]):
        lanes |= read_lanes(cid := str(number), client["traffic"]["lanes"])
        names[cid] = client["name"]
    everything = read_lanes(OTHERS, status["traffic"]["lanes"])
    if not everything:
        return []
    dim = status["traffic"]["values"]
    return [
        Text(""),
        totals_table(everything, dim),
        Text(overhead_line(everything), style="dim"),
        Text(""),
        clients_table(lanes, names, dim),
    ]


def _buffer(status: JSON) -> str:
    count, size = status["buffer"]
    return f"{count} of {size} updates in the buffer"
