"""The events of simulated clients: they come, train, upload, fail, and are lost.

A client is a row of a few lists. Times come from the population; the engine behind
(:class:`Behind`) knows the client's model, tasks and messages.
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
RETRY: Seconds = 1.0  # wait after a broken upload or a lost acknowledgement
ENOUGH = 3  # clients that cannot train, before anyone has: a mistake that all share
MANY = 10  # the same, for errors that each client has in its own data

# The kinds of events of a client.
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
    REPORTS,  # it sends its evaluation
    ASKS,  # it asks for work, after a while
    RECEIVES,  # a model has reached it
) = range(12)

_BY_CLIENT = "is_there", "tasks", "attempts"  # the lists that resuming begins with

Schedule = Callable[[Seconds, int, int], None]
"""``schedule(when, what, who)``: the event is void if the client's life ends before."""


class Behind(Protocol):
    """The engine behind the events: it holds each client's model and messages."""

    def has_message(self, who: int) -> bool:
        """Returns whether a message waits to be sent or acknowledged."""

    def ask(self, who: int) -> None:
        """Lets an available client ask for a task."""

    def upload(self, who: int) -> None:
        """Sends the client's message, for the first time or again."""

    def stopped(self, who: int) -> None:
        """Drops the current work of a lost client; its message stays."""

    def feed(self, event: Event) -> None:
        """Passes an event to the server."""


class Fates:
    """The clients of a population, and the events of their lives."""

    def __init__(
        self,
        world: World,
        population: Population,
        names: Sequence[str],
        life: list[int],
        schedule: Schedule,
        behind: Behind,
    ) -> None:
        """Begins with no client available.

        Args:
            world: the world in which they live.
            population: their devices.
            names: their names.
            life: the number of the life that each client is in; events of an earlier
                life
                never happen.
            schedule: puts an event into the queue.
            behind: the engine.
        """
        self._world, self._population, self._names = world, population, names
        self._schedule, self._behind = schedule, behind
        count = len(names)
        self.life = life
        self.is_there = [False] * count
        """Whether each client is present; a message to an absent client is lost."""
        self.tasks = [0] * count
        """The number of tasks that each client was given; random draws depend on it."""
        self.attempts = [0] * count
        """The number of times that each client has sent the message in flight."""
        self.failures: dict[int, int] = {}
        """The number of errors in a row of each client's code."""
        self._unable: tuple[set[int], set[int]] | None = (set(), set())
        """Clients with failed data, and with failed training; None once one trained."""
        self.notes_training = True
        """Whether :meth:`train` has to note anything."""
        self.overlaps = world.run.coordinator.algorithm.config.client.overlaps
        self._since: dict[int, Seconds] = {}  # times given to :meth:`train_on`

    def begin(self, who: int) -> None:
        """Lets a client come, for the first time or again."""
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
        """Makes a client unavailable, until it comes again."""
        change = self._population.next_change(who, self._world.clock.now)
        self._go(who, math.inf if change is None else change[0])

    def drop_out(self, who: int) -> None:
        """Loses a client while it trains."""
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
        """Lets the server notice that a client is lost."""
        self._behind.feed(Lost(at=self._world.clock.now, cid=self._names[who]))

    def train(self, who: int) -> None:
        """Notes that a client has trained."""
        self.failures.pop(who, None)
        self._unable = None
        self.notes_training = bool(self.failures)

    def fail(
        self, who: int, error: WorkloadError, *, in_training: bool = False
    ) -> None:
        """Reports to the server that a client's code failed; the federation goes on.

        The client tries again after a while; in the end it gives up.

        Args:
            who: the client.
            error: the error that its code raised, or that its result shows.
            in_training: whether the model, the loss or the user's loop has failed,
                which
                all clients share.

        Raises:
            WorkloadError: the first clients cannot train, so that no client will.
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
        """Lets a client take the steps of its next task from now on."""
        self._since[who] = at

    def end(self, who: int, received: Seconds, seconds: Seconds) -> Seconds:
        """Returns when a client has trained, and has the model that its update changes.

        Args:
            who: the client.
            received: the time at which that model reaches it.
            seconds: the duration of its training.
        """
        return max(received, self._since.get(who, received) + seconds)

    def send(self, who: int, nbytes: int) -> tuple[Seconds, float | None]:
        """Sends a client's message; it may break on the way and is then sent again.

        Returns:
            The duration of the upload in seconds, and the share of it after which the
            upload
            breaks; None if it arrives.
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
        """Returns whether the answer to the message in flight gets lost."""
        return self._population.ack_lost(who, self.tasks[who], self.attempts[who])

    def dump(self) -> JSON:
        """Returns everything but the lives, which the queue of events holds."""
        lists = {name: getattr(self, name) for name in _BY_CLIENT}
        return {
            **lists,
            "failures": list(self.failures.items()),
            "since": list(self._since.items()),
        }

    def load(self, saved: JSON) -> None:
        """Restores the state that :meth:`dump` returned."""
        for name in _BY_CLIENT:
            getattr(self, name)[:] = saved[name]
        self.failures.update(saved["failures"])
        self._since.update(saved["since"])
        self._unable = None  # the run is past its beginning


def nobody_trains(names: Sequence[str], error: WorkloadError) -> WorkloadError:
    """Returns the error that ends a run at its start, because no client can train.

    Args:
        names: the clients that could not train.
        error: the error of one of them.
    """
    told = type(error)(f"{', '.join(names)} cannot train: {error}")
    told.__cause__ = error.__cause__
    return told


def order_of_coming(
    algorithm: AlgorithmConfig, population: Population
) -> Iterable[int]:
    """Returns the order in which clients come at the beginning.

    If there are fewer tasks than clients, the first clients get the tasks of version 0,
    unless ``min_clients`` makes the server wait. The seed draws the order; otherwise
    the first ones would always be the same.
    """
    tasks = algorithm.cohort if algorithm.synchronous else algorithm.concurrency
    is_for_all = tasks is None or tasks >= population.count
    if is_for_all or algorithm.min_clients >= population.count:
        return range(population.count)
    return population.order()
