"""The states of several controllers as one, on a client and at the server alike."""

from collections.abc import Callable, Mapping
from typing import Generic, Protocol, TypeVar

from fedcore.controllers._assignment import Assignment, join, require_possible
from fedcore.typing import State


class Half(Protocol):
    """The common part of a controller's two halves, on a client and at the server."""

    @property
    def init(self) -> Callable[[], State]:
        """The state before the first report."""

    @property
    def observe(self) -> Callable[..., State]:
        """The state after a report."""

    @property
    def assign(self) -> Callable[..., Assignment]:
        """Returns the assignment of a task."""


HalfT = TypeVar("HalfT", bound=Half)


class States(Generic[HalfT]):
    """Halves by the kinds of their controllers; their state is a dict of theirs."""

    def __init__(self, halves: Mapping[str, HalfT]) -> None:
        self._halves = halves

    def init(self) -> dict[str, State]:
        """Returns the states before the first report."""
        return {kind: half.init() for kind, half in self._halves.items()}

    def each(self, state: State) -> list[tuple[str, HalfT, State]]:
        """Returns kinds, halves and states; one that has joined since begins anew."""
        known = state or {}
        return [
            (kind, half, known[kind] if kind in known else half.init())
            for kind, half in self._halves.items()
        ]

    def observe(self, state: State, report: object) -> dict[str, State]:
        """Returns the states after a report."""
        return {kind: half.observe(own, report) for kind, half, own in self.each(state)}

    def assign(self, state: State, *request: object) -> Assignment:
        """Returns what all give together: shares multiply, the fewest samples count.

        Raises:
            ConfigError: one of them assigns what cannot be.
        """
        given = []
        for kind, half, own in self.each(state):
            given.append(half.assign(own, *request))
            require_possible(kind, given[-1])
        return join(*given)
