"""A federation on a hostile network and on disks that are killed and rolled back.

A schedule is a list of steps ``(what, a, b)``; ``a`` and ``b`` are whole numbers from
which a step takes all its choices. A step that makes no sense at its moment does
nothing, so every part of a schedule is a schedule, and a failing one can be cut down
to a few steps that a person can read.
"""

import random
import shutil
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedcore.coordinator.actions import Finish, Refuse, SendAck, SendReply
from fedcore.coordinator.events import (
    ClientEnrolled,
    ClientPulled,
    Decided,
    Departed,
    Evicted,
    Lost,
    Paused,
    Readmitted,
    SnapshotOrdered,
    StopRequested,
    Timer,
    TimerFired,
    Unpaused,
    UpdatePushed,
)
from fedcore.coordinator.state import NO_TASK
from fedcore.errors import ProtocolError
from fedcore.params import content_digest, digest
from fedcore.participant import Outcome, OutdatedError
from fedcore.payloads import dense_payload, pack
from fedcore.proofs import Authenticator
from fedcore.protocol import (
    NOTHING_SETTLED,
    Abandoned,
    Ack,
    Answer,
    Held,
    ModelName,
    Proof,
    Pull,
    Push,
    Reply,
    Settled,
    Verdict,
)
from fedrun.config import FederationConfig
from tests.protocol.client import CheckedClient
from tests.protocol.ghost import ViolationError
from tests.protocol.parts import (
    CODECS,
    EXACT,
    INITIAL,
    PLAIN,
    REFUSED_SAMPLES,
    Rules,
    algorithm_config,
    build,
    tolerance_of,
)
from tests.protocol.server import CheckedServer

Step = tuple[str, int, int]
CLIENTS = 3
FORGER = "forger"  # enrolled like others, and never says a true word
OTHER_SECRET = b"of another world"
NOT_FINITE = pack(dense_payload(np.full(len(INITIAL), np.nan, np.float32)))


@dataclass(frozen=True)
class Setting:
    """Which federation a schedule runs in."""

    uplink: str = "top_k"
    downlink: str = "top_k"
    deadline: bool = False
    synchronous: bool = False
    rules: Rules = PLAIN
    snapshots: bool = False  # one after each commit
    real_disks: bool = False  # client states in SQLite files, too
    overlap: bool = False  # clients train on while their messages travel
    places: int | None = None  # of a client in a buffer
    minimum: int = 1  # updates that are enough at the deadline

    @classmethod
    def draw(cls, rng: random.Random) -> "Setting":
        codecs = sorted(EXACT if rng.random() < 0.8 else CODECS)
        return cls(
            uplink=rng.choice(codecs),
            downlink=rng.choice(codecs),
            deadline=rng.random() < 0.5,
            synchronous=rng.random() < 0.3,
            rules=Rules(
                rng.choice(["sgd", "sgd", "momentum", "adam"]),
                rng.choice(["updates", "updates", "samples"]),
            ),
            snapshots=rng.random() < 0.1,
            real_disks=rng.random() < 0.1,
        ).divided(rng.random() < 0.5)

    def divided(self, one_each: bool) -> "Setting":
        """The setting where each client has one place in a buffer, or its share."""
        places = 1 if one_each and not self.synchronous else None
        return replace(self, places=places)


@dataclass(frozen=True)
class Enrol:
    cid: str
    name: str


@dataclass(frozen=True)
class Leave:
    cid: str


@dataclass
class Heard:
    """All proofs that ever left the server, whoever they were for."""

    versions: list[tuple[int, Proof]] = field(default_factory=list)
    verdicts: list[tuple[str, Settled]] = field(default_factory=list)
    left: list[Proof] = field(default_factory=list)

    def hear(self, cid: str, message: Reply | Ack) -> None:
        """Takes note of what somebody was told."""
        if isinstance(message, Ack):
            if isinstance(message.answer, Verdict):
                settled = Settled(message.seq, message.answer, message.proof)
                self.verdicts.append((cid, settled))
            return
        self.versions.append((message.patch.version, message.proof))
        self.left.append(message.left)
        if message.receipt is not None:
            told = message.receipt
            settled = Settled(told.seq, told.verdict, told.proof)
            self.verdicts.append((cid, settled))


def forged(
    rng: random.Random, cid: str, nonce: int, epoch: str, ahead: int, heard: Heard
) -> Pull:
    """A pull with a claim of something that never was."""
    pull = Pull(cid=cid, nonce=nonce, epoch=epoch)
    other_run = Authenticator(OTHER_SECRET)
    verdict = rng.choice(list(Verdict))
    match rng.randrange(8):
        case 0:
            guess = rng.choice([0, rng.getrandbits(64)])
            return replace(pull, held=Held(epoch, ahead, "", guess))
        case 1:
            proof = other_run.version(epoch, ahead)
            return replace(pull, held=Held(epoch, ahead, "", proof))
        case 2 if heard.versions:  # of a history that was left, it may be
            version, proof = rng.choice(heard.versions)
            return replace(pull, held=Held(epoch, version, "", proof))
        case 3 if heard.versions:
            proof = rng.choice(heard.versions)[1]
            return replace(pull, held=Held(epoch, ahead, "", proof))
        case 4 if heard.verdicts:  # one's own, of a history that was left, it may be
            cid, settled = rng.choice(heard.verdicts)
            return replace(pull, cid=cid, settled=settled)
        case 5 if heard.verdicts:  # another client's
            _, settled = rng.choice(heard.verdicts)
            return replace(pull, settled=settled)
        case 6:
            proof = other_run.verdict(epoch, cid, 1 << 30, verdict)
            return replace(pull, settled=Settled(1 << 30, verdict, proof))
    proof = rng.choice(
        [0, rng.getrandbits(64), other_run.departure(epoch), *heard.left]
    )
    return replace(pull, epoch="f" * 16, abandoned=(Abandoned(epoch, proof),))


Message = Enrol | Leave | Pull | Push | Reply | Ack | Refuse


@dataclass
class World:
    """One run of the model check."""

    setting: Setting
    log: list[str] = field(default_factory=list)
    events: int = 0

    def __enter__(self) -> "World":
        """Makes server and clients on a disk in memory."""
        shm = Path("/dev/shm")  # for speed; any folder will do
        self.place = Path(tempfile.mkdtemp(dir=shm if shm.is_dir() else None))
        self.at, self._nonce, self._epochs = 0.0, 0, 0
        config = algorithm_config(
            self.setting.uplink,
            self.setting.downlink,
            self.setting.rules,
            deadline=self.setting.deadline,
            synchronous=self.setting.synchronous,
            overlap=self.setting.overlap,
            places=self.setting.places,
            minimum=self.setting.minimum,
        )
        federation = FederationConfig(
            algorithm=config,
            server={"journal": self.place / "run"},
            journal={"snapshot_records": 1 if self.setting.snapshots else 2000},
            model=self.place / "none",
        )
        self.algorithm = build(config)
        rules = self.setting.rules
        off = tolerance_of(rules, self.setting.uplink, self.setting.downlink)
        first = self._epoch()
        self.server = CheckedServer(federation, self.place, first, off, rules)
        self.to_server: list[Message] = []
        self.to_clients: list[tuple[str, Message]] = []
        self.copies: list[Path] = []
        self.spoilt: set[tuple[str, str]] = set()
        self.proofs = Heard()
        self.bases: dict[
            tuple[str, int, str], ModelName
        ] = {}  # what was really trained on
        self.given: dict[Proof, tuple[str, ModelName]] = {}  # to whom, on what
        self.used: dict[tuple[int, Proof], int] = {}  # by which message
        self.entitled: set[tuple[str, int, str]] = set()  # messages of honest tasks
        self.farewells: set[tuple[str, int, str]] = set()  # first ones of clients
        self.verdicts: dict[tuple[int, str, str, int, str], object] = {}
        self.digests: dict[tuple[int, str, int], str] = {}
        self.clients = []
        for i in range(CLIENTS):
            place = self.place / f"c{i}" if self.setting.real_disks else None
            client = CheckedClient(f"c{i}", self.algorithm, place, off)
            self.clients.append(client)
            self._enrol(client)
            self._send(Enrol(client.cid, client.name))
            self._drain_network()
        self._send(Enrol(FORGER, FORGER))
        self._drain_network()
        self.old_disks: dict[int, object] = {}
        return self

    def __exit__(self, *_: object) -> None:
        """Removes the disks."""
        self.server.kill()
        for client in self.clients:
            client.close()
        shutil.rmtree(self.place)

    def execute(self, schedule: list[Step]) -> None:
        """Takes the steps; all invariants are checked after each of them."""
        for what, a, b in schedule:
            self.at += 0.25
            self.events += 1
            getattr(self, f"do_{what}")(a, b)
            self.check()

    def check(self, *, at_rest: bool = False) -> None:
        """All that must hold at every moment, on what is durable."""
        server = self.server
        server.check()
        for client in self.clients:
            same = client.saved_epoch == server.durable_epoch
            client.check(
                server.durable.accepted,
                reconciled=at_rest or (same and not server.unnoticed),
                restored=server.rollbacks > 0,
            )

    # ------------------------------------------------------------------ names

    def _epoch(self) -> str:
        self._epochs += 1
        return f"{self._epochs:016x}"

    def _client(self, a: int) -> CheckedClient:
        return self.clients[a % len(self.clients)]

    def _say(self, text: str) -> None:
        self.log.append(f"{len(self.log) + 1:4d}  {text}")

    def _send(self, message: Message) -> None:
        self.to_server.append(message)

    def _enrol(self, client: CheckedClient) -> None:
        """What a client is told when it enrols: the durable state of affairs."""
        cid = client.enrol(
            self.server.run.run_id, self.server.durable_epoch, INITIAL, digest(INITIAL)
        )
        self._say(f"{client.name} begins as {cid}")

    # --------------------------------------------------------------- client steps

    def do_pull(self, a: int, b: int) -> None:
        """A client asks for model and work."""
        self._pull(self._client(a))

    def _pull(self, client: CheckedClient) -> None:
        self._nonce += 1
        self._send(client.participant.pull(self._nonce))
        self._say(f"{client.cid} pulls (nonce {self._nonce})")

    def do_fetch(self, a: int, b: int) -> None:
        """A client asks for model and work, and its answer comes before all others."""
        client = self._client(a)
        if not self.server.up:
            return
        self._pull(client)
        self._take(self.to_server.pop(), 1)
        for place, (cid, message) in enumerate(self.to_clients):
            if cid == client.cid and getattr(message, "nonce", 0) == self._nonce:
                del self.to_clients[place]
                self._hear(cid, message, b)
                return

    def do_begin(self, a: int, b: int) -> None:
        """A client begins to train on the model that it holds."""
        client = self._client(a)
        is_hasty = b % 8 == 0
        if not client.participant.state.left and client.begin_training(hasty=is_hasty):
            assert client.training is not None
            self._say(f"{client.cid} begins to train on {client.training[0]}")

    def do_finish(self, a: int, b: int) -> None:
        """A client finishes its task; it may be killed before it has saved."""
        client = self._client(a)
        if client.training is None or client.participant.state.left:
            return
        rng = np.random.default_rng(b)
        delta = rng.integers(-4, 5, len(INITIAL)).astype(np.float64)
        if b % 11 == 0:
            delta = delta * 0
        samples = 0 if b % 23 == 0 else REFUSED_SAMPLES if b % 17 == 0 else 1 + b % 5
        base, before = client.training[0], client.participant.state.pending
        is_honest = client.has_task(base)
        client.finish_training(delta, samples, b)
        pending = client.participant.state.pending
        if pending is not None and pending is not before:
            push = pending.push
            self.bases[push.cid, push.seq, push.digest] = base
            name = (push.cid, push.seq, push.digest)
            for earlier in (self.entitled, self.farewells):
                earlier.discard(name)  # of one that was not saved, it may be
            if is_honest and push.base == base:
                self.entitled.add(name)
        self._end_of_transaction(
            client, b, f"{client.cid} finishes ({samples} samples)"
        )

    def do_push(self, a: int, b: int) -> None:
        """A client sends its message, first or again."""
        participant = self._client(a).participant
        if participant.state.pending is not None:
            push = participant.push()
            self._send(push)
            self._say(f"{push.cid} sends message {push.seq}")

    def do_flush(self, a: int, b: int) -> None:
        """A client that will leave sends all that its memory holds."""
        client, seq = self._client(a), self._client(a).participant.state.seq
        if client.participant.flush():
            pending = client.participant.state.pending
            if pending is not None and not client.has_flushed:
                push = pending.push
                name = (push.cid, push.seq, push.digest)
                self.entitled.discard(name)
                self.farewells.add(name)
            client.has_flushed |= client.participant.state.seq > seq
            self._end_of_transaction(client, b, f"{client.cid} flushes its memory")

    def do_leave(self, a: int, b: int) -> None:
        """A client leaves for good, once nothing is in flight; then it begins anew."""
        client = self._client(a)
        if client.participant.state.pending is not None:
            return
        self._send(Leave(client.cid))
        client.leave()
        client.save()
        self.check()
        self._say(f"{client.cid} leaves")
        self._begin_anew(client)

    def do_kill_client(self, a: int, b: int) -> None:
        """A client is killed; what it had saved is what it is."""
        client = self._client(a)
        client.crash()
        self._say(f"{client.cid} is killed")

    def do_lose_disk(self, a: int, b: int) -> None:
        """A client's disk is gone; it begins anew."""
        self._begin_anew(self._client(a))

    def do_copy_disk(self, a: int, b: int) -> None:
        """Somebody copies a client's disk."""
        self.old_disks[a % len(self.clients)] = self._client(a).copy_disk()
        self._say(f"{self._client(a).cid}'s disk is copied")

    def do_restore_disk(self, a: int, b: int) -> None:
        """Somebody puts the old copy back."""
        old = self.old_disks.pop(a % len(self.clients), None)
        if old is not None:
            self._client(a).restore_disk(old)
            self._say(f"{self._client(a).cid} has an old disk")

    def _begin_anew(self, client: CheckedClient) -> None:
        self._enrol(client)
        self._send(Enrol(client.cid, client.name))

    def _end_of_transaction(self, client: CheckedClient, b: int, text: str) -> None:
        """A kill just before a save undoes the whole transaction."""
        if b % 7 == 3:
            client.crash()
            self._say(f"{text}, and is killed before it has saved")
        else:
            client.save()
            self._say(text)

    def do_forge(self, a: int, b: int) -> None:
        """Somebody claims a later state, with proofs that are none or of other things.

        It knows every proof that ever left the server, and speaks for any client.
        """
        rng = random.Random((a << 16) + b)
        self._nonce += 1
        epoch = self.server.run.coordinator.state.epoch
        cid = rng.choice([FORGER, *(client.cid for client in self.clients)])
        ahead = self._version + rng.randint(1, 3)
        if rng.random() < 0.2:
            push = Push(
                cid=FORGER,
                epoch=epoch,
                seq=1 << 40,
                base=ModelName(epoch, ahead),
                payload=NOT_FINITE,
                digest="",
                settled=NOTHING_SETTLED,
                samples=1,
            )
            self._send(push)
        else:
            self._send(forged(rng, cid, self._nonce, epoch, ahead, self.proofs))
        self._say(f"forged: {_brief(self.to_server[-1])}")

    def do_intrude(self, a: int, b: int) -> None:
        """Somebody who was given nothing pushes, with whatever it can get hold of."""
        rng, state = random.Random(a << 16 | b), self.server.run.coordinator.state
        if rng.random() < 0.4:
            self._nonce += 1
            self._send(Pull(cid=FORGER, nonce=self._nonce, epoch=state.epoch))
            return
        row, epoch = state.clients.get(FORGER), state.epoch
        seq, other = (0 if row is None else row.seq) + 1, Authenticator(OTHER_SECRET)
        base = rng.randrange(state.version + 1)
        own = [proof for proof, (cid, _) in self.given.items() if cid == FORGER]
        task = rng.choice(
            [
                *(0, rng.getrandbits(64), other.task(epoch, FORGER, base, seq - 1)),
                *[*own[-4:], *list(self.given)[-4:]],
                *(proof for _, proof in self.proofs.versions[-2:]),
            ]
        )
        payload = pack(dense_payload(np.ones(len(INITIAL), np.float32)))
        push = Push(
            cid=FORGER,
            epoch=epoch,
            seq=seq,
            base=ModelName(epoch, self.given[task][1].version)
            if task in self.given and rng.random() < 0.5
            else ModelName(epoch, base),
            payload=payload,
            digest=content_digest(payload),
            settled=NOTHING_SETTLED,
            samples=1,
            steps=rng.randrange(2),
            task=task,
        )
        self._send(push)
        self._say(f"intruded: {_brief(push)}")

    # -------------------------------------------------------------- network steps

    def do_deliver(self, a: int, b: int) -> None:
        """A message reaches the server, in any order."""
        if not self.to_server or not self.server.up:
            return
        self._take(self.to_server.pop(a % len(self.to_server)), b)

    def do_answer(self, a: int, b: int) -> None:
        """An answer reaches its client, in any order."""
        if self.to_clients:
            name, message = self.to_clients.pop(a % len(self.to_clients))
            self._hear(name, message, b)

    def do_duplicate(self, a: int, b: int) -> None:
        """A message is in the network twice."""
        box: list[Any] = self.to_server if b % 2 else self.to_clients
        if box:
            box.append(box[a % len(box)])
            self._say(f"doubled: {_brief(box[-1])}")

    def do_lose(self, a: int, b: int) -> None:
        """A message is lost."""
        box: list[Any] = self.to_server if b % 2 else self.to_clients
        if box:
            self._say(f"lost: {_brief(box.pop(a % len(box)))}")

    def do_spoil(self, a: int, b: int) -> None:
        """A push turns out to be NaN, now and whenever it is sent again."""
        pushes = [m for m in self.to_server if isinstance(m, Push)]
        if pushes:
            push = pushes[a % len(pushes)]
            self.spoilt.add((push.cid, push.digest))
            self._say(f"spoilt: {_brief(push)}")

    # --------------------------------------------------------------- server steps

    def do_commit(self, a: int, b: int) -> None:
        """What was handled becomes durable and visible."""
        if self.server.up:
            self.server.commit()
            self._release()

    def do_kill_server(self, a: int, b: int) -> None:
        """The server is killed; what was not committed is gone."""
        if self.server.up:
            self.server.kill()
            self._say("the server is killed")

    def do_start_server(self, a: int, b: int) -> None:
        """A new server process on the same disk."""
        if not self.server.up:
            self.server.start(self.at)
            self._say(f"the server starts at version {self._version}")
            self._release()

    def do_snapshot(self, a: int, b: int) -> None:
        """The server writes a snapshot."""
        if self.server.up:
            self.server.snapshot()
            self._release()
            self._say("snapshot")

    def do_backup(self, a: int, b: int) -> None:
        """The operator copies the run."""
        self.copies.append(self.server.copy())
        self._say(f"copy {len(self.copies) - 1} of the run at version {self._version}")

    def do_restore(self, a: int, b: int) -> None:
        """The operator brings a copy back, by the command for it."""
        if self.copies:
            which = a % len(self.copies)
            self.server.restore(self.copies[which], self._epoch())
            self.server.start(self.at)
            self._say(f"copy {which} is restored, version {self._version}")
            self._release()

    def do_roll_back(self, a: int, b: int) -> None:
        """A copy takes the run's place behind the server's back."""
        if self.copies:
            which = a % len(self.copies)
            self.server.roll_back(self.copies[which])
            self.server.start(self.at)
            self._say(f"copy {which} silently replaces the run, {self._version}")
            self._release()

    def do_timer(self, a: int, b: int) -> None:
        """A timer fires."""
        timers = sorted(self.server.timers)
        if timers and self.server.up:
            timer = timers[a % len(timers)]
            self.at = max(self.at, self.server.timers.pop(timer))
            self._fire(timer, b)

    def do_late_timer(self, a: int, b: int) -> None:
        """A timer fires that fired before: for another round, or after the end."""
        if self.server.past and self.server.up:
            self._fire(self.server.past[a % len(self.server.past)], b)

    def _fire(self, timer: Timer, b: int) -> None:
        self._say(f"timer {timer.kind} {timer.subject} {timer.number} fires")
        self.server.past.append(timer)
        self._feed(TimerFired(at=self.at, timer=timer), b)

    def do_lost_client(self, a: int, b: int) -> None:
        """The server takes a client for lost."""
        if self.server.up:
            self._feed(Lost(at=self.at, cid=self._client(a).cid), b)

    def do_stop(self, a: int, b: int) -> None:
        """The operator ends the run."""
        if self.server.up:
            self._feed(StopRequested(at=self.at, reason="operator"), b)
            self._say("the run is ended")

    # ------------------------------------------------------------ the operator's acts

    def do_pause(self, a: int, b: int) -> None:
        """The operator pauses the run, or resumes it."""
        kind = Paused if a % 2 else Unpaused
        self._act(kind(at=self.at, by="operator"), b)

    def do_evict(self, a: int, b: int) -> None:
        """The operator shuts a client out, or lets it come back."""
        kind = Evicted if a % 3 == 0 else Readmitted
        self._act(kind(at=self.at, name=self._client(a // 3).name), b)

    def do_order_snapshot(self, a: int, b: int) -> None:
        """The operator wants a snapshot, which the commit writes."""
        self._act(SnapshotOrdered(at=self.at), b)

    def _act(self, event: Any, b: int) -> None:
        if self.server.up:
            self._say(f"the operator: {type(event).__name__}")
            self._feed(event, b)

    def _undo_acts(self) -> None:
        """The run goes on, and all may come back."""
        self._act(Unpaused(at=self.at), 1)
        for name in list(self.server.run.coordinator.state.roster.evicted):
            self._act(Readmitted(at=self.at, name=name), 1)

    # -------------------------------------------------------------------- plumbing

    @property
    def _version(self) -> int:
        return self.server.run.coordinator.state.version

    def _take(self, message: Message, b: int) -> None:
        """The server hears a message."""
        match message:
            case Enrol():
                event: Any = ClientEnrolled(
                    at=self.at, cid=message.cid, name=message.name
                )
            case Leave():
                event = Departed(at=self.at, cid=message.cid)
            case Pull():
                event = ClientPulled(
                    at=self.at, pull=message, fresh_epoch=self._epoch()
                )
            case Push():
                if (message.cid, message.digest) in self.spoilt:
                    message = replace(message, payload=NOT_FINITE)
                event = UpdatePushed(at=self.at, push=message)
            case _:
                raise TypeError(message)
        self._say(f"the server hears: {_brief(message)}")
        self._feed(event, b)

    def _feed(self, event: Any, b: int) -> None:
        """Handles an event; often the commit comes later."""
        epochs_before = len(self.server.ghost.accepted)
        decided = len(self.server.decisions)
        self.server.feed(event)
        if isinstance(event, UpdatePushed):
            self._check_epoch(event.push, epochs_before)
            for record in self.server.decisions[decided:]:
                self._check_task(event.push, record)
        if b % 4:
            self.server.commit()
            self._release()

    def _check_epoch(self, push: Push, accepted_before: int) -> None:
        """I11: an accepted message was trained on this epoch."""
        epoch = self.server.run.coordinator.state.epoch
        base = self.bases.get((push.cid, push.seq, push.digest), push.base)
        if (
            len(self.server.ghost.accepted) > accepted_before
            and base.epoch != epoch
            and not self.server.unnoticed
        ):
            raise ViolationError(f"I11: accepted, but trained on {base.epoch}")

    def _check_task(self, push: Push, record: Decided) -> None:
        """I21: an accepted update has a task of its own; I22: an honest one has it."""
        if record.verdict is Verdict.ACCEPTED and record.task:
            if self.given.get(push.task) != (push.cid, push.base):
                raise ViolationError(f"I21: {_brief(push)} was given no task")
            use = (self.server.rollbacks, push.task)
            if self.used.setdefault(use, push.seq) != push.seq:
                raise ViolationError(f"I21: {_brief(push)} uses a task again")
        name = (push.cid, push.seq, push.digest)
        may_leave = name in self.farewells and push.cid in self.server.ghost.tasked
        is_entitled = name in self.entitled or may_leave
        if record.reason == NO_TASK.reason and is_entitled:
            raise ViolationError(f"I22: {_brief(push)} is refused, and had a task")

    def _release(self) -> None:
        """What the server says is on its way."""
        for action in self.server.released:
            match action:
                case SendReply():
                    self._note_digest(action.reply)
                    self._note_task(action)
                    self.proofs.hear(action.cid, action.reply)
                    self.to_clients.append((action.cid, action.reply))
                case SendAck():
                    self._note_verdict(action)
                    self.proofs.hear(action.cid, action.ack)
                    self.to_clients.append((action.cid, action.ack))
                case Refuse():
                    self.to_clients.append((action.cid, action))
                case Finish():
                    pass
        self.server.released.clear()

    def _note_verdict(self, action: SendAck) -> None:
        """I10: one verdict per epoch, client, number and bytes."""
        ack = action.ack
        if not isinstance(ack.answer, Verdict):
            return
        epoch = self.server.run.coordinator.state.epoch
        name = (self.server.branch, epoch, action.cid, ack.seq, ack.digest)
        if self.verdicts.setdefault(name, ack.answer) is not ack.answer:
            raise ViolationError(
                f"I10: {name} was {self.verdicts[name]}, now {ack.answer}"
            )

    def _note_task(self, action: SendReply) -> None:
        """Takes note of a task that somebody was given."""
        task, patch = action.reply.task, action.reply.patch
        if task is not None and task.kind == "train":
            base = ModelName(patch.epoch, patch.version)
            self.given[task.proof] = action.cid, base

    def _note_digest(self, reply: Reply) -> None:
        """A model has one name, and a name means one model."""
        patch = reply.patch
        name = (self.server.branch, patch.epoch, patch.version)
        if self.digests.setdefault(name, patch.digest) != patch.digest:
            raise ViolationError(f"I5: two models have the name {name}")

    def _hear(self, cid: str, message: Message, b: int) -> None:
        """A client hears an answer; answers to an earlier identity are for nobody."""
        found = [client for client in self.clients if client.cid == cid]
        if not found:
            return
        (client,) = found
        self._say(f"{cid} hears: {_brief(message)}")
        try:
            self._understand(client, message)
        except OutdatedError as error:
            self._say(f"{cid}: {error}")
            client.sound = False
            self._begin_anew(client)
            return
        except ProtocolError as error:
            self._say(f"{cid} gives up: {error}")
        self._check_reference(client)
        self._end_of_transaction(client, b, f"{cid} has understood")

    def _understand(self, client: CheckedClient, message: Message) -> None:
        match message:
            case Reply():
                client.receive(message)
            case Ack():
                if client.settle(message) is Outcome.ENROL:
                    self._send(Enrol(client.cid, client.name))
            case Refuse():
                if message.answer is Answer.PROVE:
                    self._prove(client, message.nonce)
                elif message.answer is Answer.UNKNOWN and message.nonce:
                    self._send(Enrol(client.cid, client.name))  # else it is evicted
                elif message.answer is Answer.OBSOLETE:
                    raise OutdatedError("this client has left")
            case _:
                raise TypeError(message)

    def _prove(self, client: CheckedClient, nonce: int) -> None:
        """I16: what a client knows from the server, it can prove."""
        try:
            if client.participant.prove(nonce):
                self._pull(client)
        except OutdatedError as error:
            raise ViolationError(f"I16: {client.cid}: {error}") from error

    def _check_reference(self, client: CheckedClient) -> None:
        """I5: what a client holds was published under this name."""
        held = client.participant.state.held
        if held is None or not held.version:
            return
        published = {
            digest
            for (_, epoch, version), digest in self.digests.items()
            if (epoch, version) == held[:2]
        }
        if held.digest not in published:
            raise ViolationError(f"I5: {client.cid} holds {held}, never published")

    # ----------------------------------------------------------------------- drain

    def drain(self) -> None:
        """When all messages get through, all settle and reach the server's model."""
        self.do_start_server(0, 0)
        self.server.commit()
        self._release()
        self._undo_acts()
        quiet = 0
        for _ in range(16):
            before = self.server.durable_epoch
            self._drain_network()
            for i in range(len(self.clients)):
                self.do_push(i, 0)
                self._drain_network()
                self.do_pull(i, 0)
                self._drain_network()
            self._make_room()
            self._end_rounds()
            arrived = all(self._arrived(client) for client in self.clients)
            quiet = quiet + 1 if arrived and before == self.server.durable_epoch else 0
            if quiet == 2:
                self._end_run()
                self.check(at_rest=True)
                return
        raise ViolationError("drain: clients do not reach the server's model")

    def _end_run(self) -> None:
        """Everybody gets the last model."""
        self._feed(StopRequested(at=self.at, reason="the end"), 1)
        for i in range(len(self.clients)):
            self.do_pull(i, 0)
            self._drain_network()
        newest = self.server.run.coordinator.state.version
        held = [client.participant.state.held for client in self.clients]
        if any(each is None or each.version != newest for each in held):
            raise ViolationError(f"drain: not all hold version {newest}, but {held}")

    def _make_room(self) -> None:
        """While a message waits for a place in the next version, others train."""
        if self.setting.synchronous or all(
            client.participant.state.pending is None for client in self.clients
        ):
            return
        for i in range(len(self.clients)):
            self.do_begin(i, 1)
            self.do_finish(i, 1)

    def _end_rounds(self) -> None:
        """Nobody trains any more, so who leaves a cohort waits for nobody."""
        for cid in list(self.server.run.coordinator.rounds.leases.present):
            self._feed(Lost(at=self.at, cid=cid), 1)
        for timer in [t for t in self.server.timers if t.kind == "complete"]:
            self.at = max(self.at, self.server.timers.pop(timer))
            self._feed(TimerFired(at=self.at, timer=timer), 1)

    def _arrived(self, client: CheckedClient) -> bool:
        state, published = client.participant.state, self.server.run.coordinator.state
        return (
            state.pending is None
            and state.held is not None
            and state.held.epoch == published.epoch
        )

    def _drain_network(self) -> None:
        while self.to_server or self.to_clients:
            if self.to_server:
                self._take(self.to_server.pop(0), 1)
            else:
                name, message = self.to_clients.pop(0)
                self._hear(name, message, 1)
            self.check()
        for timer in [t for t in self.server.timers if t.kind == "hold"]:
            del self.server.timers[timer]
            self._feed(TimerFired(at=self.at, timer=timer), 1)
            while self.to_clients:
                name, message = self.to_clients.pop(0)
                self._hear(name, message, 1)


def _brief(message: Any) -> str:
    """A message in a few words."""
    if isinstance(message, tuple):
        return f"to {message[0]}: {_brief(message[1])}"
    match message:
        case Enrol():
            return f"enrol {message.cid}"
        case Leave():
            return f"{message.cid} leaves"
        case Pull():
            held = message.held
            return (
                f"{message.cid} pulls in {message.epoch[-2:]}, holds "
                f"{held and (held.epoch[-2:], held.version)}, settled "
                f"{message.settled.seq}"
            )
        case Push():
            base = message.base
            return (
                f"{message.cid} message {message.seq} in {message.epoch[-2:]}, base "
                f"{base.epoch[-2:]} {base.version}, settled {message.settled.seq}"
            )
        case Reply():
            patch = message.patch
            return (
                f"{patch.kind} to {patch.epoch[-2:]} {patch.version}, receipt "
                f"{message.receipt and message.receipt[0::2]}"
            )
        case Ack():
            return f"message {message.seq}: {message.answer.value}"
        case Refuse():
            return message.answer.value
    return str(message)
