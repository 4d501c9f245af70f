"""A population of devices, with the speed, link and reliability of each one.

It is a struct of arrays. Every event of a device is a function of the seed, the device,
the purpose and a number, so engines that ask in different orders see the same events.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedcore.distributions import DistributionConfig, Empirical, Floats, Same
from fedcore.errors import ConfigError
from fedcore.measured import Device, Measured
from fedcore.rng import Key
from fedcore.typing import Seconds
from fedcore.workload import Client
from fedrun.config import SimulateConfig
from fedsim.evaluator import NAME as EVALUATOR
from fedsim.population.availability import Always, Change
from fedsim.population.chance import Chance, Values
from fedsim.population.devices import Devices
from fedsim.population.dropout import Dropout, LabelsOf
from fedsim.population.presence import availability_of
from fedsim.population.silo import Silo
from fedsim.traces import ClientTrace, read_trace, read_values

_MBIT = 125_000  # bytes
_ATTEMPT = 40  # the lower bits count tasks, the upper ones attempts


class Population:
    """N devices, by number; ``client-0`` is device 0.

    In the methods, ``who`` is the number of a device and ``task`` the number of its
    task, from 1. Times are in seconds.

    Args:
        config: the section ``simulate``. The files that it names are read here.
        seed: the seed of the run.

    Raises:
        ConfigError: a file is missing or wrong, or no device is ever available.
    """

    def __init__(self, config: SimulateConfig, seed: int) -> None:
        config = config.map_distributions(_with_values)
        key = Key.root(seed).fold_in("population")
        trace = None if config.trace is None else read_trace(config.trace)
        self.count = config.clients if trace is None else len(trace)
        self.names: Sequence[str] = (
            [f"client-{i}" for i in range(self.count)]
            if trace is None
            else [client.name for client in trace]
        )
        self.args = config.args
        self._places = None if trace is None else [_place(each) for each in trace]
        if trace is not None and EVALUATOR in self.names:
            raise ConfigError(
                f"{config.trace}: a client is called {EVALUATOR!r}, as the simulated "
                "evaluator is; give it another name"
            )
        self._order = key.fold_in("order")
        self._speeds(config, key, trace)
        self._devices = Devices(config.devices, key, self._slowness_N)
        self._links(config, key, trace)
        self._misfortunes(config, key)
        self._availability = availability_of(config, key, trace, self.count)

    def place(self, who: int) -> tuple[int, int]:
        """Returns a device's part of the data: its index, and the number of parts.

        A trace may name them. Otherwise each device has a part of its own.
        """
        known = None if self._places is None else self._places[who]
        return (who, self.count) if known is None else known

    def client(self, who: int) -> Client:
        """Returns the client as the user's code sees it."""
        return Client(self.names[who], *self.place(who), self.args)

    def order(self) -> Sequence[int]:
        """Returns the order in which devices come at one time, drawn by the seed."""
        drawn: list[int] = self._order.generator().permutation(self.count).tolist()
        return drawn

    # ------------------------------------------------------------------- making

    def _draw(self, distribution: DistributionConfig, key: Key) -> Floats:
        """Returns one value for each device."""
        return distribution.quantile(Chance(key, self.count).each())[: self.count]

    def _varying(self, distribution: DistributionConfig, key: Key) -> Values | None:
        if isinstance(distribution, Same):
            return None
        return Values.of(distribution, key, self.count)

    def _speeds(
        self, config: SimulateConfig, key: Key, trace: list[ClientTrace] | None
    ) -> None:
        slowness_N = self._draw(config.speed, key.fold_in("speed"))
        step_N = config.step_seconds * slowness_N
        self._tasks: list[list[Seconds]] | None = None
        if trace is not None:
            _take_known(step_N, [client.step_seconds for client in trace])
            default = config.link.latency
            recorded = [
                client.seconds_a_step(
                    default if client.latency is None else client.latency
                )
                for client in trace
            ]
            if any(recorded):
                own = step_N.tolist()  # for clients without tasks
                self._tasks = [row or [own[who]] for who, row in enumerate(recorded)]
        self._slowness_N = step_N / config.step_seconds
        self._step: list[Seconds] = step_N.tolist()
        self._jitter = self._varying(config.jitter, key.fold_in("jitter"))
        self._pauses = None
        preemption = config.preemption
        if preemption.share:

            def pause(u_N: Floats) -> Floats:
                inner_N = np.minimum(u_N / preemption.share, 1 - 2.0**-53)
                seconds_N = preemption.seconds * preemption.spread.quantile(inner_N)
                return np.where(u_N < preemption.share, seconds_N, 0.0)

            draws = Chance(key.fold_in("preemption"), self.count)
            self._pauses = Values(draws, pause)
        self._silo = None
        if config.silo is not None:
            self._silo = Silo(config.silo, key.fold_in("silo"), self.count)
        extras = (self._tasks, self._jitter, self._pauses, self._silo)
        self._is_steady = all(extra is None for extra in extras)

    def _links(
        self, config: SimulateConfig, key: Key, trace: list[ClientTrace] | None
    ) -> None:
        link = config.link
        spread_N = self._draw(link.spread, key.fold_in("link"))
        up_N, down_N = link.up_mbit / spread_N, link.down_mbit / spread_N
        delay_N = link.latency * self._draw(link.latency_spread, key.fold_in("latency"))
        if trace is not None:
            # A recorded task's time includes its transfers.
            measured = [np.inf if any(c.seconds_a_step(0)) else None for c in trace]
            for rate_N, name in ((up_N, "up_mbit"), (down_N, "down_mbit")):
                _take_known(rate_N, measured)
                _take_known(rate_N, [getattr(client, name) for client in trace])
            _take_known(delay_N, [client.latency for client in trace])
        self._up: list[float] = (up_N * _MBIT).tolist()
        self._down: list[float] = (down_N * _MBIT).tolist()
        self._delay: list[Seconds] = delay_N.tolist()
        self._request: list[Seconds] = (2 * delay_N).tolist()

    def _misfortunes(self, config: SimulateConfig, key: Key) -> None:
        dropout = config.dropout
        self._dropout = None
        if dropout.share or dropout.others:
            self._dropout = Dropout(
                dropout, key.fold_in("dropout"), self.count, self._slowness_N
            )
        self._upload_loss, self._ack_loss = config.upload_loss, config.ack_loss
        self._uploads = Chance(key.fold_in("upload"), self.count)
        self._acks = Chance(key.fold_in("ack"), self.count)
        self._away_seconds = config.away_seconds
        self._away = self._varying(config.away, key.fold_in("away"))

    # ---------------------------------------------------------------- durations

    def compute(self, who: int, task: int, steps: float) -> Seconds:
        """Returns the time of a task's local steps, with any pause between them.

        The tasks of a recorded client take as long as in the record; after the last
        one, the record starts again.
        """
        if self._silo is not None:
            steps = self._silo.usual_steps(who, task, steps)
        seconds = steps * self._step[who]
        if self._is_steady:
            return seconds
        if self._tasks is not None:
            recorded = self._tasks[who]
            seconds = steps * recorded[(task - 1) % len(recorded)]
        if self._jitter is not None:
            seconds *= self._jitter.one(who, task)
        if self._pauses is not None:
            seconds += self._pauses.one(who, task)
        return seconds

    def device(self, who: int, task: int) -> Device:
        """Returns the facts of a device when it asks for a task."""
        return self._devices.device(who, task)

    def measured(self, who: int, task: int, samples: int, took: Seconds) -> Measured:
        """Returns the measurements of a task by a device.

        Args:
            who: the device.
            task: its task.
            samples: the number of samples that its steps use.
            took: the duration of the steps.
        """
        joules = self._devices.joules(who, took)
        return Measured(samples, took, joules, self.device(who, task)).clean()

    def download(self, who: int, nbytes: int) -> Seconds:
        """Returns the time of a download, with its request."""
        return self._request[who] + nbytes / self._down[who]

    def upload(self, who: int, nbytes: int) -> Seconds:
        """Returns the time of an upload."""
        return self._delay[who] + nbytes / self._up[who]

    def latency(self, who: int) -> Seconds:
        """Returns the time of a message without content, such as a verdict."""
        return self._delay[who]

    # -------------------------------------------------------------- misfortunes

    def dropout(self, who: int, task: int) -> float | None:
        """Returns the share of its computing after which a client is lost, or None.

        Raises:
            ConfigError: dropout depends on labels, and the data have none.
        """
        return None if self._dropout is None else self._dropout.one(who, task)

    @property
    def needs_labels(self) -> bool:
        """Whether ``show_labels`` must be called before the first task."""
        return self._dropout is not None and self._dropout.needs_labels

    def show_labels(self, labels_of: LabelsOf) -> None:
        """Takes the function that returns the label counts of a device's data."""
        if self._dropout is not None:
            self._dropout.labels_of = labels_of

    def upload_breaks(self, who: int, task: int, attempt: int) -> float | None:
        """Returns the share of an upload after which it breaks; None if it does not.

        Args:
            who: the device.
            task: its task.
            attempt: the number of the upload of this task's update.
        """
        if not self._upload_loss:
            return None
        drawn = self._uploads.one(who, task | attempt << _ATTEMPT)
        return drawn / self._upload_loss if drawn < self._upload_loss else None

    def ack_lost(self, who: int, task: int, attempt: int) -> bool:
        """Returns whether the verdict on this upload never arrives."""
        return bool(self._ack_loss) and (
            self._acks.one(who, task | attempt << _ATTEMPT) < self._ack_loss
        )

    def away(self, who: int, task: int) -> Seconds:
        """Returns how long a client stays away that was lost in this task."""
        if self._away is None:
            return self._away_seconds
        return self._away_seconds * self._away.one(who, task)

    # ------------------------------------------------------------- availability

    @property
    def comes_and_goes(self) -> bool:
        """Whether a device may come or leave; otherwise all are always available."""
        return not isinstance(self._availability, Always)

    @property
    def deserted(self) -> Seconds:
        """The time at which the last device leaves for good; may be infinite."""
        return self._availability.deserted

    def next_change(self, who: int, after: Seconds) -> Change | None:
        """Returns the next change after a time, and the availability from then on."""
        return self._availability.next_change(who, after)

    def is_there(self, who: int, at: Seconds) -> bool:
        """Returns whether a device is available."""
        return self._availability.is_there(who, at)


def _with_values(distribution: DistributionConfig) -> DistributionConfig:
    """Returns the distribution with the values of its file."""
    if isinstance(distribution, Empirical) and distribution.file is not None:
        values = read_values(Path(distribution.file))
        return distribution.model_copy(update={"values": values})
    return distribution


def _place(client: ClientTrace) -> tuple[int, int] | None:
    """Returns the part of the data of a recorded client, if it is known."""
    index, count = client.index, client.count
    return None if index is None or count is None else (index, count)


def _take_known(value_N: Floats, known: Sequence[float | None]) -> None:
    """Replaces drawn values by known ones."""
    for who, value in enumerate(known):
        if value is not None:
            value_N[who] = value
