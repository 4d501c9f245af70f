"""Simulates a past run: from its journal, or from its beginning alone.

**Replayed**: every client takes for its k-th task as long as in the run, and is
available at the same times. Nothing is left to chance, so this tests the simulator.
**Calibrated**: only the first part of the run is known, as to an operator after a short
pilot. The tasks of that part are repeated again and again, and clients come and go on
exponential stretches with the observed means. **In the same order**: the order of
deliveries is taken from the journal, and the models are computed anew, bit for bit.
"""

import math
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.fidelity.side import began_and_ended
from fedcore.coordinator.events import Enrolled
from fedcore.errors import ConfigError
from fedcore.rng import Key
from fedcore.typing import Seconds
from fedcore.workload import Client, Workload
from fedrun.config import FederationConfig, parse_config
from fedsim.api import run
from fedsim.traces import ClientTrace, write_trace
from fedsim.traces.format import Segment
from fedsim.traces.journal import read_clients
from fedsim.traces.write import DIGITS
from fedview.results import Results

_AHEAD = 4  # a prediction may last this many times as long as the run
_LEAST: Seconds = 1e-3


@dataclass(frozen=True)
class Stretches:
    """How long clients are there and away, on average."""

    there: Seconds
    """Infinite: nobody was seen to go."""
    away: Seconds
    returns: int = 0
    """How many absences had ended; from few, little is known."""


class Predictor:
    """Simulations of one run.

    Args:
        measured: the run.
        config: what it was told, with the app of this place.
        workload: the app.
        folder: for the traces and the simulated runs.
    """

    def __init__(
        self,
        measured: Results,
        config: FederationConfig,
        workload: Workload,
        folder: Path,
    ) -> None:
        self._measured, self._workload, self._folder = measured, workload, folder
        self._settings = config.model_dump(mode="json")
        if not measured.summary["ended"]:
            self._settings["stop"] = {"versions": measured.summary["versions"]}
        self._lost = config.timeouts.lost
        self.seed = config.seed
        self._clients = _trainers(measured)

    def replayed(self, seed: int) -> Results:
        """With all that the journal knows of the clients."""
        _, ended = began_and_ended(self._measured)
        until = ended - self._measured.started
        clients = read_clients(self._measured, until).clients
        return self._traced("replayed", clients, until, seed)

    def stretches(self, pilot: Seconds) -> Stretches:
        """What a pilot tells of how long clients are there and away."""
        until = self._until(pilot)
        clients = read_clients(self._measured, until).clients
        return stretches(clients, until, self._lost)

    def _until(self, pilot: Seconds) -> Seconds:
        began, _ = began_and_ended(self._measured)
        return began - self._measured.started + pilot

    def calibrated(self, seed: int, pilot: Seconds) -> Results:
        """With what it knew so many seconds after the first task."""
        until = self._until(pilot)
        pilot_part = read_clients(self._measured, until)
        if not pilot_part.finished:
            raise ConfigError(
                f"no client has finished a task in the first {pilot:.3g} s; give a "
                "longer --pilot"
            )
        known = {client.name: client for client in pilot_part.clients}
        # Who has not come yet comes soon, as far as anyone knows.
        absent = [Segment(0.0, until, "away"), Segment(until, math.inf, "there")]
        clients = [
            known.get(who.name)
            or ClientTrace(who.name, list(absent), index=who.index, count=who.count)
            for who in self._clients
        ]
        return self._traced("calibrated", clients, until, seed)

    def in_order(self) -> Results:
        """With the recorded order of arrival."""
        arrivals = {"arrivals": str(self._measured.folder)}
        return self._run("in_order", arrivals, self.seed)

    def _traced(
        self, name: str, clients: list[ClientTrace], until: Seconds, seed: int
    ) -> Results:
        like_others(clients)
        usual = stretches(clients, until, self._lost)
        horizon = _AHEAD * self._measured.seconds
        key = Key.root(seed).fold_in("fidelity")
        name = f"{name}-{seed}"
        trace = self._folder / f"{name}.csv"
        write_trace(trace, go_on(clients, usual, until, horizon, key))
        presence = {"kind": "trace"}
        return self._run(name, {"trace": str(trace), "availability": presence}, seed)

    def _run(self, name: str, simulate: dict[str, Any], seed: int) -> Results:
        given = self._settings["simulate"]
        settings = {
            **self._settings,
            "seed": seed,
            "simulate": {
                **simulate,
                "engine": given["engine"],
                "args": given["args"],
            },
        }
        folder = self._folder / name
        shutil.rmtree(folder, ignore_errors=True)
        return run(parse_config(settings), self._workload, folder=folder)


def _trainers(measured: Results) -> list[Client]:
    """A run's clients in the order of their places, with their parts of the data.

    Raises:
        ConfigError: a client of several said no place, so that its data are unknown.
    """
    of = {r.cid: r for r in measured.of(Enrolled) if r.role == "trainer"}
    names = measured.names
    placeless = [names[r.cid] for r in of.values() if r.count == 1]
    if placeless and len(of) > 1:
        raise ConfigError(
            f"{measured.folder}: which data clients had is not known here, since "
            f"{', '.join(placeless)} joined without --index and --count"
        )
    return [
        Client(names[record.cid], record.index, record.count)
        for record in sorted(of.values(), key=lambda record: record.index)
    ]


def like_others(clients: list[ClientTrace]) -> None:
    """Who has finished no task is taken to be as fast as half of the others.

    Raises:
        ConfigError: nobody has finished a task.
    """
    latency = median(client.latency or 0.0 for client in clients)
    taken = [client.seconds_a_step(client.latency or 0.0) for client in clients]
    if not any(taken):
        raise ConfigError("no client has finished a task")
    usual = median(median(each) for each in taken if each)
    for client, own in zip(clients, taken, strict=True):
        if not own:
            client.step_seconds, client.latency = max(usual, _LEAST), latency
            client.up_mbit = client.down_mbit = math.inf  # within a task's time


def stretches(
    clients: list[ClientTrace], until: Seconds, blind: Seconds = 0.0
) -> Stretches:
    """The maximum-likelihood means of exponential stretches, some of them unfinished.

    The time spent there over the number of departures, and the time spent away over
    the number of returns; before a client first comes it is not away.

    Args:
        clients: as they are known.
        until: what is later is not known.
        blind: who has gone in so many seconds before that is not missed yet.
    """
    there = away = 0.0
    departures = returns = 0
    seen = until - blind
    for client in clients:
        stays = list(client.stays)
        for number, (start, end) in enumerate(stays):
            there += max(0.0, min(end, seen) - start)
            if end >= seen:
                continue
            departures += 1
            is_last = number + 1 == len(stays)
            back = until if is_last else stays[number + 1][0]
            away += min(back, until) - end
            returns += back < until
    if not departures:
        return Stretches(math.inf, 0.0)
    return Stretches(there / departures, away / max(1, returns), returns)


def go_on(
    clients: list[ClientTrace],
    usual: Stretches,
    until: Seconds,
    horizon: Seconds,
    key: Key,
) -> list[ClientTrace]:
    """The same clients, whose coming and going is made up from a time on."""
    until = round(until, DIGITS)
    if math.isinf(usual.there):
        return clients
    return [
        replace(
            client,
            segments=_known(client, until)
            + _made_up(client, usual, until, horizon, key),
        )
        for client in clients
    ]


def _known(client: ClientTrace, until: Seconds) -> list[Segment]:
    return [
        segment._replace(end=min(segment.end, until))
        for segment in client.segments
        if segment.start < until
    ]


def _made_up(
    client: ClientTrace,
    usual: Stretches,
    start: Seconds,
    horizon: Seconds,
    key: Key,
) -> list[Segment]:
    rng = key.fold_in(client.name).generator()
    is_there = client.segments[-1].state != "away"
    made: list[Segment] = []
    while start < horizon:
        mean = usual.there if is_there else usual.away
        end = start + max(_LEAST, float(rng.exponential(mean)))
        made.append(Segment(start, end, "there" if is_there else "away"))
        start, is_there = end, not is_there
    return [*made, Segment(start, math.inf, "there")]
