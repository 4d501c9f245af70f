"""The clients of a run: a small row of each, and who has joined and owns which name."""

from collections import deque
from dataclasses import dataclass, field
from typing import assert_never

from fedcore.coordinator import events
from fedcore.coordinator.events import Enrolment
from fedcore.protocol import HISTORY, Receipt, Role, Settled, Verdict
from fedcore.typing import JSON

# -------------------------------------------------------- rows: small, without vectors


@dataclass(slots=True)
class ClientRow:
    """A client of the run. After the client has left, its row stays."""

    cid: str
    name: str
    role: Role
    index: int = 0  # which of ``count`` parts of the data it has
    count: int = 1
    receipt: Receipt | None = None
    reason: str = ""  # of the last verdict
    accepted: deque[int] = field(default_factory=lambda: deque(maxlen=HISTORY))
    left: bool = False
    evicted: str | None = None
    """Why the operator has shut it out; None: it may take part."""
    has_trained: bool = False
    """Whether a message of a task of its own has got a verdict."""
    has_flushed: bool = False
    """Whether it has sent what its error memory holds, as it may when it leaves."""
    number: tuple[int, int] = (0, 1)
    """Its part of the data as it first joined, which later ones do not change. A client
    that told none has how many had joined to train before, and 1."""
    lost_name: bool = False
    """Whether its name was freed while it was evicted: then it stays out for good."""

    @property
    def place(self) -> tuple[int, int]:
        """Its part of the data: index and count."""
        return self.index, self.count

    @property
    def seq(self) -> int:
        """The sequence number of the last decided message; 0 if there is none."""
        return self.receipt.seq if self.receipt else 0

    @property
    def trains(self) -> bool:
        """Whether it is a trainer that has not left and may take part."""
        return self.role == "trainer" and not self.is_out

    @property
    def is_out(self) -> bool:
        """Whether it has left for good, or is evicted."""
        return self.left or self.evicted is not None

    def contradicts(self, settled: Settled) -> bool:
        """Whether the client knows a later verdict, or another on the same message."""
        if self.receipt is not None and settled.seq == self.receipt.seq:
            return settled.verdict is not self.receipt.verdict
        return settled.seq > self.seq

    def store_verdict(self, receipt: Receipt, reason: str) -> None:
        """Stores a verdict with its reason."""
        self.receipt, self.reason = receipt, reason
        if receipt.verdict is Verdict.ACCEPTED:
            self.accepted.append(receipt.seq)

    def to_json(self) -> JSON:
        """Returns the row as JSON, for a snapshot."""
        saved = {
            "cid": self.cid,
            "name": self.name,
            "role": self.role,
            "index": self.index,
            "count": self.count,
            "receipt": self.receipt and self.receipt[:5],  # its proof is made anew
            "reason": self.reason,
            "accepted": list(self.accepted),
            "left": self.left,
            "number": list(self.number),
            "has_trained": self.has_trained,
        }
        if self.has_flushed:
            saved["has_flushed"] = True
        if self.evicted is None:
            return saved
        return {**saved, "evicted": self.evicted, "lost_name": self.lost_name}

    @classmethod
    def from_json(cls, saved: JSON) -> "ClientRow":
        """The row that :meth:`to_json` wrote."""
        receipt = None
        if saved["receipt"]:
            seq, digest, verdict, weight, version = saved["receipt"]
            receipt = Receipt(seq, digest, Verdict(verdict), weight, version)
        accepted = deque(saved["accepted"], maxlen=HISTORY)
        number = tuple(saved["number"])
        given = {"receipt": receipt, "accepted": accepted, "number": number}
        return cls(**{**saved, **given})


# ---------------- the roster: who has joined, who owns which name, and who is shut out


_MOST_AT_A_PLACE = 8  # clients that are noted for one part of the data


class Roster:
    """All clients that have ever joined, by their ids, and their names."""

    def __init__(self) -> None:
        """Makes the roster of a run that nobody has joined yet."""
        self.clients: dict[str, ClientRow] = {}
        self.trainers = 0  # clients that have not left and are not evicted
        self.joined = 0  # trainers that have ever joined
        self.owners: dict[str, str] = {}  # of names; those of a simulation have none
        self.evicted: dict[str, str] = {}
        """Names under which nobody may enrol, with the operator's reason."""
        self._at: dict[tuple[int, int], list[str]] = {}  # the ids, by part of the data
        self._by_name: dict[str, list[str]] = {}  # the ids of clients

    def note(self, record: Enrolment) -> None:
        """Applies a record of clients that come, go, or are shut out."""
        match record:
            case events.Enrolled():
                self._enrol(record)
            case events.Freed():
                self.owners.pop(record.name, None)
                self.evicted.pop(record.name, None)
                for row in self.rows_of(record.name):
                    row.lost_name = row.evicted is not None
            case events.Evicted():
                self.evicted[record.name] = record.reason
                self._evict(record.name, record.reason)
            case events.Readmitted():
                self.evicted.pop(record.name, None)
                self._evict(record.name, None)
            case events.Departed():
                row = self.clients[record.cid]
                self.trainers -= row.trains
                row.left = True
            case _:
                assert_never(record)

    def _enrol(self, record: events.Enrolled) -> None:
        row = self.clients.get(record.cid)
        if row is None:
            place = record.index, record.count
            number = place if record.count > 1 else (self.joined, 1)
            row = ClientRow(record.cid, record.name, record.role, number=number)
            self.clients[record.cid] = row
        else:
            self.trainers -= row.trains
            self.joined -= row.role == "trainer"
            self._by_name[row.name].remove(row.cid)
            row.name, row.role = record.name, record.role
        self._by_name.setdefault(row.name, []).append(row.cid)
        self.trainers += row.trains
        self.joined += row.role == "trainer"
        row.index, row.count = record.index, record.count
        if record.owner:
            self.owners[record.name] = record.owner
            self._note_place(row)

    def _note_place(self, row: ClientRow) -> None:
        """Notes the part of the data that a client has, where parts are shared out."""
        if row.count == 1 or not row.trains or row.name not in self.owners:
            return
        there = self._at.setdefault(row.place, [])
        if row.cid not in there and len(there) < _MOST_AT_A_PLACE:
            there.append(row.cid)

    def _evict(self, name: str, reason: str | None) -> None:
        """Shuts out all clients that have this name, or lets them come back."""
        for row in self.rows_of(name):
            self.trainers -= row.trains
            row.evicted = reason
            self.trainers += row.trains
            self._note_place(row)  # a snapshot leaves out who is evicted

    def rows_of(self, name: str) -> list[ClientRow]:
        """The clients that have this name, or had it last.

        A client that was evicted before the name was freed is not among them: what an
        operator does to the name from then on is not about that client.
        """
        rows = (self.clients[cid] for cid in self._by_name.get(name, ()))
        return [row for row in rows if not row.lost_name]

    def namesakes(self, cid: str) -> list[str]:
        """The ids under which a client of this name has been here; often this one."""
        return self._by_name[self.clients[cid].name]

    def doubles(self, cid: str) -> list[str]:
        """The names of other clients that have the same part of the data.

        A client that starts again under its name is no double of itself. Clients of a
        simulation are not compared.
        """
        row = self.clients.get(cid)
        return [] if row is None else self.others_at(row.place, row.name)

    def others_at(self, place: tuple[int, int], name: str) -> list[str]:
        """The names of the clients at a part of the data, but for this one.

        Args:
            place: the part, and how many there are.
            name: of the client that has the part or wants it.
        """
        others = (self.clients[cid] for cid in self._at.get(place, ()))
        return [
            other.name
            for other in others
            if other.name != name and other.place == place and other.trains
        ]

    def name_of(self, cid: str) -> str:
        """A client's name, which all its keys share; its id if it never enrolled."""
        row = self.clients.get(cid)
        return cid if row is None else row.name

    def dump(self) -> JSON:
        """The clients and their names as JSON, for :meth:`load`."""
        return {
            "evicted": dict(self.evicted),
            "clients": [row.to_json() for row in self.clients.values()],
            "owners": dict(self.owners),
        }

    def load(self, saved: JSON) -> None:
        """Takes over what :meth:`dump` returned."""
        self.evicted = dict(saved["evicted"])
        rows = map(ClientRow.from_json, saved["clients"])
        self.clients = {row.cid: row for row in rows}
        self._by_name = {}
        for row in self.clients.values():
            self._by_name.setdefault(row.name, []).append(row.cid)
        self.joined = sum(row.role == "trainer" for row in self.clients.values())
        self.trainers = sum(row.trains for row in self.clients.values())
        self.owners = dict(saved["owners"])
        self._at = {}
        for row in self.clients.values():
            self._note_place(row)
