"""Workers as simulated clients: the config of a run, and when each worker is there."""

import math
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from fedcore.planning.preemption import (
    Stay,
    cut_before,
    draw_inner_stays,
    draw_stays,
    sum_paid_seconds,
)
from fedcore.planning.volatile_workers import HOUR, Group, Protocol
from fedcore.rng import Key
from fedcore.typing import Seconds
from fedrun.config import FederationConfig
from fedsim.traces.format import ClientTrace, Segment
from fedsim.traces.write import write_trace

MOST_STALENESS = 1000  # of buffered updates, which is none in practice


class Workers(NamedTuple):
    """Which workers train, and how."""

    protocol: Protocol
    on_demand: int
    groups: tuple[Group, ...]
    """The preemptible ones, those with the highest bid first."""
    buffer: int
    local_steps: int | None
    round_deadline: Seconds | None
    """Of a synchronous round; None: it waits for all."""
    rented: tuple[tuple[Seconds, int], ...] = ()
    """Times, and the numbers of workers from then on; empty: all from the first on."""

    @property
    def workers(self) -> int:
        """All workers."""
        return self.on_demand + sum(group.workers for group in self.groups)

    def stays(self, seed: int, horizon: Seconds) -> list[list[Stay]]:
        """Draws when each worker is there and paid; those on demand come first.

        Args:
            seed: of the preemptions.
            horizon: the seconds for which stays are drawn.
        """
        found: list[list[Stay]] = [[(0.0, horizon)] for _ in range(self.on_demand)]
        key = Key.root(seed).fold_in("preemption")
        if self.groups and self.groups[0].offer.together:
            rng, (first, count) = key.generator(), self.groups[0]
            stays = draw_stays(rng, first.up, first.down, horizon)
            found += [stays] * count
            for (higher, _), (lower, count) in pairwise(self.groups):
                stays = draw_inner_stays(rng, stays, *lower.inside(higher))
                found += [stays] * count
        else:
            found += [
                draw_stays(key.fold_in(i).generator(), offer.up, offer.down, horizon)
                for offer, count in self.groups
                for i in range(count)
            ]
        begins = [0.0] * self.workers
        for (_, before), (begin, _) in pairwise(self.rented):
            begins[before:] = [begin] * (self.workers - before)
        return [
            cut_before(own, begin) for own, begin in zip(found, begins, strict=True)
        ]

    def cost(
        self, stays: list[list[Stay]], until: Seconds, on_demand_price: float
    ) -> float:
        """Returns what the workers are paid up to a time."""
        prices = [on_demand_price] * self.on_demand
        for group in self.groups:
            prices += [group.offer.price] * group.workers
        return sum(
            sum_paid_seconds(own, until) * price / HOUR
            for own, price in zip(stays, prices, strict=True)
        )

    def settings(
        self,
        config: FederationConfig,
        *,
        seed: int,
        trace: Path | None,
        stop: dict[str, Any],
        every: int,
    ) -> dict[str, Any]:
        """Returns the whole config of a run with these workers.

        Args:
            config: of the federation.
            seed: of the run.
            trace: the file with the stays; None: all are always there.
            stop: the section ``stop``.
            every: the versions between two evaluations.
        """
        raw = config.model_dump(mode="json")
        is_round = self.protocol == "synchronous"
        raw["algorithm"] |= {
            "buffer": self.buffer,
            "synchronous": is_round,
            "deadline": self.round_deadline,
            "staleness_limit": 0 if is_round else MOST_STALENESS,
            "minimum": 1,
            "min_clients": 1,
            "over_selection": 1.0,
            "concurrency": None,
            "ahead": None,
        }
        if self.local_steps is not None:
            raw["algorithm"]["client"]["steps"] = self.local_steps
        raw["simulate"] |= {"clients": self.workers, "trace": None, "arrivals": None}
        raw["simulate"]["availability"] = (
            {"kind": "always"}
            if trace is None
            else {"kind": "trace", "file": str(trace)}
        )
        raw["evaluate"]["every_versions"] = every
        return {**raw, "seed": seed, "stop": stop}


def write_stays(path: Path, stays: list[list[Stay]]) -> Path:
    """Writes the stays as a trace; returns its path."""
    clients = []
    for number, own in enumerate(stays):
        segments, now = [], 0.0
        for begin, end in own:
            if begin > now:
                segments.append(Segment(now, begin, "away"))
            segments.append(Segment(begin, end, "there"))
            now = end
        if not segments:
            segments.append(Segment(0.0, math.inf, "away"))
        clients.append(ClientTrace(f"worker-{number}", segments))
    write_trace(path, clients)
    return path
