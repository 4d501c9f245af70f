"""The demands of a trace's tasks on the client, the server and its link."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fedcore.errors import ConfigError
from fedcore.planning.parts import Order, Parts, parts_of
from fedcore.planning.trace import OWN, Trace
from fedcore.typing import Seconds

Floats = npt.NDArray[np.float64]
RESOURCES = ("downlink", "uplink", "aggregator")
SATURATED = 0.8
"""A traced rate of this share of the link's capacity says that the link bounds it."""
_FASTER = 2.0  # times the link's capacity: no burst, but a trace over another link


class Demands(NamedTuple):
    """The demands of each of J traced tasks on the client and the server."""

    request_J: Floats
    """Seconds until the server's answer, without the transfer."""
    down_J: Floats
    """Bytes."""
    own_J: Floats
    """Seconds of the client's own phases before the upload."""
    up_J: Floats
    """Bytes."""
    server_J: Floats
    """Seconds of the aggregator."""
    reply_J: Floats
    """Seconds from the aggregator back to the next request."""
    fresh_J: npt.NDArray[np.bool_]
    """Whether the download was of a newer version."""
    capacities: Mapping[str, float]
    """Of each resource: bytes, or seconds of work, a second."""
    rates: Mapping[str, float]
    """The most that one client gets of each resource."""
    parts_J: Sequence[Parts] = ()
    """The parts of the tasks, if they overlap."""

    @property
    def tasks(self) -> Sequence[Parts]:
        """Transfers and computations of each task."""
        columns = (self.down_J.tolist(), self.own_J.tolist(), self.up_J.tolist())
        return self.parts_J or [
            Parts.whole(*task) for task in zip(*columns, strict=True)
        ]

    def speed(self, resource: str) -> float:
        """Returns what a client alone gets of a resource."""
        return min(self.capacities[resource], self.rates[resource])

    def solo(self, resource: str) -> Floats:
        """Seconds (J,) that the tasks need a resource if no other client does."""
        amount_J = {
            "downlink": self.down_J,
            "uplink": self.up_J,
            "aggregator": self.server_J,
        }[resource]
        return amount_J / self.speed(resource)

    @property
    def hidden(self) -> Seconds:
        """The mean time that the overlap of its parts spares a client alone."""
        if not self.parts_J:
            return 0.0
        way = self.speed("downlink"), self.speed("uplink")
        overlapped_J = [parts.seconds(*way) for parts in self.parts_J]
        whole_J = self.own_J + self.solo("downlink") + self.solo("uplink")
        return float(np.mean(whole_J - overlapped_J))

    @property
    def cycle(self) -> Seconds:
        """The mean time of a task of a client alone."""
        own = self.request_J + self.own_J + self.reply_J
        whole_J = own + sum(self.solo(name) for name in RESOURCES)
        return float(np.mean(whole_J)) - self.hidden

    def bounds(self, clients: int, down: float | None = None) -> dict[str, float]:
        """Returns the most updates a second that each resource and the clients allow.

        Args:
            clients: W.
            down: the mean bytes of a download. Without it, those of the trace; they are
                fewer where a client is often given the version that it has.
        """
        usual = float(self.down_J.mean())
        down = usual if down is None else down
        amounts = {
            "downlink": down,
            "uplink": float(self.up_J.mean()),
            "aggregator": float(self.server_J.mean()),
        }
        found = {
            name: self.capacities[name] / amount if amount else math.inf
            for name, amount in amounts.items()
        }
        cycle = self.cycle - (usual - down) / self.speed("downlink")
        return {**found, "clients": clients / cycle if cycle > 0 else math.inf}

    @property
    def saturation(self) -> float:
        """The W at which the first shared resource is full: where the bounds cross."""
        return full_at(1, self.bounds(1))


def full_at(clients: int, bounds: Mapping[str, float]) -> float:
    """Returns the number of clients at which the first shared resource is full.

    Args:
        clients: W.
        bounds: the most updates a second that each resource and W clients allow.
    """
    return clients * min(bounds[name] for name in RESOURCES) / bounds["clients"]


def demands_of(
    trace: Trace,
    *,
    up: float | None = None,
    down: float | None = None,
    server: Seconds | None = None,
    order: Order = "fifo",
) -> tuple[Demands, list[str]]:
    """Divides a trace into what is shared and what is the client's own.

    The time of a transfer is that from the request to the last byte, or from the first
    byte to the verdict, since the network's buffers hide when a byte has left. Of it
    the bytes take what they need at the client's rate, and the rest is latency; so one
    client alone takes exactly the traced time.

    Args:
        trace: of one client.
        up: bytes a second of the server's link towards it. Without it, the rate of the
            trace.
        down: likewise from the server.
        server: seconds that the server works on an update. Without it, what a verdict
            takes longer than the shortest answer to a request.
        order: of transmission, if tasks have parts; ``whole``: nothing overlaps.

    Returns:
        The demands, and what they assume, in sentences.
    """
    tasks, doubts = trace.tasks, list[str]()

    def total(*phases: str) -> Floats:
        return np.array(
            [sum(t.seconds.get(name, 0.0) for name in phases) for t in tasks]
        )

    got_J = np.array([float(t.down) for t in tasks])
    sent_J = np.array([float(t.up) for t in tasks])
    pull_J, push_J = total("request", "download"), total("upload", "verdict")
    c_down, r_down = _rates("down", got_J, pull_J, total("download"), down, doubts)
    c_up, r_up = _rates("up", sent_J, push_J, total("upload"), up, doubts)
    down_J, request_J = _divide(got_J, pull_J, min(c_down, r_down))
    up_J, rest_J = _divide(sent_J, push_J, min(c_up, r_up))
    if server is None:
        server_J = np.maximum(0.0, rest_J - request_J.min())
        if server_J.any():
            doubts.append(
                "The server's work on an update is not known: it is taken to be the "
                f"{1e3 * float(server_J.mean()):.3g} ms by which verdicts of the trace "
                "took longer than the shortest answer to a request (--server-ms)."
            )
    else:
        server_J = np.minimum(server, rest_J)
        usual = float(np.median(rest_J))
        if server > usual:
            doubts.append(
                f"The server is said to work {1e3 * server:.3g} ms on an update "
                f"(--server-ms), and half of the verdicts of the trace took "
                f"{1e3 * usual:.3g} ms or less, which is taken in its place."
            )
    own_J = total(*(name for name in OWN if name != "settle"))
    idle_J = np.array([t.idle for t in tasks])
    parts_J, has_parts = list[Parts](), any(task.rows for task in tasks)
    if order == "priority" and not has_parts:
        doubts.append("The trace has no parts that could have an order (--order).")
    if order != "whole" and has_parts:
        parts_J = [
            parts_of(task.rows, order).of_bytes(*nbytes)
            if task.rows
            else Parts.whole(nbytes[0], own, nbytes[1])
            for task, own, *nbytes in zip(
                tasks, own_J.tolist(), down_J.tolist(), up_J.tolist(), strict=True
            )
        ]
    return (
        Demands(
            request_J,
            down_J,
            own_J,
            up_J,
            server_J,
            rest_J - server_J + total("settle") + idle_J,
            np.array([t.is_fresh for t in tasks]),
            {"downlink": c_down, "uplink": c_up, "aggregator": 1.0},
            {"downlink": r_down, "uplink": r_up, "aggregator": 1.0},
            parts_J,
        ),
        doubts,
    )


def _divide(bytes_J: Floats, seconds_J: Floats, rate: float) -> tuple[Floats, Floats]:
    """Returns the bytes that a transfer has to wait for, and the rest of its time."""
    needed_J = bytes_J / rate
    share_J = np.minimum(1.0, seconds_J / np.where(needed_J > 0, needed_J, np.inf))
    return bytes_J * share_J, np.maximum(0.0, seconds_J - needed_J)


def _rates(
    way: str,
    bytes_J: Floats,
    whole_J: Floats,
    phase_J: Floats,
    given: float | None,
    doubts: list[str],
) -> tuple[float, float]:
    """Returns the link's capacity and the client's own rate, in bytes a second."""
    some = (bytes_J > 0) & (whole_J > 0)
    if given is not None and not (given > 0):
        raise ConfigError(
            f"the server's {way}link: expected a rate above 0, got {given:g}"
        )
    if not some.any():
        return given or math.inf, math.inf
    # The largest downloads say most about the rate, the small ones about latency.
    large = some & (bytes_J >= bytes_J.max() / 2)
    seen_J = np.where(phase_J > whole_J / 2, phase_J, whole_J)
    rate = float(np.median(bytes_J[large] / seen_J[large]))
    if given is None:
        doubts.append(
            f"The capacity of the server's {way}link is not known: it is taken to be "
            f"the {8e-6 * rate:.3g} Mbit/s of the trace (--server-{way}-mbit)."
        )
        return rate, math.inf
    if rate > _FASTER * given:
        doubts.append(
            f"The trace has gone at {8e-6 * rate:.3g} Mbit/s, and the server's "
            f"{way}link carries {8e-6 * given:.3g} (--server-{way}-mbit): a client "
            "alone is taken to be as fast as in the trace, so the prediction is too "
            "high; trace a client over that link."
        )
    return given, (math.inf if rate >= SATURATED * given else rate)
