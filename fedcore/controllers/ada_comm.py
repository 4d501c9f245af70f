"""AdaComm: fewer local steps as the loss falls.

Wang, Joshi, "Adaptive Communication Strategies to Achieve the Best Error-Runtime
Trade-off in Local-Update SGD", MLSys 2019, arXiv 1810.08313. In every interval of T0
seconds all clients take τ local steps. At its end

    τ ← ⌈√(η_0/η · F/F_0) τ_0⌉,  and if that is not smaller than τ was,  τ ← ⌈γ τ⌉,

with the training loss F now and F_0 at first. τ_0 is the client algorithm's ``steps``;
where it counts epochs, τ counts hundredths of their steps.

The rule with a learning rate η that decays is from the general literature; we could not
check it against the paper. The paper takes F from the training set; here it is what
clients report of their steps, averaged over the last ``smooth`` versions, since single
reports are noisy. F_0 is the average of the first version that reports were of.

γ is for noise, with which F hardly falls and many steps have a high floor. Where the
training data can be fitted, many steps have none, F falls with its noise, and γ soon
leads to one step: AdaComm then comes further down than one step all along, and less far
than 16 (``python -m benchmarks.claims 28``). A γ near 1 or a longer period is better
there.
"""

import math
from typing import Literal, NamedTuple

from pydantic import Field

from fedcore.config import Count, Duration, Roles
from fedcore.controllers._assignment import Assignment
from fedcore.controllers._server import Request, ServerController
from fedcore.controllers.base import ControllerConfig
from fedcore.measured import TaskReport
from fedcore.typing import Seconds, State

_HUNDREDTHS = 100
_LARGEST = 1e30  # a loss above it counts as unknown


class Losses(NamedTuple):
    """The losses that were reported of a version."""

    version: int
    total: float = 0.0
    reports: int = 0


class AdaCommState(NamedTuple):
    """The present interval, and the losses that were reported."""

    steps: int  # τ
    ends: Seconds | None = None  # the end of the interval; None: nothing was reported
    first: float | None = None  # F_0; None: not known yet
    losses: tuple[Losses, ...] = ()  # of the last versions, the newest last

    def mean(self) -> float:
        """Returns F, the mean over versions of the mean loss of each."""
        means = [total / reports for _, total, reports in self.losses]
        return sum(means) / len(means)


class AdaComm(ControllerConfig):
    """The same number of local steps for all clients, which falls with the loss."""

    kind: Literal["ada_comm"] = "ada_comm"
    period: Duration = 60.0
    """T0: seconds of an interval."""
    decay: float = Field(default=0.5, gt=0, lt=1)
    """γ: the steps are multiplied by this where the loss does not make them fewer."""
    smooth: Count = Field(default=3, le=100)
    """The number of versions that the loss is averaged over."""

    def fits(self, roles: Roles) -> None:
        """Checks that there are local steps to lower.

        Raises:
            ValueError: there is one step.
        """
        if roles.client.fixed_steps == 1:
            raise ValueError(
                "controllers: ada_comm lowers the number of local steps, and "
                "client.steps is 1; set it to the number that it begins with"
            )

    def build_server(self, roles: Roles) -> ServerController:
        """Returns the half at the server."""
        client = roles.client
        steps = client.fixed_steps or _HUNDREDTHS

        def observe(state: State, report: TaskReport) -> AdaCommState:
            known = AdaCommState(*state)
            if report.loss is None or not 0 <= report.loss <= _LARGEST:
                return known
            ends = known.ends
            if ends is None:
                ends = report.at + self.period
                known = known._replace(ends=ends)
            elif known.first is None and report.base > known.losses[-1][0]:
                known = known._replace(first=known.mean())
            known = self._note(known, report.base, report.loss)
            if known.first is None or report.at < ends:
                return known
            past = math.floor((report.at - ends) / self.period) + 1
            ratio = known.mean() / known.first if known.first else 1.0
            ratio *= client.rate(0) / client.rate(report.base)
            wanted = math.sqrt(ratio) * steps  # may be infinite
            fewer = math.ceil(min(wanted, known.steps))
            if fewer >= known.steps:
                fewer = math.ceil(self.decay * known.steps)
            ends += past * self.period
            return known._replace(steps=max(1, fewer), ends=ends)

        def assign(state: State, request: Request) -> Assignment:
            return Assignment(work=AdaCommState(*state).steps / steps)

        return ServerController(lambda: AdaCommState(steps), observe, assign)

    def _note(self, state: AdaCommState, version: int, loss: float) -> AdaCommState:
        """Returns the state with one more loss of a version."""
        known = {of.version: of for of in map(Losses._make, state.losses)}
        before = known.get(version, Losses(version))
        known[version] = Losses(version, before.total + loss, before.reports + 1)
        newest = sorted(known.values())[-self.smooth :]
        return state._replace(losses=tuple(newest))
