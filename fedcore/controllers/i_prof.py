"""I-Prof: as many samples as a device can train on within a time, or with some energy.

Damaskinos, Guerraoui, Kermarrec, Nitu, Patra, Taïani, "FLeet: Online Federated Learning
via Staleness Awareness and Performance Prediction", Middleware 2020, arXiv 2006.07273,
§2.3 and the profilers of its published code. A task of n samples takes t0 + α (n - n0).
The slope α is predicted from a device's facts f: total and free memory, temperature,
the sum of its cores' frequencies; for energy also the power of a busy core. A device
model of which nothing is known gets α = w·f with the w of ordinary least squares over
all tasks of all devices. Its first task begins a w of its own with that one. Each task
corrects it by passive-aggressive regression (Crammer et al., JMLR 7, 2006, PA-I):

    loss = max(0, |α - w·f| - ε),  w += sign(α - w·f) min(C, loss / ‖f‖²) f.

Then n = (SLO - t0) / α + n0, and the fewer of both where there are two objectives.

We depart from the published code in six points. Its ε and C are milliseconds a sample
beside facts in megabytes and megahertz, so that its C never binds; ours are shares, ε
of the task's slope and C of the one predicted for it. So a device whose slope is F
times what its facts say is learnt in at most 1 + |log F| / log(1 + C) tasks, where
shares of the first prediction would take up to F / C. The facts are scaled to about 1
and have a constant beside them. Least squares are solved from sums, with a little
ridge, and forget nothing. The regression of a device model is kept from task to task:
the published code begins it anew each time. The power of a busy core is that of the
task before. And a device that tells no model is one of its own, as every device is with
``each: client``.

What clients report is a claim. What all share follows the median of the last slopes of
the newest clients: slopes that are more than a hundred times apart from it do not enter
least squares, change the regression of a device model by no more than such a slope, and
neither moves a prediction further. So a client with an absurd duration hurts itself
alone, or with ``each: model`` those of the device model that it claims, by that factor
at most.
"""

import math
from collections.abc import Mapping, Sequence
from operator import add
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeVar

from pydantic import Field, model_validator

from fedcore.config import Count, Duration, Roles
from fedcore.controllers._assignment import Assignment
from fedcore.controllers._server import Request, ServerController
from fedcore.controllers.base import ControllerConfig
from fedcore.measured import Device, TaskReport
from fedcore.typing import State

COSTS = "seconds", "joules"
_GIB = 2.0**30
_RIDGE = 1e-6  # of the mean square of a fact
_APART = 100.0  # a slope that is so many times the median, or that part, is absurd
_LARGEST_FACT = 100.0  # times the usual value
_NOTHING = 1e-12  # seconds or joules a sample
_NEWEST = 1000  # device models and clients of which something is kept

_ONE = "client "  # begins the name of a regression that no other client shares

VectorF = tuple[float, ...]
Entry = TypeVar("Entry")


class Slopes(NamedTuple):
    """The state of one cost: the sums of least squares, and the regressions."""

    seen: int = 0
    least: float = math.inf  # of all slopes
    largest: float = 0.0
    square_FF: VectorF = ()  # Σ f fᵀ
    product_F: VectorF = ()  # Σ α f
    models: Mapping[str, VectorF] = MappingProxyType({})  # the oldest first
    """w of each device model."""
    last: Mapping[str, float] = MappingProxyType({})
    """The last slope of each client, the oldest first."""
    median: float = 0.0
    """The lower median of these slopes."""

    def is_absurd(self, slope: float) -> bool:
        """Returns whether a slope is too far from those of the clients."""
        return slope != self.clamp(slope)

    def clamp(self, slope: float) -> float:
        """Returns the nearest slope that is not absurd."""
        return min(max(slope, self.median / _APART), self.median * _APART)

    def weights(self, name: str) -> VectorF:
        """Returns the w of a device model; of least squares if it has none."""
        return self.models[name] if name in self.models else solve(self)


class IProf(ControllerConfig):
    """Sets how many samples a client's task uses by what its device is likely to take.

    The task takes as many steps as use about so many samples; where the client
    algorithm has ``steps: 1``, its batch has that size.
    """

    kind: Literal["i_prof"] = "i_prof"
    uses_device = True
    seconds: Duration | None = None
    """How long the local steps of a task may take."""
    joules: float | None = Field(default=None, gt=0)
    """The energy that they may take, where devices measure it."""
    base_seconds: float = Field(default=0.0, ge=0)
    """t0: what a task of ``base_samples`` takes; 0.1 in the paper."""
    base_joules: float = Field(default=0.0, ge=0)
    """The same of energy."""
    base_samples: int = Field(default=0, ge=0)
    """n0; the number of threads in the paper."""
    least: Count = 1
    """The least samples of a task; 104 in the paper's code."""
    most: Count = 10_000
    """The most samples of a task."""
    each: Literal["model", "client"] = "model"
    """Whether devices of one model share a regression, or each client has its own."""
    epsilon: float = Field(default=0.01, ge=0)
    """ε: errors below this share of the slope change nothing."""
    aggressiveness: float = Field(default=1.0, gt=0)
    """C: by how much of the slope one task changes it at most, times ‖f‖²."""

    @classmethod
    def example(cls) -> "IProf":
        """Returns settings with both objectives."""
        return cls(seconds=3, joules=20)

    @model_validator(mode="after")
    def _has_an_objective(self) -> "IProf":
        if self.seconds is None and self.joules is None:
            raise ValueError("has no objective: set seconds, joules or both")
        for name in ("seconds", "joules"):
            goal, base = getattr(self, name), getattr(self, f"base_{name}")
            if goal is not None and goal <= base:
                raise ValueError(f"{name} {goal:g} is not above base_{name} {base:g}")
        if self.least > self.most:
            raise ValueError(f"least {self.least} is above most {self.most}")
        return self

    def fits(self, roles: Roles) -> None:
        """Checks that the number of samples of a task can be set.

        Raises:
            ValueError: it cannot.
        """
        client = roles.client
        few, many = (
            (client.with_samples(n), client.steps_of(10**6, 1.0, n)) for n in (1, 10**6)
        )
        if few == many:
            raise ValueError(
                "controllers: i_prof sets how many samples a task uses, and client "
                f"{client.kind} ignores that"
            )

    @property
    def uses_energy(self) -> bool:
        """Whether the energy of tasks has a limit."""
        return self.joules is not None

    @property
    def largest(self) -> Assignment:
        """The largest task: of ``most`` samples."""
        return Assignment(samples=self.most)

    def build_server(self, roles: Roles) -> ServerController:
        """Returns the half at the server."""
        return ServerController(self._init, self._observe, self._assign)

    def _init(self) -> tuple[Slopes, ...]:
        return tuple(Slopes(models={}, last={}) for _ in COSTS)

    def _observe(self, state: State, report: TaskReport) -> State:
        measured = report.measured
        if measured is None or measured.samples <= self.base_samples:
            return state
        name = self._name(report.client, measured.device)
        more, found = measured.samples - self.base_samples, []
        for cost, saved in zip(COSTS, state, strict=True):
            known, took = Slopes(*saved), getattr(measured, cost)
            if took is not None:
                slope = (took - getattr(self, f"base_{cost}")) / more
                facts_F = facts(measured.device, cost)
                known = self._learn(known, report.client, name, facts_F, slope)
            found.append(known)
        return tuple(found)

    def _learn(
        self, known: Slopes, client: str, name: str, facts_F: VectorF, slope: float
    ) -> Slopes:
        """Returns what is known after one more slope, by one step of PA-I."""
        if slope < _NOTHING:  # the task took no longer than an empty one
            return known
        known = _note(known, client, slope)
        if not known.is_absurd(slope):
            known = _add_task(known, facts_F, slope)
        if not known.seen:
            return known
        if not name.startswith(_ONE):
            slope = known.clamp(slope)
        weights_F = known.weights(name)
        found = _dot(weights_F, facts_F)
        error, most = slope - found, self.aggressiveness * max(found, known.least)
        loss = max(0.0, abs(error) - self.epsilon * slope)
        step = math.copysign(min(most, loss / _dot(facts_F, facts_F)), error)
        pairs = zip(weights_F, facts_F, strict=True)
        models = dict(known.models)
        models.pop(name, None)
        models[name] = tuple(weight + step * fact for weight, fact in pairs)
        return known._replace(models=_newest(models))

    def _assign(self, state: State, request: Request) -> Assignment:
        name, wanted = self._name(request.client, request.device), []
        for cost, saved in zip(COSTS, state, strict=True):
            goal, known = getattr(self, cost), Slopes(*saved)
            if goal is None or not known.seen:
                continue
            slope = predict(known, name, facts(request.device, cost))
            most = (goal - getattr(self, f"base_{cost}")) / slope + self.base_samples
            wanted.append(math.floor(min(most, self.most)))
        if not wanted:
            return Assignment()
        return Assignment(samples=max(self.least, min(wanted)))

    def _name(self, client: str, device: Device | None) -> str:
        if self.each == "client" or device is None or not device.model:
            return f"{_ONE}{client}"
        return f"model {device.model}"


def facts(device: Device | None, cost: str = "seconds") -> VectorF:
    """Returns f, of about 1 each; 1 stands for what is not known."""
    device = device or Device()
    cores, mhz = device.cores, device.mhz
    known = [
        1.0 if device.memory is None else device.memory / (8 * _GIB),
        1.0 if device.free is None else device.free / (4 * _GIB),
        1.0 if device.celsius is None else device.celsius / 40,
        1.0 if cores is None or mhz is None else cores * mhz / 16_000,
        1.0,
    ]
    if cost == "joules":
        watts = device.core_watts
        known.append(1.0 if watts is None else watts / 10)
    return tuple(min(fact, _LARGEST_FACT) for fact in known)


def predict(known: Slopes, name: str, facts_F: VectorF) -> float:
    """Returns the slope of a device: that of its model, else of least squares.

    It is never below all that were seen: few tasks say little of many facts, and what
    they say of other facts may be a slope of nothing.
    """
    slope = max(known.least, _dot(known.weights(name), facts_F))
    return slope if name.startswith(_ONE) else known.clamp(slope)


def solve(known: Slopes) -> VectorF:
    """Returns the w of least squares, by elimination, equal on every processor."""
    count = len(known.product_F)
    size = range(count)
    rows = [
        [*known.square_FF[count * i : count * (i + 1)], known.product_F[i]]
        for i in size
    ]
    ridge = _RIDGE * max(1.0, sum(rows[i][i] for i in size) / count)
    for i in size:
        rows[i][i] += ridge
    for i in size:  # it is positive definite, so no pivots are needed
        for j in range(i + 1, count):
            factor = rows[j][i] / rows[i][i]
            rows[j] = [a - factor * b for a, b in zip(rows[j], rows[i], strict=True)]
    weights_F = [0.0] * count
    for i in reversed(size):
        rest = sum(rows[i][j] * weights_F[j] for j in range(i + 1, count))
        weights_F[i] = (rows[i][-1] - rest) / rows[i][i]
    return tuple(weights_F)


def _note(known: Slopes, client: str, slope: float) -> Slopes:
    """Returns what is known after a client's slope, but for what it teaches.

    Sums that an absurd slope came into first begin anew.
    """
    last = dict(known.last)
    last.pop(client, None)
    last = _newest(last | {client: slope})
    known = known._replace(
        last=last, median=sorted(last.values())[(len(last) - 1) // 2]
    )
    if known.seen and any(map(known.is_absurd, (known.least, known.largest))):
        return Slopes(models=known.models, last=last, median=known.median)
    return known


def _add_task(known: Slopes, facts_F: VectorF, slope: float) -> Slopes:
    """Returns what is known with one more task in the sums of least squares."""
    square_FF = tuple(a * b for a in facts_F for b in facts_F)
    product_F = tuple(slope * a for a in facts_F)
    if known.seen:
        square_FF = tuple(map(add, known.square_FF, square_FF))
        product_F = tuple(map(add, known.product_F, product_F))
    return known._replace(
        seen=known.seen + 1,
        least=min(known.least, slope),
        largest=max(known.largest, slope),
        square_FF=square_FF,
        product_F=product_F,
    )


def _newest(entries: dict[str, Entry]) -> dict[str, Entry]:
    """Returns the newest entries, without the oldest one if they are too many."""
    if len(entries) > _NEWEST:
        del entries[next(iter(entries))]
    return entries


def _dot(a_F: Sequence[float], b_F: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(a_F, b_F, strict=True))
