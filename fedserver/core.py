"""The core thread: the one owner of coordinator and journal.

Events come in through a queue and are handled one after the other. Events that arrive
while the disk is busy form one batch: their records are made durable together, and only
then do their actions go back to the event loop.

An error in the coordinator ends only the call that raised it, and never the process. It
may have left the state half changed, so the coordinator is restored from the journal,
as by a restart: leases and waiting pulls are forgotten. An update that cannot be
handled is decided without being judged again, or its client would send it again
forever.

While the disk is full or fails, no event is handled. The core writes the records so far
again and again until that works. Nobody sees the effect of a record before it is on
disk.
"""

import asyncio
import contextlib
import logging
import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Any, TypeVar

from fedcore.coordinator import Coordinator
from fedcore.coordinator.actions import Action, Refuse, SendAck, SendReply
from fedcore.coordinator.events import (
    Event,
    ServerStarted,
    ServerStopped,
    TimerFired,
    UpdatePushed,
)
from fedcore.errors import ConfigError, DiskError, HandlingError, LatecomerError
from fedcore.protocol import Answer
from fedcore.typing import Seconds
from fedrun.commit import GroupCommit
from fedrun.journal import recover
from fedrun.journal.store import Row
from fedrun.json_lines import concerning
from fedrun.run import Run
from fedrun.spill import Spill

# ---------------- the clock of a run: seconds since 1970 that neither go back nor jump


class Clock:
    """A clock that starts at a given time and ignores later changes of the wall clock.

    The wall clock is read once, when a process begins, so setting it later moves no
    timer.
    """

    def __init__(self, start: Seconds) -> None:
        """Starts at the run's last moment, or at the wall clock if that is later."""
        self._start, self._began = start, time.monotonic()

    def now(self) -> Seconds:
        """Returns the time of the run."""
        return self._start + (time.monotonic() - self._began)


# ---------------------------------------- calls that wait for the coordinator's answer


Key = tuple[Any, ...]


class Answers:
    """The calls that wait for an answer, by question; several may share a question."""

    def __init__(self) -> None:
        self._waiting: defaultdict[Key, list[asyncio.Future[Any]]] = defaultdict(list)

    async def pull(self, cid: str, nonce: int) -> SendReply | Refuse:
        """Waits for the answer to a pull."""
        answer: SendReply | Refuse = await self._wait("pull", cid, nonce)
        return answer

    async def push(self, cid: str, seq: int, digest: str) -> SendAck:
        """Waits for the answer to a push of these bytes."""
        answer: SendAck = await self._wait("push", cid, seq, digest)
        return answer

    def give(self, action: SendReply | SendAck | Refuse) -> bool:
        """Wakes the calls that asked for this; returns whether there were any."""
        match action:
            case SendReply():
                key: Key = ("pull", action.cid, action.reply.nonce)
            case SendAck():
                key = ("push", action.cid, action.ack.seq, action.ack.digest)
            case Refuse():
                key = ("pull", action.cid, action.nonce)
        futures = self._waiting.pop(key, [])
        for future in futures:
            if not future.done():
                future.set_result(action)
        return bool(futures)

    def fail(self, error: HandlingError, *key: Any) -> None:
        """Makes the calls that asked for this raise an error."""
        for future in self._waiting.pop(key, []):
            if not future.done():
                future.set_exception(error)

    def retry_pulls(self) -> None:
        """Tells all calls that wait for work to ask again."""
        for _, cid, nonce in [key for key in self._waiting if key[0] == "pull"]:
            self.give(Refuse(cid=cid, nonce=nonce, answer=Answer.RETRY))

    def cancel_pulls(self) -> None:
        """Cancels all calls that wait for work."""
        for key in [key for key in self._waiting if key[0] == "pull"]:
            for future in self._waiting.pop(key):
                future.cancel()

    def cancel_all(self) -> None:
        """Cancels all calls."""
        for futures in self._waiting.values():
            for future in futures:
                future.cancel()
        self._waiting.clear()

    async def _wait(self, *key: Any) -> Any:
        future = asyncio.get_running_loop().create_future()
        self._waiting[key].append(future)
        try:
            return await future
        finally:
            if key in self._waiting:
                rest = [f for f in self._waiting[key] if f is not future]
                if rest:
                    self._waiting[key] = rest
                else:
                    del self._waiting[key]


# --------------------------- the core thread: the one owner of coordinator and journal


_log = logging.getLogger(__name__)
MOST_AT_ONCE = 256
MOST_SAID = 200  # length of an error message that a peer receives
IDLE_SECONDS = 1.0  # maximum time until lazy records reach the disk
AGAIN_SECONDS = 0.5  # time between two attempts at a disk that is full or fails
Told = TypeVar("Told")
Failed = Callable[[HandlingError], None]


def _ignore(_: HandlingError) -> None:
    """Does nothing, because nobody waits for the answer."""


def _nothing(_: Coordinator) -> str:
    """Returns no objection to an event."""
    return ""


class _Sign(Enum):
    """A signal from the event loop to the core thread."""

    STOP = auto()
    NO_OLD_TIMERS = auto()  # timers of the previous coordinator will not fire any more


@dataclass(frozen=True, slots=True)
class _Call:
    """An event and a question about the state afterwards; one of them may be None."""

    event: Event | None
    ask: Callable[[Coordinator], Any] | None
    answered: Callable[[Any], None]
    failed: Failed
    unless: Callable[[Coordinator], str] = _nothing
    """Returns why the event cannot be handled; any reason drops the event."""


class Core:
    """Runs a coordinator on a thread of its own."""

    def __init__(
        self,
        run: Run,
        release: Callable[[list[Action]], None],
        failed: Callable[[BaseException], None],
        observe: Callable[[list[Row]], None],
        restarted: Callable[[], None],
    ) -> None:
        """Sets the callbacks; all but ``observe`` are called on the event loop.

        Args:
            run: the run that is served.
            release: carries out actions, after all records that they depend on are
                durable.
            failed: is called when the core thread has ended because the disk failed.
            observe: is called with durable records, on the core thread.
            restarted: is called when the coordinator was restored. It must make clients
                that wait for work ask again, cancel all timers that were set, and then
                call :meth:`timers_are_gone`.
        """
        self._run = run
        self.spill = Spill(run.journal.folder)
        """Holds large vectors while no reader needs them."""
        run.coordinator.state.set_aside(self.spill.move)
        self.now = Clock(run.coordinator.state.at).now
        self._observe = observe
        self._group = GroupCommit(run, self._show)
        self._release, self._failed = release, failed
        self._restarted = restarted
        self._inbox: queue.SimpleQueue[_Call | _Sign] = queue.SimpleQueue()
        self._answers: list[tuple[Callable[[Any], None], Any]] = []
        self._old_timers = 0  # coordinators whose timers may still fire
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._work, name="core")
        self._is_ending = threading.Event()
        self.trouble = ""
        """Why the disk takes no records now; no event should come while it is set."""

    def start(self) -> None:
        """Starts the thread, which first releases the actions of the recovery."""
        self._thread.start()

    def submit(self, event: Event, failed: Failed = _ignore) -> None:
        """Queues an event; its actions come back through ``release``.

        ``failed`` is called on the event loop if the event cannot be handled.
        """
        self._inbox.put(_Call(event, None, _ignore, failed))

    async def ask(
        self,
        question: Callable[[Coordinator], Told],
        after: Event | None = None,
        unless: Callable[[Coordinator], str] = _nothing,
    ) -> Told:
        """Returns the answer to a question, once ``after`` is handled and durable.

        Args:
            question: a function of the state.
            after: an event that is handled first.
            unless: returns, right before the event, why it cannot be handled; else
                nothing.

        Raises:
            ConfigError: ``unless`` objected; nothing was handled.
            HandlingError: the event or the question raised; it changed nothing.
        """
        future: asyncio.Future[Told] = self._loop.create_future()
        answered, failed = partial(_resolve, future), partial(_fail, future)
        self._inbox.put(_Call(after, question, answered, failed, unless))
        return await future

    def glance(self, question: Callable[[Coordinator], Told], unsure: Told) -> Told:
        """Answers at once from the state, which may be changing meanwhile.

        It is for questions that save work and whose answer is checked later where it
        matters: the core thread may be waiting for the disk.

        Args:
            question: a function of the state; it changes nothing.
            unsure: is returned if the state changes during the question.
        """
        try:
            return question(self._run.coordinator)
        except (KeyError, RuntimeError):
            return unsure

    @property
    def lag(self) -> tuple[int, Seconds]:
        """The number of records that are not durable yet, and the age of the oldest."""
        return self._group.lag

    @property
    def waiting(self) -> int:
        """The approximate number of events that wait to be handled."""
        return self._inbox.qsize()

    def timers_are_gone(self) -> None:
        """Notes that no timer of an earlier coordinator will fire any more."""
        self._inbox.put(_Sign.NO_OLD_TIMERS)

    async def stop(self) -> None:
        """Handles what is in the queue, writes a snapshot, and ends the thread."""
        self._is_ending.set()
        self._inbox.put(_Sign.STOP)
        await asyncio.to_thread(self._thread.join)

    def _work(self) -> None:
        try:
            self._commit(lazy_too=False)
            self._tell(ServerStarted(at=self.now()))
            while self._take_turn():
                pass
            self._tell(ServerStopped(at=self.now()))
            self._group.finish()
            self._run.journal.close()
        except BaseException as error:  # noqa: BLE001 -- whatever it was, the process ends
            self._on_loop(self._failed, error)

    def _tell(self, record: ServerStarted | ServerStopped) -> None:
        """Records that this process serves the run; a full disk may lose the record."""
        with contextlib.suppress(DiskError):
            self._run.journal.append([record])

    def _take_turn(self) -> bool:
        """Handles all waiting events as one batch; returns False at the end."""
        waiting = self._next_batch()
        goes_on = True
        for item in waiting:
            if item is _Sign.STOP:
                goes_on = False
            elif item is _Sign.NO_OLD_TIMERS:
                self._old_timers -= 1
            else:
                self._serve(item)
        self._commit(lazy_too=not waiting or not goes_on)
        return goes_on

    def _next_batch(self) -> list[_Call | _Sign]:
        batch: list[_Call | _Sign] = []
        try:
            batch.append(self._inbox.get(timeout=IDLE_SECONDS))
            while len(batch) < MOST_AT_ONCE:
                batch.append(self._inbox.get_nowait())
        except queue.Empty:
            pass
        return batch

    def _commit(self, *, lazy_too: bool, is_whole: bool = True) -> None:
        """Makes the handled events durable, and releases their actions.

        Args:
            lazy_too: also write records on which no answer depends.
            is_whole: no event has changed the state by half.
        """
        actions = self._write_all(lazy_too=lazy_too, is_whole=is_whole)
        answers, self._answers = self._answers, []
        if actions:
            self._on_loop(self._release, actions)
        for answered, answer in answers:
            self._on_loop(answered, answer)

    def _write_all(self, *, lazy_too: bool, is_whole: bool) -> list[Action]:
        """Tries until the disk takes the records; until then no event is handled.

        Raises:
            DiskError: the process is about to end, and the disk still fails.
        """
        while True:
            try:
                actions = self._group.commit(lazy_too=lazy_too, is_whole=is_whole)
            except DiskError as error:
                if self._is_ending.is_set():
                    raise
                if not self.trouble:
                    _log.warning(
                        "%s; no work is taken until the disk works again", error
                    )
                self.trouble = str(error)
                self._is_ending.wait(AGAIN_SECONDS)
            else:
                if self.trouble:
                    _log.warning("the disk takes records again")
                self.trouble = ""
                return actions

    def _serve(self, call: _Call) -> None:
        if isinstance(call.event, TimerFired) and self._old_timers:
            return
        try:
            if objection := call.unless(self._run.coordinator):
                # It depends on other events, which may not be durable yet.
                self._answers.append((call.failed, ConfigError(objection)))
                return
            if call.event is not None:
                self._group.feed(call.event)
        except Exception as error:  # noqa: BLE001 -- it ends one call
            name = type(call.event).__name__
            with concerning(**({} if call.event is None else _ids_of(call.event))):
                _log.exception("%s cannot be handled; going back to the journal", name)
                self._recover(call, error)
            return
        try:
            if call.ask is not None:
                self._answers.append((call.answered, call.ask(self._run.coordinator)))
        except Exception as error:  # noqa: BLE001 -- it ends one call
            _log.exception("a question cannot be answered")
            self._on_loop(call.failed, _explain(error))

    # ----------------------------------------------------------------- recovery

    def _recover(self, call: _Call, error: Exception) -> None:
        """Undoes an event that raised, and answers the call that it came from.

        Raises:
            JournalError: the journal cannot be read either.
        """
        if not isinstance(call.event, UpdatePushed):
            self._start_again(call, error)
            return
        self._start_again(call)
        try:
            reason = f"the server cannot handle it: {_brief(error)}"
            decided = self._run.coordinator.quarantine(call.event.push, reason)
            self._group.take(decided)
        except Exception:  # noqa: BLE001 -- it ends one call
            _log.exception("the update cannot be put aside either")
            decided = []
            self._start_again(call)
        if not decided:
            self._on_loop(call.failed, _explain(error))

    def _start_again(self, call: _Call, error: Exception | None = None) -> None:
        """Restores the coordinator from the journal, with all earlier events.

        Answers the call first if it ends with an error, and then all that wait.
        """
        assert call.event is not None
        self._commit(lazy_too=True, is_whole=False)
        self._run.coordinator = recover(self._run.journal).coordinator
        self._run.coordinator.state.set_aside(self.spill.move)
        self._old_timers += 1
        failed = call.failed if error is not None else _ignore

        def tell(explained: HandlingError) -> None:
            failed(explained)
            self._restarted()

        self._on_loop(tell, _explain(error or Exception()))
        self._group.take(self._run.coordinator.begin(call.event.at))

    def _show(self, records: list[Row]) -> None:
        """Passes durable records to the observer; an error there changes nothing."""
        try:
            self._observe(records)
        except Exception:  # noqa: BLE001 -- it ends nothing
            _log.exception("what watches the records raised")

    def _on_loop(self, call: Callable[[Any], None], what: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, what)


def _resolve(future: "asyncio.Future[Any]", answer: Any) -> None:
    """Gives an answer to a call, unless the call has ended."""
    if not future.done():
        future.set_result(answer)


def _fail(future: "asyncio.Future[Any]", error: LatecomerError) -> None:
    if not future.done():
        future.set_exception(error)


def _ids_of(event: Event) -> dict[str, Any]:
    """Returns the client and the task of an event, for the log."""
    message = getattr(event, "push", None) or getattr(event, "pull", None) or event
    ids = {key: getattr(message, key, None) for key in ("cid", "seq")}
    return {key: value for key, value in ids.items() if value is not None}


def _explain(error: Exception) -> HandlingError:
    explained = HandlingError(f"the server cannot handle this: {_brief(error)}")
    explained.__cause__ = error
    return explained


def _brief(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:MOST_SAID]
