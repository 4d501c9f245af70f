"""All checks, one after the other; a failed check does not stop the others."""

import os
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any, NamedTuple

from fedwire.connect import Address, parse_address
from fedwire.keys import fresh_key
from fedwire.v1 import federation_pb2 as pb

from fedclient.check import reach, remote
from fedclient.check.findings import Findings
from fedclient.check.local import Data, Step, read_data, step
from fedclient.commands import read_gate
from fedclient.device.conditions.gate import Gate
from fedclient.device.device import NO_ENERGY
from fedclient.device.pace import read_pace
from fedclient.silo.worker import SETTING
from fedclient.silo.workload import read_workers
from fedclient.state.store import ClientStore
from fedclient.wire.connection import Connection
from fedclient.work.choices import read_choices
from fedcore.errors import ConfigError, StateError
from fedcore.model import FlatModel
from fedcore.protocol import Verdict
from fedcore.typing import Seconds
from fedcore.workload import Client, Workload, require_sums
from fedrun.app import code_hash, load_app
from fedrun.cli.command import key_and_value
from fedrun.units import in_bytes, in_seconds

SOON = 14  # a certificate that ends in fewer days leads to a warning
_SERVED = ("protocol", "package", "run", "model", "name", "enrolment")
_HINTS = {
    "protocol": "install the same version of latecomer on both sides",
    "run": "give another --state, or start the server of that run",
    "model": "use the app that made the server's model file",
    "name": "choose another --name, or have the operator free this one",
    "evicted": "ask the operator to readmit this client",
    "room": "the operator can raise server.max_clients",
    "request": "choose a shorter, printable --name",
}


class Keys(NamedTuple):
    """The client's identity, as its state or as a newcomer's default."""

    key: bytes
    owner: bytes
    name: str
    run_id: str


def check(
    host: str,
    *,
    app: str,
    state: Path | None,
    name: str,
    index: int,
    count: int,
    data: tuple[str, ...],
    checkpoint: Path | None,
    device: str | None,
    choose: tuple[str, ...],
    pace: str,
    workers: int | None,
    stragglers: int | None,
    conditions: Path | None,
    **trust: Any,
) -> Findings:
    """Checks everything that a client needs to join a federation, without joining.

    Raises:
        ConfigError: an option has an impossible value.
    """
    if index >= count:
        raise ConfigError(f"--index {index} of --count {count}: it counts from 0")
    read_pace(pace)
    read_workers(workers, stragglers)
    address, choices = parse_address(host, **trust), read_choices(choose)
    gate = read_gate(conditions)
    args = dict(map(key_and_value, data))
    found = Findings()
    took = _reach(found, address)
    workload = _app(found, app, device, workers)
    keys = _state(found, state, name)
    client = Client(keys.name if keys else name, index, count, args)
    reads = _data(found, workload, client)
    if conditions is not None:
        _conditions(found, gate)
    if workload is None or keys is None or found.has_failed(*_REACH):
        found.skip("it needs a check that failed", *_SERVED, "step", "upload")
        return found
    model = workload.flat()
    request = pb.EnrolRequest(
        key=keys.key,
        owner=keys.owner,
        name=keys.name,
        index=index,
        count=count,
        run_id=keys.run_id,
        code=code_hash(app),
    )
    with closing(Connection(address, model.spec, keys.key)) as connection:
        reply = _ask(found, connection, request)
        if reply is None or reads is None:
            found.skip("it needs a check that failed", "step", "upload")
            return found
        taken = _step(
            found,
            workload,
            model,
            reply,
            keys,
            client,
            reads,
            choices,
            checkpoint,
            workers,
        )
        if taken is None:
            found.skip("it needs a check that failed", "upload")
        else:
            _upload(found, connection, taken, took)
    return found


# -------------------------------------------------------------------------- server

_REACH = ("name", "port", "certificate", "language", "server")


def _reach(found: Findings, address: Address) -> Seconds:
    """Reaches the server; returns the time of a round trip."""
    with found.explaining("name", "look at the spelling, and at the DNS"):
        if not address.is_socket:
            found.ok("name", reach.resolve(address))
    if found.has_failed():
        found.skip("the server is not reached", "port", "certificate", "server")
        return 0.0
    hint = "is the server started? Is it the right port, and open in all firewalls?"
    through = ""
    if (proxy := address.proxy) is not None:
        hint = f"look at the proxy; no_proxy={address.host} goes around it"
        through = f" through the proxy {proxy}"
    with found.explaining("port", hint):
        after = f"in {1e3 * reach.connect(address):.1f} ms"
        found.ok("port", f"{address} took a connection {after}{through}")
    if found.has_failed():
        found.skip("the server is not reached", "certificate", "server")
        return 0.0
    if address.is_encrypted:
        _certificate(found, address)
    else:
        hint = "give --ca if the server speaks TLS; look at the port if not"
        with found.explaining("language", hint):
            reach.speak(address)
            found.ok("language", "speaks HTTP/2 without TLS")
    if found.has_failed():
        found.skip("the server is not reached", "server")
        return 0.0
    took = 0.0
    hint = "look at the server's log; is this the port of the federation?"
    with found.explaining("server", hint):
        took = remote.round_trip(address)
        found.ok(
            "server", f"serves, a round trip takes {1e3 * took:.1f} ms", round_trip=took
        )
    return took


def _certificate(found: Findings, address: Address) -> None:
    hint = "give the authority that signed it with --ca, or look at the address"
    with found.explaining("certificate", hint):
        address.channel().close()  # the files that it reads are certificates and a key
        told = reach.certificate(address)
        days = (told.until - datetime.now(UTC)).days
        text = (
            f"valid for {', '.join(told.names)} until {told.until:%Y-%m-%d}, signed by "
            f"{told.issuer or 'somebody'}"
        )
        facts = {"until": told.until.isoformat(), "sha256": told.fingerprint}
        if days < SOON:
            text += f": {days} days are left"
            found.warn("certificate", text, "have it renewed", **facts)
        else:
            found.ok("certificate", text, **facts)


def _ask(
    found: Findings, connection: Connection, request: pb.EnrolRequest
) -> pb.EnrolReply | None:
    """Asks the server whether it would enrol the client."""
    own = version_of("latecomer")
    reply: pb.CheckReply | None = None
    hint = "upgrade the server; fedclient join may work with it as it is"
    with found.explaining("protocol", hint):
        reply = remote.ask(connection, pb.CheckRequest(enrol=request, package=own))
    if reply is None:
        found.skip("the server cannot be asked", *_SERVED[1:])
        return None
    objections = {each.about: each.text for each in reply.objections}
    run_id = reply.enrol.run_id
    texts = {
        "protocol": f"both speak {max(reply.protocols, default=0)}",
        "run": f"at version {reply.version}" + (f", {run_id}" if run_id else ""),
        "model": "has the same tensors",
        "name": f"{request.name!r} is free or this client's"
        if request.name
        else "none given: a random one",
    }
    for what, text in texts.items():
        if what in objections:
            found.fail(what, objections.pop(what), _HINTS[what])
        else:
            found.ok(what, text)
    if reply.package == own:
        found.ok("package", f"latecomer {own} on both sides")
    else:
        text = f"latecomer {own} here, {reply.package or 'an unknown one'} there"
        found.warn("package", text, "use the same version where you can")
    for what, text in objections.items():
        found.fail("enrolment", text, _HINTS.get(what, ""))
    if reply.objections:
        return None
    if reply.enrol.gone:
        text = "this client has left the run for good; it would join as a new one"
        found.warn("enrolment", text, "give another --state if that is not wanted")
    elif reply.enrol.warning:
        found.warn("enrolment", reply.enrol.warning, "see the texts of fedclient join")
    else:
        found.ok("enrolment", "the server would enrol this client")
    return reply.enrol


def _upload(
    found: Findings, connection: Connection, taken: Step, round_trip: Seconds
) -> None:
    hint = "look at the server's log"
    with found.explaining("upload", hint):
        sent = remote.upload(connection, taken.push)
        rate, is_least = sent.rate(round_trip)
        least = "at least " if is_least else ""
        text = (
            f"{in_bytes(sent.nbytes)} in {1e3 * sent.seconds:.1f} ms, {least}"
            f"{in_bytes(rate)}/s; judged {sent.answer.value}, not counted"
        )
        facts = {"nbytes": sent.nbytes, "seconds": sent.seconds, "rate": rate}
        if sent.answer is Verdict.ACCEPTED:
            found.ok("upload", text, **facts)
        elif sent.answer in (Verdict.REJECTED_CLOSED, Verdict.REJECTED_POLICY):
            said = f"{text} ({sent.reason})"
            found.warn("upload", said, "the server reads it, and has no use for it")
        else:
            found.fail("upload", f"{text} ({sent.reason})", hint, **facts)


# ------------------------------------------------------------------------- on here


def _app(
    found: Findings, app: str, device: str | None, workers: int | None
) -> Workload | None:
    with found.explaining("app", "look at --app; the working folder comes first"):
        workload = load_app(app)
        workload = workload if device is None else workload.on(device)
        spec = workload.flat().spec
        if workers is not None:
            require_sums(workload, spec, SETTING)
        found.ok("app", f"{app}: {spec.dim:,} values in {len(spec.tensors)} tensors")
        return workload
    return None


def _state(found: Findings, folder: Path | None, name: str) -> Keys | None:
    """Returns the client's identity; creates no folder and writes nothing."""
    newcomer = Keys(fresh_key(), fresh_key(), name, "")
    if folder is None:
        found.ok("state", "none given: checked as a new client")
        return newcomer
    with found.explaining(
        "state", "stop the client that runs, or give another --state"
    ):
        if not (folder / "state.sqlite3").is_file():
            _require_writable(folder)
            found.ok("state", f"{folder} is fresh")
            return newcomer
        with ExitStack() as stack:
            store = ClientStore(folder)
            stack.callback(store.close)
            saved = store.load()
            keys = Keys(
                store.key(),
                store.owner(),
                name or store.name() or "",
                saved.run_id if saved is not None and not saved.left else "",
            )
            sent = f", {saved.seq} updates sent" if saved is not None else ""
            found.ok("state", f"{folder} is that of {keys.name!r}{sent}")
            return keys
    return None


def _require_writable(folder: Path) -> None:
    there = (folder, *folder.absolute().parents)
    nearest = next(path for path in there if path.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise StateError(f"{folder} cannot be made: {nearest} is not writable")


def _data(found: Findings, workload: Workload | None, client: Client) -> Data | None:
    if workload is None:
        found.skip("there is no app", "data")
        return None
    with found.explaining("data", "look at train_data, --index, --count and --data"):
        read = read_data(workload, client)
        counts = None if read.counts is None else read.counts.tolist()
        found.ok("data", str(read), samples=read.samples, labels=counts)
        return read
    return None


def _conditions(found: Findings, gate: Gate) -> None:
    if unmet := gate.unmet():
        why = "; ".join(map(str, unmet))
        hint = "nothing is wrong: the client begins once they hold"
        found.warn("conditions", f"would wait now: {why}", hint)
    else:
        found.ok("conditions", "hold now")


def _step(
    found: Findings,
    workload: Workload,
    model: FlatModel,
    reply: pb.EnrolReply,
    keys: Keys,
    client: Client,
    data: Data,
    choices: dict[str, Any],
    checkpoint: Path | None,
    workers: int | None,
) -> Step | None:
    with found.explaining("step", "the app or the algorithm's client section is wrong"):
        taken = step(
            workload,
            model,
            reply,
            keys.key,
            client,
            data,
            choices,
            checkpoint,
            workers,
        )
        task = in_seconds(taken.seconds * taken.steps)
        text = (
            f"{in_seconds(taken.seconds)}; a task of {taken.steps} takes about {task}"
        )
        if not taken.derived:
            text += (
                f"; version 0 will be downloaded, up to {in_bytes(4 * model.spec.dim)}"
            )
        found.ok("step", text, seconds=taken.seconds, steps=taken.steps)
        if taken.lacks_energy:
            found.warn("energy", NO_ENERGY, "let this user read the counter")
        return taken
    return None
