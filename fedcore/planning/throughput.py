"""Predicts the throughput of W clients from the trace of one.

Li, Yan, Paolieri, Golubchik, "Throughput Prediction of Asynchronous SGD in TensorFlow",
ICPE 2020, arXiv 1911.04650; Li, Paolieri, Golubchik, Lin, "Predicting Throughput of
Distributed Stochastic Gradient Descent", IEEE TPDS 33(11), 2022. The text of the papers
was not within reach beyond abstract and introduction, so the model is derived from what
they say of it: synthetic traces for W clients by discrete events, each client going
through the phases of a traced task, with transfers that share the server's link.

Without cohorts a client that has used its places in a version waits for the next one,
as in :mod:`fedcore.coordinator.leases`.

A client's task is: a request (own delay), a download (shared downlink), its own phases
(own delay), an upload (shared uplink), the server's work on the update (shared
aggregator), and the way back (own delay). The three resources are processor-sharing
queues (:mod:`fedcore.planning.processor_sharing`) in which a connection has a rate of
its own at most. A client takes the traced tasks in a random order and begins anew, in
another order, when it has taken all: one client alone so takes exactly the time of the
trace. Where the trace has parts, computations wait for those that they need alone, and
overlap with transfers (:mod:`fedcore.planning.parts`); a task without parts has one of
each kind. We depart from the papers in that a connection carries one part after the
other each way, and not several at once as TensorFlow does.
"""

import heapq
import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fedcore.aggregators import fair_places
from fedcore.errors import ConfigError
from fedcore.planning.demands import RESOURCES, Demands
from fedcore.planning.parts import Parts
from fedcore.planning.processor_sharing import ProcessorSharing
from fedcore.rng import Key
from fedcore.typing import Seconds

STEPS = ("request", "wait", "download", "own", "upload", "server", "reply")
"""What a client does in the model, in order; ``wait`` is for a round or a version.
``download`` and ``own`` alternate for each part, and ``download`` and ``upload`` are
what the client waits for transfers."""
_DOWNLOAD = STEPS.index("download")
UPDATES = 10_000


class Pace(NamedTuple):
    """When a new version is made."""

    buffer: int
    """K: so many updates make a version."""
    is_synchronous: bool = False
    """Whether a cohort of K clients trains each version, and waits for the next."""


class Prediction(NamedTuple):
    """The throughput of W clients in the long run."""

    clients: int
    updates_per_second: float
    versions_per_second: float
    utilisation: Mapping[str, float]
    """The share of its capacity that each resource serves; ``client``: the share of its
    time that the mean client spends in its own phases."""
    staleness_T: npt.NDArray[np.int64]
    """The number of updates by staleness."""
    seconds: Mapping[str, Seconds]
    """The mean time of a task by step."""
    bounds: Mapping[str, float]
    """The most updates a second by resource."""
    updates: int
    """How many were counted."""

    @property
    def limit(self) -> str:
        """The part that bounds the throughput first."""
        return min(self.bounds, key=lambda name: self.bounds[name])


def predict(
    demands: Demands,
    clients: int,
    pace: Pace,
    *,
    key: Key,
    updates: int = UPDATES,
) -> Prediction:
    """Simulates W clients, and returns what they do in the long run.

    Args:
        demands: of the traced tasks.
        clients: W.
        pace: when a version is made.
        key: of the draws; clients of one number draw the same tasks for every W.
        updates: how many to count at least, after as long as a client needs to settle.

    Raises:
        ConfigError: there is no client, or a cohort is larger than W.
    """
    if clients < 1 or pace.buffer < 1:
        raise ConfigError(
            f"expected 1 client and a buffer of 1 or more, got {clients} and "
            f"{pace.buffer}"
        )
    if pace.is_synchronous and pace.buffer > clients:
        raise ConfigError(
            f"a cohort of {pace.buffer} does not find as many clients among {clients}"
        )
    return _Run(demands, clients, pace, key).predict(updates)


class _Draws:
    """The order in which one client takes the traced tasks."""

    def __init__(self, places: npt.NDArray[np.int64], key: Key) -> None:
        self._places, self._rng = places, key.generator()
        self._next = deque[int]()

    def take(self) -> int:
        if not self._next:
            self._next.extend(self._rng.permutation(self._places).tolist())
        return self._next.popleft()


class _Work:
    """How far a client is with the parts of its task."""

    __slots__ = ("arrived", "down", "ended", "is_sending", "parts", "sent")

    def __init__(self, parts: Parts, down: Sequence[float]) -> None:
        self.parts, self.down = parts, down
        self.arrived = self.ended = self.sent = 0
        self.is_sending = False

    @property
    def has_model(self) -> bool:
        """Whether all that the next computation needs is there."""
        return self.arrived >= min(self.parts.needs[self.ended], len(self.down))

    @property
    def may_send(self) -> bool:
        """Whether the next part of the update is computed, and the uplink is free."""
        if self.is_sending or self.sent == len(self.parts.up):
            return False
        return self.parts.after[self.sent] <= self.ended

    @property
    def is_over(self) -> bool:
        """Whether nothing is on its way."""
        return self.sent == len(self.parts.up) and self.arrived == len(self.down)


class _Run:
    """The discrete events of one prediction."""

    def __init__(self, demands: Demands, clients: int, pace: Pace, key: Key) -> None:
        self.demands, self.clients, self.pace = demands, clients, pace
        all_J = np.arange(len(demands.own_J))
        fresh, same = all_J[demands.fresh_J], all_J[~demands.fresh_J]
        name = [key.fold_in("client", client) for client in range(clients)]
        self._tasks = [_Draws(all_J, one.fold_in("task")) for one in name]
        # A trace of fresh downloads alone says that unchanged models have no bytes.
        self._fresh = [_Draws(fresh if len(fresh) else all_J, one) for one in name]
        self._same = [_Draws(same, one.fold_in("same")) for one in name]
        self._has_same = bool(len(same))
        self._cohorts = key.fold_in("cohorts").generator()
        self._links = {
            name: ProcessorSharing(demands.capacities[name], demands.rates[name])
            for name in RESOURCES
        }
        self._delays: list[tuple[Seconds, int, int]] = []
        self._number = 0
        # Lists, since they are read one number at a time.
        self._request = demands.request_J.tolist()
        self._parts = demands.tasks
        self._work = [_Work(self._parts[0], ())] * clients
        self._server = demands.server_J.tolist()
        self._reply = demands.reply_J.tolist()
        self._now: Seconds = 0.0
        self._step = [0] * clients
        self._since = [0.0] * clients
        self._task = [0] * clients
        self._base = [-1] * clients
        self._version = self._buffered = 0
        self._delivered, self._places = [0] * clients, fair_places(pace.buffer, clients)
        self._waiting = set[int]()
        self._called = set[int]()  # of the round's cohort: who has not begun yet
        self._begin_counting()

    def _begin_counting(self) -> None:
        self._seconds = [0.0] * len(STEPS)
        self._done = self._pulls = 0
        self._got = 0.0  # bytes of models
        self._staleness = dict[int, int]()

    def predict(self, updates: int) -> Prediction:
        """Goes through the events, the first ones uncounted."""
        tasks = len(self.demands.own_J)
        each = self.clients * tasks
        first = each if each <= updates else updates // 5
        counted = each * math.ceil(updates / each) if each <= updates else updates
        if self.pace.is_synchronous:
            self._call()
        for client in range(self.clients):
            self._enter(client, 0, 0.0)
        self._until(first)
        began, version = self._now, self._version
        work = {name: link.work for name, link in self._links.items()}
        self._begin_counting()
        self._until(counted)
        passed = self._now - began
        for link in self._links.values():
            link.advance(self._now)
        return self._result(passed, version, work)

    def _result(
        self, passed: Seconds, version: int, work: Mapping[str, float]
    ) -> Prediction:
        used = {
            name: (link.work - work[name]) / passed / link.capacity if passed else 0.0
            for name, link in self._links.items()
        }
        seconds = {
            name: total / self._done
            for name, total in zip(STEPS, self._seconds, strict=True)
        }
        cycle = sum(seconds.values())
        staleness_T = np.zeros(max(self._staleness, default=0) + 1, np.int64)
        for late, count in self._staleness.items():
            staleness_T[late] = count
        return Prediction(
            self.clients,
            self._done / passed if passed else math.inf,
            (self._version - version) / passed if passed else math.inf,
            {**used, "client": seconds["own"] / cycle if cycle else 0.0},
            staleness_T,
            seconds,
            self.demands.bounds(self.clients, self._got / max(1, self._pulls)),
            self._done,
        )

    # ---------------------------------------------------------------- events

    def _until(self, updates: int) -> None:
        """Goes on until so many tasks have ended since counting began."""
        delays, links = self._delays, self._links
        while self._done < updates:
            now, served = delays[0][0] if delays else math.inf, ""
            for name, link in links.items():
                at = link.next_departure()
                if at < now:
                    now, served = at, name
            self._now = now
            client = links[served].depart(now) if served else heapq.heappop(delays)[2]
            self._end(served, client, now)

    def _end(self, served: str, client: int, now: Seconds) -> None:
        """Ends what a client had a resource for, or a delay of its own."""
        work = self._work[client]
        match served:
            case "downlink":
                work.arrived += 1
                self._receive(client, now)
                self._go_on(client, now)
            case "uplink":
                work.sent, work.is_sending = work.sent + 1, False
                self._send(client, now)
                self._go_on(client, now)
            case _:
                self._leave(client, now)

    def _enter(self, client: int, step: int, now: Seconds) -> None:
        """Begins a client's step, or goes through it if it takes no time."""
        self._step[client], self._since[client] = step, now
        task = self._task[client]
        match STEPS[step]:
            case "request":
                task = self._task[client] = self._tasks[client].take()
                self._delay(client, now, self._request[task])
            case "wait":
                if not self._may_begin(client):
                    self._waiting.add(client)
                else:
                    self._leave(client, now)
            case "download" | "upload":
                self._go_on(client, now)
            case "own":
                work = self._work[client]
                self._delay(client, now, work.parts.own[work.ended])
            case "server":
                if not self._serve("aggregator", client, now, self._server[task]):
                    self._leave(client, now)
            case _:
                self._delay(client, now, self._reply[task])

    def _leave(self, client: int, now: Seconds) -> None:
        """Ends a client's step."""
        step = self._step[client]
        self._seconds[step] += now - self._since[client]
        following = (step + 1) % len(STEPS)
        match STEPS[step]:
            case "wait":
                self._called.discard(client)
                self._begin(client, now)
            case "own":
                work = self._work[client]
                work.ended += 1
                self._send(client, now)
                if work.ended < len(work.parts.own):
                    following = _DOWNLOAD
            case "server":
                self._accept(client, now)
            case "reply":
                self._done += 1
        self._enter(client, following, now)

    def _may_begin(self, client: int) -> bool:
        """Returns whether a client gets a task of this version."""
        if self.pace.is_synchronous:
            return client in self._called
        return self._delivered[client] < self._places

    def _begin(self, client: int, now: Seconds) -> None:
        """Lets the first part of the model come."""
        down = self._download(client)
        self._pulls, self._got = self._pulls + 1, self._got + sum(down)
        self._work[client] = _Work(self._parts[self._task[client]], down)
        self._receive(client, now)

    def _receive(self, client: int, now: Seconds) -> None:
        """Lets the next part of the model come."""
        work = self._work[client]
        while work.arrived < len(work.down):
            if self._serve("downlink", client, now, work.down[work.arrived]):
                return
            work.arrived += 1

    def _send(self, client: int, now: Seconds) -> None:
        """Sends the next part of the update, if it is computed."""
        work = self._work[client]
        while work.may_send:
            if self._serve("uplink", client, now, work.parts.up[work.sent]):
                work.is_sending = True
                return
            work.sent += 1

    def _go_on(self, client: int, now: Seconds) -> None:
        """Ends a step that waits for a transfer, if that has come."""
        work = self._work[client]
        match STEPS[self._step[client]]:
            case "download" if work.has_model:
                self._leave(client, now)
            case "upload" if work.is_over:
                self._leave(client, now)

    def _delay(self, client: int, now: Seconds, seconds: Seconds) -> None:
        self._number += 1
        heapq.heappush(self._delays, (now + seconds, self._number, client))

    def _serve(self, name: str, client: int, now: Seconds, amount: float) -> bool:
        """Takes a client's job to a resource; False: it needs no time."""
        link = self._links[name]
        if not amount > 0 or link.is_free:
            return False
        link.arrive(now, amount, client)
        return True

    def _download(self, client: int) -> Sequence[float]:
        """Returns the parts of the newest version, or of the client's own."""
        is_same = self._base[client] == self._version
        self._base[client] = self._version
        if not is_same:
            return self._parts[self._fresh[client].take()].down
        if self._has_same:
            return self._parts[self._same[client].take()].down
        return ()

    def _accept(self, client: int, now: Seconds) -> None:
        """Counts an update that the server has taken; K of them make a version."""
        late = self._version - self._base[client]
        self._staleness[late] = self._staleness.get(late, 0) + 1
        self._buffered += 1
        self._delivered[client] += 1
        if self._buffered < self.pace.buffer:
            return
        self._buffered = 0
        self._delivered = [0] * self.clients
        self._version += 1
        if self.pace.is_synchronous:
            self._call()
        for one in sorted(self._waiting):
            if self._may_begin(one):
                self._waiting.discard(one)
                self._leave(one, now)

    def _call(self) -> None:
        """Draws the cohort of a round."""
        size = self.pace.buffer
        chosen = self._cohorts.choice(self.clients, size, replace=False)
        self._called = set(chosen.tolist())
