"""The core thread: the one owner of coordinator and journal.

Events come in through a queue and are handled one after the other. Whatever piled
up while the disk was busy is one batch: it is made durable together, and only then
do its actions go back to the event loop.
"""

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from fedcore.coordinator import Coordinator
from fedcore.coordinator.actions import Action
from fedcore.coordinator.events import Event
from fedrun.commit import GroupCommit
from fedrun.journal.codec import Row
from fedrun.run import Run
from fedserver.clock import Clock

MOST_AT_ONCE = 256
IDLE_SECONDS = 1.0  # lazy records reach the disk after this time at the latest
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class _Question:
    """Something to be found out between two events."""

    ask: Callable[[Coordinator], Any]
    future: "Future[Any]"


class Core:
    """Runs a coordinator on a thread of its own."""

    def __init__(
        self,
        run: Run,
        release: Callable[[list[Action]], None],
        failed: Callable[[BaseException], None],
        observe: Callable[[list[Row]], None],
    ) -> None:
        """``release`` and ``failed`` are called on the event loop.

        ``observe`` is shown durable records, on the core thread.
        """
        self._run = run
        self.now = Clock(run.coordinator.state.at).now
        self._group = GroupCommit(run, observe)
        self._release, self._failed = release, failed
        self._inbox: queue.SimpleQueue[Event | _Question | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._work, name="core")

    def start(self) -> None:
        """Begins with what the run has to say first."""
        self._thread.start()

    def submit(self, event: Event) -> None:
        """An event happens; what follows from it comes back through ``release``."""
        self._inbox.put(event)

    async def ask(self, question: Callable[[Coordinator], Answer]) -> Answer:
        """The answer as of now, once all that it rests on is durable."""
        future: Future[Answer] = Future()
        self._inbox.put(_Question(question, future))
        return await asyncio.wrap_future(future)

    async def stop(self) -> None:
        """Handles what is in the queue, writes a snapshot, and ends."""
        self._inbox.put(None)
        await asyncio.to_thread(self._thread.join)

    def _work(self) -> None:
        try:
            self._hand_over(self._release, self._group.commit())
            while self._take_turn():
                pass
            number = self._run.journal.store.last
            self._group.snapshot(number)
            self._run.journal.close()
        except BaseException as error:  # noqa: BLE001 -- whatever it was, the process ends
            self._hand_over(self._failed, error)

    def _take_turn(self) -> bool:
        """Handles all that waits, as one batch; False at the end."""
        waiting = self._next_batch()
        answers, goes_on = [], True
        for item in waiting:
            if item is None:
                goes_on = False
            elif isinstance(item, _Question):
                answers.append((item.future, item.ask(self._run.coordinator)))
            else:
                self._group.feed(item)
        actions = self._group.commit(lazy_too=not waiting or not goes_on)
        if actions:
            self._hand_over(self._release, actions)
        for future, answer in answers:
            future.set_result(answer)
        return goes_on

    def _next_batch(self) -> list[Event | _Question | None]:
        batch: list[Event | _Question | None] = []
        try:
            batch.append(self._inbox.get(timeout=IDLE_SECONDS))
            while len(batch) < MOST_AT_ONCE:
                batch.append(self._inbox.get_nowait())
        except queue.Empty:
            pass
        return batch

    def _hand_over(self, call: Callable[[Any], None], what: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, what)
