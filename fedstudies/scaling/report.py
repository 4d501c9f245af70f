"""The report of ``fedsim scale``: predicted times, scaling, and the batch limit."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fedcore.planning.batch_limit import BatchLimit
from fedcore.planning.paleo import (
    SCHEMES,
    Device,
    Exchange,
    LayerTime,
    Link,
    layer_time,
    round_time,
)
from fedcore.planning.scaling import Scaling, best_workers, scaling
from fedcore.typing import Seconds
from fedrun import units
from fedrun.cli.plain_json import finite
from fedstudies.scaling.gradients import Limits
from fedstudies.scaling.layers import Step
from fedstudies.statistics import student_t

OURS = "star"  # the federation's own way to exchange


@dataclass(frozen=True, kw_only=True)
class ScaleReport:
    """All that a report says; what cannot be known is None, with a doubt in words."""

    app: str
    workers: Sequence[int]
    exchange: Exchange
    link: Link
    limits: Mapping[str, Limits]
    """By the model at which the gradients were computed: ``initial`` or a run."""
    averaged: int
    """How many updates make a version."""
    device: Device | None
    step: Step | None
    """None of an app that is no torch module."""
    steps: int
    """Local steps of a task."""
    measured: Scaling | None
    doubts: Sequence[str]

    # --------------------------------------------------------------------- predicted

    @property
    def layer_times(self) -> list[LayerTime]:
        """What each layer takes in a step; empty where the layers are unknown."""
        if self.step is None or self.device is None:
            return []
        return [layer_time(layer, self.device) for layer in self.step.layers]

    @property
    def step_seconds(self) -> Seconds:
        """What a step takes; 0 where the layers are unknown."""
        return sum(row.total for row in self.layer_times)

    def communication(self, scheme: str) -> list[Seconds]:
        """What one exchange takes, by number of workers."""
        find = SCHEMES[scheme]
        return [find(n, self.exchange, self.link) for n in self.workers]

    def scaling(self, scheme: str = OURS, *, overlap: bool = False) -> Scaling | None:
        """Strong and weak scaling of a round; None where the layers are unknown.

        At fixed total work, the most workers take the steps that the config says, and
        fewer workers take more of them each. At fixed work of each worker, all take
        those of the config.
        """
        if not self.step_seconds:
            return None
        strong, weak, most = {}, {}, max(self.workers)
        own = self.steps * self.step_seconds
        for n, sent in zip(self.workers, self.communication(scheme), strict=True):
            strong[n] = round_time(own * most / n, sent, overlap=overlap)
            weak[n] = round_time(own, sent, overlap=overlap)
        return scaling(strong, weak)

    # ----------------------------------------------------------------------- in words

    @property
    def verdict(self) -> str:
        """The batch limit of clients as a sentence, at the last model."""
        where, limits = list(self.limits.items())[-1]
        found = limits.of_clients
        if found is None:
            return limits.reasons[0]
        at = (
            f"at the {where} model"
            if where == "initial"
            else f"at the model of {where}"
        )
        limit, (low, high) = max(1.0, found.beyond), interval(found)
        if math.isinf(limit):
            least = f", or at {low:.0f} or more with 95 % confidence" if low > 1 else ""
            return (
                f"{at}, the gradients of {found.count} clients hardly agree, and no "
                f"limit is in sight{least}: every client more makes an update of the "
                "model more precise"
            )
        text = (
            f"beyond {units.amount(round(limit), 'client')} {_in_words(low, high)} a "
            f"version, more clients bring less and less ({at}): their gradients repeat "
            "each other"
        )
        where = f"the config averages {self.averaged}, which is"
        if self.averaged > high:
            return f"{text}; {where} above the limit"
        if self.averaged <= max(low, 1):
            return f"{text}; {where} within the limit"
        is_above = "above" if self.averaged > found.beyond else "within"
        return f"{text}; {where} {is_above} the limit, which may be chance"

    @property
    def sentences(self) -> list[str]:
        """What else is to be known, in words."""
        found = [*self.doubts]
        if (ours := self.scaling()) is not None and len(self.workers) > 1:
            times = dict(zip(ours.workers, ours.strong, strict=True))
            best = best_workers(times)
            found.append(
                f"For a fixed total work, {units.amount(best, 'worker')} "
                f"{'is' if best == 1 else 'are'} the fastest of those asked for, "
                f"{units.digits(ours.speedups[ours.workers.index(best)])} times as "
                "fast as one; by Amdahl's law, "
                f"{units.digits(100 * ours.serial_share)} % of the time of one worker "
                "cannot be shared."
            )
        return found

    # ----------------------------------------------------------------------- as data

    def as_json(self) -> dict[str, Any]:
        """The report as plain data; a number that is unknown or infinite is None."""
        value = {
            "app": self.app,
            "verdict": self.verdict,
            "sentences": self.sentences,
            "workers": list(self.workers),
            "averaged": self.averaged,
            "device": None if self.device is None else self.device.model_dump(),
            "link": self.link._asdict(),
            "exchange": self.exchange._asdict(),
            "batch": None if self.step is None else self.step.batch,
            "steps": self.steps,
            "unknown_operations": [] if self.step is None else self.step.unknown,
            "layers": [
                {
                    **asdict(row.layer),
                    "seconds": row.total,
                    "share": row.total / self.step_seconds,
                }
                for row in self.layer_times
            ],
            "step_seconds": self.step_seconds or None,
            "communication": {name: self.communication(name) for name in SCHEMES},
            "scaling": {
                name: {
                    "sum": _scaling_json(self.scaling(name)),
                    "overlapped": _scaling_json(self.scaling(name, overlap=True)),
                }
                for name in SCHEMES
            },
            "measured": _scaling_json(self.measured),
            "limits": {
                where: {
                    "samples": _limit_json(limits.of_samples),
                    "clients": _limit_json(limits.of_clients),
                    "reasons": limits.reasons,
                }
                for where, limits in self.limits.items()
            },
        }
        found: dict[str, Any] = finite(value)
        return found


_EQUAL = 1e6  # ‖G‖² / tr(Σ) of gradients that are the same but for rounding


def interval(found: BatchLimit) -> tuple[float, float]:
    """The 95 % interval of the number beyond which gradients repeat each other.

    It is that of its inverse, by a jackknife. What is not known is 1 to infinity.
    """
    error, centre = found.precision_error, found.precision
    if centre > _EQUAL:
        return 1.0, 1.0
    if math.isnan(error):
        return 1.0, math.inf
    half = student_t(len(found.without) - 1) * error
    low, high = centre - half, centre + half
    return 1 + 1 / high if high > 0 else math.inf, 1 + 1 / low if low > 0 else math.inf


def _in_words(low: float, high: float) -> str:
    """An interval: ``(12 to 55 with 95 % confidence)``."""
    if low <= 1 and math.isinf(high):
        return "(a guess: too few were measured)"
    if low == high:
        return "(their gradients are equal)"
    if math.isinf(high):
        return f"({low:.0f} or more with 95 % confidence)"
    return f"({low:.0f} to {high:.0f} with 95 % confidence)"


def _scaling_json(found: Scaling | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "workers": list(found.workers),
        "strong_seconds": list(found.strong),
        "weak_seconds": list(found.weak),
        "speedups": found.speedups,
        "efficiencies": found.efficiencies,
        "scaled_speedups": found.scaled_speedups,
        "karp_flatt": found.karp_flatt,
        "serial_share": found.serial_share,
    }


def _limit_json(found: BatchLimit | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "count": found.count,
        "diversity": found.diversity,
        "limit": found.limit,
        "noise_scale": found.noise_scale,
        "beyond_95": list(interval(found)),
        "beyond": found.beyond,
    }
