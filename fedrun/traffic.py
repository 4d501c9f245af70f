"""Counts bytes by client, direction and codec.

**Payload** is what a codec made. **Framed** are the gRPC messages that it travelled in,
each with the five bytes before it. Both are counted where the messages pass, so a
payload that is sent twice counts twice.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

from fedcore import payloads
from fedcore.typing import JSON, Bytes

Way = Literal["up", "down"]
WAYS: tuple[Way, ...] = ("up", "down")
CONTROL = "control"  # in place of a codec: messages that carry no payload
OTHERS = ""  # in place of a client: callers that are no client of the run
UNKNOWN = "unknown"  # a codec that the first bytes do not name
_LAYOUTS = {1: "", 2: " deflated"}  # the first byte of a payload


class Lane(NamedTuple):
    """A client, a direction and a codec."""

    cid: str
    way: Way
    codec: str


@dataclass(slots=True)
class Load:
    """The bytes and payloads that passed on a lane."""

    transfers: int = 0  # payloads that were transferred to their end
    payload: int = 0
    framed: int = 0

    def add(self, other: "Load") -> None:
        """Adds the bytes of another load."""
        self.transfers += other.transfers
        self.payload += other.payload
        self.framed += other.framed


class Traffic:
    """The transfers of a run: one small row for each client, direction and codec."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lanes: dict[Lane, Load] = {}
        self._sums: dict[Lane, Load] = {}  # of all clients
        self._fresh: set[Lane] = set()  # lanes that changed since the last write

    def count(
        self, lane: Lane, *, framed: int = 0, payload: int = 0, transfers: int = 0
    ) -> None:
        """Adds bytes and payloads that have passed on a lane."""
        with self._lock:
            load = self._lanes.get(lane)
            if load is None:
                load = self._lanes[lane] = Load()
            everybody = lane._replace(cid=OTHERS)
            whole = self._sums.get(everybody)
            if whole is None:
                whole = self._sums[everybody] = Load()
            for each in (load, whole):
                each.transfers += transfers
                each.payload += payload
                each.framed += framed
            self._fresh.add(lane)

    def lanes(self) -> dict[Lane, Load]:
        """Returns a copy of all lanes and their loads."""
        with self._lock:
            return {
                lane: Load(load.transfers, load.payload, load.framed)
                for lane, load in self._lanes.items()
            }

    def sums(self) -> dict[Lane, Load]:
        """Returns the sums over all clients, without looking at each of them."""
        with self._lock:
            return {
                lane: Load(load.transfers, load.payload, load.framed)
                for lane, load in self._sums.items()
            }

    def take_fresh(self) -> dict[Lane, Load]:
        """Returns the lanes that have changed since the last call."""
        with self._lock:
            lanes = {lane: self._lanes[lane] for lane in self._fresh}
            self._fresh = set()
            return {k: Load(v.transfers, v.payload, v.framed) for k, v in lanes.items()}

    def put_back(self, lanes: Iterable[Lane]) -> None:
        """Makes :meth:`take_fresh` return these lanes again."""
        with self._lock:
            self._fresh.update(lanes)


def codec_of(head: Bytes) -> str:
    """Returns the codec of a payload, from its first two bytes."""
    if len(head) < 2:
        return UNKNOWN
    return _codec(head[0], head[1])


@cache
def _codec(layout: int, code: int) -> str:
    names = {form.code: form.name for form in payloads.formats()}
    if layout not in _LAYOUTS or code not in names:
        return UNKNOWN
    return names[code] + _LAYOUTS[layout]


def lanes_json(lanes: Mapping[Lane, Load]) -> list[JSON]:
    """Returns lanes without their clients, as JSON."""
    return [
        {
            "way": lane.way,
            "codec": lane.codec,
            "transfers": load.transfers,
            "payload": load.payload,
            "framed": load.framed,
        }
        for lane, load in sorted(lanes.items(), key=lambda item: in_order(item[0]))
    ]


def read_lanes(cid: str, rows: Iterable[JSON]) -> dict[Lane, Load]:
    """Reads what :func:`lanes_json` returned, as lanes of this client."""
    return {
        Lane(cid, row["way"], row["codec"]): Load(
            row["transfers"], row["payload"], row["framed"]
        )
        for row in rows
    }


def by_client(lanes: Mapping[Lane, Load]) -> dict[str, dict[Lane, Load]]:
    """Returns the lanes of each client."""
    found: dict[str, dict[Lane, Load]] = {}
    for lane, load in lanes.items():
        found.setdefault(lane.cid, {})[lane] = load
    return found


def of_all(lanes: Mapping[Lane, Load]) -> dict[Lane, Load]:
    """Returns the sums over all clients."""
    sums: dict[Lane, Load] = {}
    for lane, load in lanes.items():
        sums.setdefault(lane._replace(cid=OTHERS), Load()).add(load)
    return sums


def total(loads: Iterable[Load]) -> Load:
    """Returns the sum of these loads."""
    whole = Load()
    for load in loads:
        whole.add(load)
    return whole


def of_way(lanes: Mapping[Lane, Load], way: Way) -> Load:
    """Returns the sum over all lanes of a direction."""
    return total(load for lane, load in lanes.items() if lane.way == way)


def in_messages(lanes: Mapping[Lane, Load]) -> dict[Way, int] | None:
    """Returns the bytes of all messages in each direction; None if there were none.

    A simulation has payloads, but no messages.
    """
    sums = {way: of_way(lanes, way).framed for way in WAYS}
    return sums if any(sums.values()) else None


def by_codec(lanes: Mapping[Lane, Load]) -> dict[Way, dict[str, Load]]:
    """Returns the loads of all clients by direction and codec, in order."""
    found: dict[Way, dict[str, Load]] = {}
    for lane, load in sorted(of_all(lanes).items(), key=lambda item: in_order(item[0])):
        found.setdefault(lane.way, {})[lane.codec] = load
    return found


def of_busiest(lanes: Mapping[Lane, Load], most: int) -> Iterator[tuple[Lane, Load]]:
    """Yields the lanes of at most ``most`` clients, those with the most bytes first."""
    groups = by_client(lanes)
    for cid in busiest(lanes, most):
        yield from sorted(groups[cid].items(), key=lambda item: in_order(item[0]))


def in_order(lane: Lane) -> tuple[bool, bool, str]:
    """Returns a sort key: up before down, and messages without payload last."""
    return lane.way == "down", lane.codec == CONTROL, lane.codec


def busiest(lanes: Mapping[Lane, Load], most: int) -> Sequence[str]:
    """Returns the ids of at most ``most`` clients, those with the most bytes first."""
    sums: dict[str, int] = {}
    for lane, load in lanes.items():
        sums[lane.cid] = sums.get(lane.cid, 0) + max(load.framed, load.payload)
    return sorted(sums, key=lambda cid: (-sums[cid], cid))[:most]


def overhead(lanes: Mapping[Lane, Load]) -> float | None:
    """Returns the bytes of messages beside payload for each update, in both directions.

    An update is a payload that went up. Returns None without updates or messages.
    """
    updates = sum(load.transfers for lane, load in lanes.items() if lane.way == "up")
    if not updates or not is_framed(lanes):
        return None
    sums = total(lanes.values())
    return (sums.framed - sums.payload) / updates


def is_framed(lanes: Mapping[Lane, Load]) -> bool:
    """Returns whether messages were counted; a simulation has none."""
    return any(load.framed for load in lanes.values())
