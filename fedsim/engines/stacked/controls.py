"""The controllers' states of simulated clients, and their decisions."""

from collections.abc import Callable, Mapping
from typing import Any

from fedcore.controllers import Assignment, Controller, Report
from fedcore.model import Metrics
from fedcore.trees import Arrays, load_each, save_each
from fedcore.typing import JSON, Seconds, State, Vector
from fedsim.clock import Clock
from fedsim.engines.stacked.stack import Stack


class Controls:
    """A state of the controllers for each client."""

    def __init__(
        self,
        controller: Controller,
        clock: Clock[Any],
        dim: int,
        evaluate: Callable[[int, Vector, State], Metrics],
    ) -> None:
        """Begins without any observation.

        Args:
            controller: all controllers of a client as one.
            clock: tells the virtual time.
            dim: the number of values of a message that is not compressed.
            evaluate: evaluates a model with its kept values on a client's data.
        """
        self._controller, self._clock = controller, clock
        self._dim, self._evaluate = dim, evaluate
        self._states: dict[int, State] = {}
        self._patches: dict[int, int] = {}  # bytes of the clients' last downloads
        self._public: dict[int, Metrics] = {}  # of models on their way to clients

    def compare(self, who: int, public_D: Vector, kept: State) -> None:
        """Evaluates the model on its way to a client, if its controllers want that.

        Raises:
            UserCodeError: the user's code raised.
        """
        if "public" in self._controller.wants(self._states.get(who)):
            self._public[who] = self._evaluate(who, public_D, kept)

    def rest(self, who: int, nbytes: int | None = None) -> Seconds:
        """Returns how long a client must rest before it sends a message.

        Args:
            who: the client.
            nbytes: the bytes of the message; None for a request for a model, which is
                about
                as large as the last one.
        """
        if nbytes is None:
            nbytes = self._patches.get(who, 0)
        state = self._states.get(who)
        return self._controller.rest(state, nbytes, self._clock.now)

    def assign(self, who: int, received: Seconds, nbytes: int) -> Assignment:
        """Returns the assignment of a client's task, once its model has arrived."""
        return self._controller.assign(self._receive(who, received, nbytes))

    def receive(self, who: int, nbytes: int) -> None:
        """Observes that a client has received a model of ``nbytes``."""
        self._states[who] = self._receive(who, self._clock.now, nbytes)
        self._public.pop(who, None)
        self._patches[who] = nbytes

    def finish(self, who: int, stack: Stack, row: int) -> None:
        """Observes that a client's task has made a message.

        Evaluates the client's own model, if its controllers want that.

        Raises:
            UserCodeError: the user's code raised.
        """
        if not stack.sound[row]:
            return
        state, own_D, own = self._states.get(who), stack.own[row], None
        if own_D is not None and "own" in self._controller.wants(state):
            own = self._evaluate(who, own_D, stack.kept[row])
        share = stack.nbytes[row] / (4 * self._dim)
        report = Report(at=self._clock.now, message=share, own=own)
        self._states[who] = self._controller.observe(state, report)

    def send(
        self, who: int, nbytes: int, duration: Seconds, part: float | None
    ) -> None:
        """Observes that a client sends a message.

        Args:
            who: the client.
            nbytes: the bytes of the message.
            duration: the duration of the upload.
            part: the share of the upload after which it breaks; None if it arrives.
        """
        if part is None:
            self._observe(who, nbytes, duration)
        else:
            self._observe(who, int(part * nbytes))

    def _receive(self, who: int, at: Seconds, nbytes: int) -> State:
        """Returns the state after a model has arrived and, if needed, was evaluated."""
        observe = self._controller.observe
        state = observe(self._states.get(who), Report(at=at, nbytes=nbytes))
        public = self._public.get(who)
        return state if public is None else observe(state, Report(at=at, public=public))

    def _observe(self, who: int, nbytes: int, took: Seconds | None = None) -> None:
        report = Report(at=self._clock.now, nbytes=nbytes, upload_seconds=took)
        self._states[who] = self._controller.observe(self._states.get(who), report)

    def dump(self, arrays: Arrays) -> JSON:
        """Returns all states; arrays go to ``arrays``."""
        return {
            "states": save_each(self._states, "controls", arrays),
            "patches": list(self._patches.items()),
            "public": list(self._public.items()),
        }

    def load(self, saved: JSON, arrays: Mapping[str, Any]) -> None:
        """Restores the states that :meth:`dump` returned."""
        self._states = load_each(saved["states"], arrays)
        self._patches = dict(saved["patches"])
        self._public = dict(saved["public"])
