"""What happens to simulated clients: they come, train, upload, fail, and are lost.

A client is a row of a few lists. Times come from the population; what a client has and
sends is known to the engine that stands behind it (:class:`Behind`).
"""

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from fedcore.algorithm import AlgorithmConfig
from fedcore.coordinator.events import Event, Failed, Lost
from fedcore.errors import WorkloadError
from fedcore.typing import JSON, Seconds
from fedcore.user_code import AFTER_FAILURE, MOST_FAILURES, last_words
from fedsim.population import Population
from fedsim.world import World

_log = logging.getLogger("fedsim")
RETRY: Seconds = 1.0  # after an upload broke, or its acknowledgement was lost
ENOUGH = 3  # clients that cannot train, before anyone has: a mistake that all share
MANY = 10  # the same, where each fails with data of its own

# What can happen to a client.
(
    ARRIVES,  # its update is at the server
    READY,  # it hears the verdict
    FINISHES,  # it has trained
    UPLOADS,  # it sends its message, first or again
    BEGINS,  # it comes, for the first time or again
    LEAVES,  # it is not available any more
    DROPS,  # it is lost while it trains
    MISSED,  # the server notices that it is lost
    FAILS,  # its code has raised
    REPORTS,  # it tells what it has evaluated
    ASKS,  # it asks for work, after a while
    RECEIVES,  # a model has reached it
) = range(12)

_BY_CLIENT = "is_there", "tasks", "attempts"  # the lists that resuming begins with

Schedule = Callable[[Seconds, int, int], None]
"""``schedule(when, what, who)``: it happens unless the client's life ends before."""


class Behind(Protocol):
    """The engine: what a client has, and what it does next."""

    def has_message(self, who: int) -> bool:
        """Whether a message waits to be sent, or to be acknowledged."""

    def ask(self, who: int) -> None:
        """The client is there, and wants a task."""

    def upload(self, who: int) -> None:
        """The client sends its message, first or again."""

    def stopped(self, who: int) -> None:
        """The client is lost with what it was doing; its message stays."""

    def feed(self, event: Event) -> None:
        """The server is told of an event."""


class Fates:
    """The clients of a population, and what happens to them."""

    def __init__(
        self,
        world: World,
        population: Population,
        names: Sequence[str],
        life: list[int],
        schedule: Schedule,
        behind: Behind,
    ) -> None:
        """Nobody has come yet.

        Args:
            world: in which they live.
            population: their devices.
            names: of the clients.
            life: which life each of them is in; what was scheduled in an earlier one
                never happens.
            schedule: puts an event into the queue.
            behind: the engine.
        """
        self._world, self._population, self._names = world, population, names
        self._schedule, self._behind = schedule, behind
        count = len(names)
        self.life = life
        self.is_there = [False] * count
        """What is sent to a client that is away is lost."""
        self.tasks = [0] * count
        """How many tasks each has been given; chance goes by this number."""
        self.attempts = [0] * count
        """How often each has sent the message in flight."""
        self.failures: dict[int, int] = {}
        """How often the code of each has raised in a row."""
        self._unable: tuple[set[int], set[int]] | None = (set(), set())
        """Whose data failed, and whose training; None once somebody has trained."""
        self.notes_training = True
        """Whether :meth:`train` has anything to note."""
        self.overlaps = world.run.coordinator.algorithm.config.client.overlaps
        self._since: dict[int, Seconds] = {}  # of :meth:`train_on`

    def begin(self, who: int) -> None:
        """A client comes, for the first time or again."""
        self.life[who] += 1
        now, population = self._world.clock.now, self._population
        change = population.next_change(who, now)
        if change is not None:
            when, comes = change
            self._schedule(when, BEGINS if comes else LEAVES, who)
            if comes:
                return
        elif not population.is_there(who, now):
            return
        self.is_there[who] = True
        if self._behind.has_message(who):
            self._behind.upload(who)
        else:
            self._behind.ask(who)

    def leave(self, who: int) -> None:
        """A client is not available any more, until it is again."""
        change = self._population.next_change(who, self._world.clock.now)
        self._go(who, math.inf if change is None else change[0])

    def drop_out(self, who: int) -> None:
        """A client is lost while it trains."""
        away = self._population.away(who, self.tasks[who])
        self._go(who, self._world.clock.now + away)

    def _go(self, who: int, until: Seconds) -> None:
        now, lost = self._world.clock.now, self._world.run.config.timeouts.lost
        self.life[who] += 1
        self.is_there[who] = False
        self._since.pop(who, None)
        self._behind.stopped(who)
        if until - now > lost:
            self._schedule(now + lost, MISSED, who)
        if until < math.inf:
            self._schedule(until, BEGINS, who)

    def miss(self, who: int) -> None:
        """The server notices that a client is lost."""
        self._behind.feed(Lost(at=self._world.clock.now, cid=self._names[who]))

    def train(self, who: int) -> None:
        """A client has trained."""
        self.failures.pop(who, None)
        self._unable = None
        self.notes_training = bool(self.failures)

    def fail(
        self, who: int, error: WorkloadError, *, in_training: bool = False
    ) -> None:
        """A client's code has failed: the server is told, and the federation goes on.

        The client tries again after a while; in the end it gives up.

        Args:
            who: the client.
            error: what its code raised, or what is wrong with what that returned.
            in_training: whether the model, the loss or the user's loop has failed,
                which all clients share.

        Raises:
            WorkloadError: the first clients cannot train, so that none will.
        """
        if self._unable is not None:
            unable = self._unable[in_training]
            unable.add(who)
            if len(unable) >= (min(ENOUGH, len(self._names)) if in_training else MANY):
                names = [self._names[each] for each in sorted(unable)]
                raise nobody_trains(names, error)
        self._since.pop(who, None)
        failures = self.failures[who] = self.failures.get(who, 0) + 1
        self.notes_training = True
        now, name = self._world.clock.now, self._names[who]
        if failures == 1:
            _log.warning("%s: %s", name, error)
        self._behind.feed(Failed(at=now, cid=name, error=last_words(error)))
        if failures < MOST_FAILURES:
            self._schedule(now + AFTER_FAILURE * 2**failures, BEGINS, who)
            return
        failure = type(error)(f"{name}: {failures} times in a row: {error}")
        failure.__cause__ = error.__cause__
        _log.warning("%s: failed %d times in a row, and stops", name, failures)
        self._world.failures.append(failure)
        self.life[who] += 1
        self._schedule(now + self._world.run.config.timeouts.lost, MISSED, who)

    def train_on(self, who: int, at: Seconds) -> None:
        """A client takes the steps of its next task from now on."""
        self._since[who] = at

    def end(self, who: int, received: Seconds, seconds: Seconds) -> Seconds:
        """When a client has trained, and has the model that its update changes.

        Args:
            who: the client.
            received: when that model reaches it.
            seconds: how long it trains.
        """
        return max(received, self._since.get(who, received) + seconds)

    def send(self, who: int, nbytes: int) -> tuple[Seconds, float | None]:
        """A client's message is on its way, or breaks on the way and is sent again.

        Returns:
            How long the upload takes, in seconds, and the share of it after which it
            breaks; None: it arrives.
        """
        duration = self._population.upload(who, nbytes)
        now, attempt = self._world.clock.now, self.attempts[who] + 1
        self.attempts[who] = attempt
        part = self._population.upload_breaks(who, self.tasks[who], attempt)
        if part is None:
            self._schedule(now + duration, ARRIVES, who)
        else:
            self._schedule(now + part * duration + RETRY, UPLOADS, who)
        return duration, part

    def loses_answer(self, who: int) -> bool:
        """Whether the answer to the message in flight never reaches the client."""
        return self._population.ack_lost(who, self.tasks[who], self.attempts[who])

    def dump(self) -> JSON:
        """All of it but the lives, which the queue of events knows."""
        lists = {name: getattr(self, name) for name in _BY_CLIENT}
        return {
            **lists,
            "failures": list(self.failures.items()),
            "since": list(self._since.items()),
        }

    def load(self, saved: JSON) -> None:
        """Takes over what :meth:`dump` returned."""
        for name in _BY_CLIENT:
            getattr(self, name)[:] = saved[name]
        self.failures.update(saved["failures"])
        self._since.update(saved["since"])
        self._unable = None  # it is no beginning any more


def nobody_trains(names: Sequence[str], error: WorkloadError) -> WorkloadError:
    """Returns the error that ends a run at its start, since no client can train.

    Args:
        names: of the clients that could not.
        error: of one of them.
    """
    told = type(error)(f"{', '.join(names)} cannot train: {error}")
    told.__cause__ = error.__cause__
    return told


def order_of_coming(
    algorithm: AlgorithmConfig, population: Population
) -> Iterable[int]:
    """In which order clients come at the beginning.

    Where there is not a task for each of them, the first ones get those of version 0,
    unless ``min_clients`` makes the server wait. Who they are is drawn by the seed;
    otherwise they would always be the same.
    """
    tasks = algorithm.cohort if algorithm.synchronous else algorithm.concurrency
    is_for_all = tasks is None or tasks >= population.count
    if is_for_all or algorithm.min_clients >= population.count:
        return range(population.count)
    return population.order()
