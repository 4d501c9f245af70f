"""Oort: the clients whose data and devices promise most, and some that are unknown.

Lai, Zhu, Madhyastha, Chowdhury, "Oort: Efficient Federated Learning via Guided
Participant Selection", OSDI 2021, Algorithm 1, and the training selector of its
published code. A client of n samples whose last task had the training loss l and took d
seconds, in round r, has at round R the utility

    (U - min U) / (max U - min U) + √(0.1 ln R / r),   U = n·l,

times (T / d)^α if d > T. The largest U are clipped. Of the K clients of a cohort,
(1 - ε) K are drawn among those of the highest utility in proportion to it, the others
among those of which nothing is known; ε falls from round to round. T is a percentile of
all durations. Where the clients' U stay as they were, the pacer raises the percentile,
since fast clients have little left to teach.

We depart from the published code in five points. l is the mean of the losses, which
clients tell, and not the root of their mean square. d is what the training took,
without the transfers. A client is unknown until a task of it has ended, and unknown
ones are drawn uniformly. One that tells no loss, or whose update cannot be used, is
known with U = 0: otherwise its silence would keep it among the unknown, and so in
nearly every cohort. The clip is never the largest U but of one client, so that one that
claims an absurd loss moves nobody else's utility. And the rounds of an asynchronous
federation are its versions.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeVar

from pydantic import Field, model_validator

from fedcore.config import Count
from fedcore.measured import TaskReport
from fedcore.rng import Key
from fedcore.selection._shuffle import shuffle
from fedcore.selection.base import Order, Selection, SelectionConfig
from fedcore.typing import Seconds, State

_UNCERTAIN = 0.1  # the weight of ln R / r
_LARGEST_LOSS = 1e6
_LEAST = 1e-4  # a utility, where clients are drawn in proportion to it
_FLAT, _SHARP = 0.1, 5.0  # shares by which U has changed
_WORD = 2.0**64

Number = TypeVar("Number", int, float)


class Known(NamedTuple):
    """The result of a client's last task."""

    utility: float  # U
    seconds: Seconds  # d
    round: int  # r


class OortState(NamedTuple):
    """The facts about all clients, and the pacer."""

    clients: Mapping[str, tuple[float, Seconds, int]] = MappingProxyType({})
    """A :class:`Known` of each."""
    round: int = 0
    """R, the newest version that a task began with, counted from 1."""
    percentile: float = 0.0
    """Of the durations that are not too long."""
    rounds: tuple[int, ...] = ()
    """The last ones that tasks belong to, the oldest first."""
    sums: tuple[float, ...] = ()
    """Of U over the tasks of each."""
    counts: tuple[int, ...] = ()

    def mean(self, first: int, end: int) -> float:
        """Returns the sum over rounds of the mean U of each; ``end`` is excluded."""
        return sum(
            total / max(1, count)
            for at, total, count in zip(
                self.rounds, self.sums, self.counts, strict=True
            )
            if first <= at < end
        )


class Oort(SelectionConfig):
    """Prefers clients with a high loss, many samples and a short time."""

    kind: Literal["oort"] = "oort"
    explore: float = Field(default=0.9, ge=0, le=1)
    """ε at first: the share of a cohort that is drawn among unknown clients."""
    explore_decay: float = Field(default=0.95, gt=0, le=1)
    """ε is multiplied by this in each round."""
    explore_least: float = Field(default=0.2, ge=0, le=1)
    """Where ε ends."""
    percentile: float = Field(default=50.0, gt=0, le=100)
    """That of T at first, in percent; 100: no duration is too long. 10 in the published
    code, which is for thousands of clients: of few, it leaves always the same ones."""
    penalty: float = Field(default=2.0, ge=0)
    """α: how much a long duration lowers the utility; 0: not at all."""
    pacer_step: Count = 20
    """The number of rounds after which the pacer looks at the utilities."""
    pacer_delta: float = Field(default=5.0, ge=0, le=100)
    """By how much it changes the percentile; 0: never."""
    clip: float = Field(default=0.98, gt=0, le=1)
    """The quantile of U to which larger ones are lowered."""
    cut_off: float = Field(default=0.7, gt=0, le=1)
    """Clients are drawn among those of at least this share of the utility of the one
    that is just good enough."""

    @model_validator(mode="after")
    def _explores_less_and_less(self) -> "Oort":
        if self.explore_least > self.explore:
            raise ValueError(
                f"explore_least {self.explore_least:g} is above explore "
                f"{self.explore:g}"
            )
        return self

    def build(self) -> Selection:
        """Returns the rule."""
        return Selection(self._init, self._order, self._observe)

    def _init(self) -> OortState:
        return OortState(clients={}, percentile=self.percentile)

    # ---------------------------------------------------------------- what is learnt

    def _observe(self, state: State, report: TaskReport) -> OortState:
        known, measured, loss = OortState(*state), report.measured, report.loss
        if not report.steps or loss is None or not 0 <= loss <= _LARGEST_LOSS:
            loss = None
        seconds = 0.0 if measured is None else measured.seconds or 0.0
        now, utility = max(0, report.base) + 1, report.samples * (loss or 0.0)
        if now > known.round:
            known = self._pace(known, now)
        if loss is not None and now in known.rounds:
            place = known.rounds.index(now)
            known = known._replace(
                sums=_more(known.sums, place, utility),
                counts=_more(known.counts, place, 1),
            )
        latest = (utility, seconds, now)
        return known._replace(clients={**known.clients, report.client: latest})

    def _pace(self, known: OortState, now: int) -> OortState:
        """Returns what is known at the beginning of a round, with a new percentile."""
        step, percentile = self.pacer_step, known.percentile
        due = now // step * step
        if known.round < due and due > 2 * step:
            before = known.mean(due - 2 * step, due - step)
            change = abs(known.mean(due - step, due) - before)
            if change <= _FLAT * before:
                percentile = min(100.0, percentile + self.pacer_delta)
            elif change >= _SHARP * before:
                percentile = max(self.pacer_delta, percentile - self.pacer_delta)
        kept = [place for place, at in enumerate(known.rounds) if at >= now - 3 * step]
        return known._replace(
            round=now,
            percentile=percentile,
            rounds=(*(known.rounds[place] for place in kept), now),
            sums=(*(known.sums[place] for place in kept), 0.0),
            counts=(*(known.counts[place] for place in kept), 0),
        )

    # ----------------------------------------------------------------- what is chosen

    def _order(self, state: State, room: int) -> Order:
        known = OortState(*state)

        def order(candidates: Sequence[str], key: Key) -> Iterator[str]:
            there = [cid for cid in candidates if cid in known.clients]
            unknown = list(
                shuffle([cid for cid in candidates if cid not in known.clients], key)
            )
            utilities = self.utilities(known, there)
            exploited = self._count_exploited(
                known.round, room, len(there), len(unknown)
            )
            drawn = _draw(utilities, exploited, self.cut_off, key.fold_in("known"))
            chosen = set(drawn)
            rest = sorted(
                (cid for cid in there if cid not in chosen),
                key=utilities.__getitem__,
                reverse=True,
            )
            yield from drawn
            yield from unknown
            yield from rest

        return order

    def _count_exploited(self, now: int, room: int, there: int, unknown: int) -> int:
        """Returns how many of ``room`` clients are drawn among those that are known."""
        share = max(self.explore_least, self.explore * self.explore_decay**now)
        explored = min(unknown, room - math.floor(room * (1 - share)))
        return min(there, room - explored)

    def utilities(self, known: OortState, cids: Sequence[str]) -> dict[str, float]:
        """Returns the utilities of clients that are known."""
        if not cids:
            return {}
        entries = [Known(*known.clients[cid]) for cid in cids]
        values = sorted(entry.utility for entry in entries)
        clip = values[math.floor(self.clip * (len(values) - 1))]
        if len(values) > 1:
            clip = min(clip, values[-2])
        least = 0.999 * values[0]
        span = max(clip - least, 1e-4)
        longest = self._longest(known)
        found = {}
        for cid, entry in zip(cids, entries, strict=True):
            utility = (min(entry.utility, clip) - least) / span
            utility += math.sqrt(_UNCERTAIN * math.log(known.round) / entry.round)
            if entry.seconds > longest:
                utility *= (longest / entry.seconds) ** self.penalty
            found[cid] = utility
        return found

    def _longest(self, known: OortState) -> Seconds:
        """Returns T, above which a duration is too long."""
        if known.percentile >= 100:
            return math.inf
        durations = sorted(seconds for _, seconds, _ in known.clients.values())
        place = math.floor(len(durations) * known.percentile / 100)
        return durations[min(place, len(durations) - 1)]


def _draw(
    utilities: Mapping[str, float], count: int, cut_off: float, key: Key
) -> list[str]:
    """Draws clients without replacement, in proportion to their utilities.

    The largest of ln(u) / utility, with u uniform (Efraimidis, Spirakis, Information
    Processing Letters 97, 2006).
    """
    if not count:
        return []
    ranked = sorted(utilities.values(), reverse=True)
    enough = cut_off * ranked[min(count, len(ranked) - 1)]
    tickets = {
        cid: math.log((word + 1) / _WORD) / max(utility, _LEAST)
        for (cid, utility), word in zip(utilities.items(), key.words(), strict=False)
        if utility >= enough
    }
    return sorted(tickets, key=tickets.__getitem__, reverse=True)[:count]


def _more(values: tuple[Number, ...], place: int, more: Number) -> tuple[Number, ...]:
    """Returns the values with one of them increased."""
    return tuple(
        value + more if at == place else value for at, value in enumerate(values)
    )
