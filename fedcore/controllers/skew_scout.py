"""SkewScout: clients exchange as much as their own accuracy loses by exchanging less.

Hsieh, Phanishayee, Mutlu, Gibbons, "The Non-IID Data Quagmire of Decentralized Machine
Learning", ICML 2020, arXiv 1910.00189, §7. A model travels to another place now and
then, and is evaluated there on a sample of the data. From the accuracy that is lost,
AL, and the communication C, hill climbing finds the setting θ with the least

    λ_AL max(0, AL - σ_AL) + λ_C C(θ) / C_M,

where C_M is the size of the model. Where clients' data are alike nothing is lost, so θ
becomes the cheapest one; where they differ it becomes one that keeps models together.
θ is the density of messages, which is the threshold of Gaia's filter and the ratio of
top-k. (Numbers of local steps are no θ here: clients that take many would outweigh
those that take few in a plain mean.)

We depart from it in three points. The model that travels is the one that the server
publishes: a client compares the model that it has trained with the one that it gets
next, on data of its own, and no client's model is shown to another client. So each
client climbs by itself, by what the others' changes and its own come to on its data.
And a hill is climbed in the direction that AL points to: towards more communication
where it is above σ_AL, towards less where it is not. What was seen of a θ is forgotten
after ``memory`` comparisons, since AL changes while the model learns.

The paper was not within reach beyond its abstract; the objective and its constants are
quoted from memory of it.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, NamedTuple

from pydantic import Field, model_validator

from fedcore.config import Count, Roles
from fedcore.controllers.base import (
    NOTHING,
    Assignment,
    Controller,
    ControllerConfig,
    Report,
    Wanted,
)
from fedcore.errors import WorkloadError
from fedcore.typing import State

Share = Annotated[float, Field(gt=0, le=1)]


class Search(NamedTuple):
    """A client's memory of its search."""

    level: int = 0  # the present θ, from 0, the most expensive one
    tasks: int = 0  # since the last comparison
    cost: float = 0.0  # of their messages, C(θ) / C_M each
    home: float | None = None  # the accuracy of its own model, to be compared
    seen: tuple[float, ...] = ()  # the objective of each level,
    ages: tuple[int, ...] = ()  # and how many comparisons ago that was; -1: never


class SkewScout(ControllerConfig):
    """The communication that a client's data need."""

    kind: Literal["skew_scout"] = "skew_scout"
    evaluates: ClassVar[bool] = True
    levels: tuple[Share, ...] = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02)
    """What θ may be: shares of the uplink's usual message."""
    every: Count = 10
    """The number of tasks from one comparison to the next."""
    metric: str = "accuracy"
    """What is compared, of the metrics of the workload; higher values are better."""
    tolerance: float = Field(default=0.05, ge=0)
    """σ_AL: the loss that does not matter."""
    loss_weight: float = Field(default=50.0, gt=0)
    """λ_AL."""
    cost_weight: float = Field(default=1.0, gt=0)
    """λ_C."""
    memory: Count = 10
    """After how many comparisons the objective of a level is looked at again."""

    @model_validator(mode="after")
    def _are_several(self) -> "SkewScout":
        if len({*self.levels}) < max(2, len(self.levels)):
            raise ValueError("levels: expected two or more different shares")
        return self

    def fits(self, roles: Roles) -> None:
        """Checks that the uplink can send less, and keep the rest for later.

        Raises:
            ValueError: it cannot.
        """
        uplink = roles.uplink
        if uplink.holds == "nothing" or uplink.shorter(1.0) is None:
            raise ValueError(
                f"controllers: skew_scout sets the density of messages, and uplink "
                f"{uplink.kind} cannot send less and keep the rest; choose "
                "error_feedback around gaia or top_k"
            )

    @property
    def ordered(self) -> tuple[float, ...]:
        """The levels from the most expensive to the cheapest one."""
        return tuple(sorted(self.levels, reverse=True))

    def build(self) -> Controller:
        """Returns the controller."""
        return Controller(
            self._init,
            self._observe,
            self._assign,
            wants=self._wants,
        )

    def _init(self) -> Search:
        count = len(self.levels)
        return Search(seen=(0.0,) * count, ages=(-1,) * count)

    def _assign(self, state: State) -> Assignment:
        return Assignment(density=self.ordered[Search(*state).level])

    def _wants(self, state: State) -> frozenset[Wanted]:
        search = Search(*state)
        if search.home is not None:
            return frozenset({"public"})
        return frozenset({"own"}) if search.tasks + 1 >= self.every else NOTHING

    def _observe(self, state: State, report: Report) -> Search:
        search = Search(*state)
        if report.message is not None:
            home = None if report.own is None else self._value(report.own)
            search = search._replace(
                tasks=search.tasks + 1,
                cost=search.cost + report.message,
                home=search.home if home is None else home,
            )
        if report.public is not None and search.home is not None:
            lost = max(0.0, search.home - self._value(report.public))
            search = self._compare(search, lost)
        return search

    def _value(self, values: Mapping[str, float]) -> float:
        if self.metric not in values:
            raise WorkloadError(
                f"controllers: skew_scout compares {self.metric!r}, and the workload "
                f"measures {', '.join(sorted(values)) or 'nothing'}"
            )
        return values[self.metric]

    def _compare(self, search: Search, lost: float) -> Search:
        """Returns the search after a comparison in which this accuracy was lost."""
        beyond = max(0.0, lost - self.tolerance)
        cost = search.cost / search.tasks
        objective = self.loss_weight * beyond + self.cost_weight * cost
        ages = [age + 1 if age >= 0 else age for age in search.ages]
        ages[search.level], seen = 0, list(search.seen)
        seen[search.level] = objective
        level = self._next(search.level, seen, ages, -1 if beyond else 1)
        return Search(level, 0, 0.0, None, tuple(seen), tuple(ages))

    def _next(self, level: int, seen: list[float], ages: list[int], way: int) -> int:
        """Returns the next level: an unknown one on the way, or the best known near."""

        def is_known(other: int) -> bool:
            return 0 <= ages[other] <= self.memory

        ahead = level + way
        if 0 <= ahead < len(seen) and not is_known(ahead):
            return ahead
        near = range(max(0, level - 1), min(len(seen), level + 2))
        return min(filter(is_known, near), key=lambda other: (seen[other], -other))
