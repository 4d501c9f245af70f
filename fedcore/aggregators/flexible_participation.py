"""Flexible participation: how much a client counts that did a part of its work.

Ruan, Zhang, Liang, Joe-Wong, "Towards Flexible Device Participation in Federated
Learning", AISTATS 2021, arXiv 2006.06954, §3.2. A client took s of E local steps. Its
update counts with the coefficient

- A: 1 if s = E, otherwise 0, and the mean is over those that count;
- B: 1, whatever s is;
- C: E/s, so that clients that are always slow weigh as much as others.

E is what the client algorithm asks of a client with as many samples. C is bounded by
``cap``, since an update of one step of many is mostly noise. The client multiplies its
update by the coefficient before the compression: what a message leaves out, and what
was rejected, comes again with the coefficient of its own task. It then counts by the
samples of the version that it comes in; where those of whole tasks are few, as they may
be with A, that is for more than in its own.

A client that arrives late shifts the objective. In the paper it counts for about three
times as much at first, and t rounds later for less as 1/t². Here a client's k-th update
counts for 1 + ``boost``/k² times its samples, in a mean that stays one: clients that
come together count alike. This is a weight of the arrival, as λ is, and no coefficient
of the task: it says how much the server listens to the client now, whatever its message
brings. The server counts accepted updates by name, so there is nothing to claim, and a
name is new once. Only as many names are new as there are clients that have joined and
not left. So whoever leaves, or is evicted, and enrols under another name gains nothing
once all others were heard of; before, it uses up the places of those that are silent.
One that enrols without leaving may gain 1 + ``boost`` times its weight, as it would by
coming as so many clients. And where clients have left, as many that come later are not
boosted.

The paper also restarts the learning rate, which brings nothing here that a rate which
falls later does not (claim 34, docs/papers.md). A departed client leaves the objective
at once; aggregator ``mifa`` keeps it there.

Neither the paper beyond its abstract nor code of its authors was within reach: the
coefficients are quoted from memory of it.
"""

from typing import Literal, NamedTuple

import numpy as np
from pydantic import Field

from fedcore import payloads
from fedcore.aggregators.base import Aggregator, AggregatorConfig, Contribution, Work
from fedcore.config import Roles
from fedcore.typing import Vector


class Counted(NamedTuple):
    """The sums of a version so far, and the clients that were heard of."""

    sum_D: Vector
    """Σ λ·m·q, where q holds each Δ times its coefficient, and m is n with a boost."""
    left_out: float
    """Σ n of all tasks, less Σ m of those that count."""
    heard: dict[str, int]
    """How many updates of each client have counted, by name; empty without a boost."""


class FlexibleParticipation(AggregatorConfig):
    """The weighted mean, with a coefficient for the share of the work."""

    kind: Literal["flexible_participation"] = "flexible_participation"
    scheme: Literal["A", "B", "C"] = "C"
    """A: whole work alone counts; B: all updates count alike; C: less work counts for
    more."""
    cap: float = Field(default=5.0, ge=1)
    """The largest coefficient of C."""
    boost: float = Field(default=0.0, ge=0, le=10)
    """How many times more the first update of a client counts; its k-th one, boost/k²
    times. Only as many clients are boosted as are there."""

    def fits(self, roles: Roles) -> None:
        """Refuses tasks whose share of the recipe's work says something else.

        Raises:
            ValueError: there may be such tasks.
        """
        if self.scheme == "B":
            return
        client, begin = roles.client, "aggregator: flexible_participation"
        for controller in roles.controllers:
            if controller.is_at_server:
                raise ValueError(
                    f"{begin} weighs a task by the share of the recipe's steps, and "
                    f"controller {controller.kind} asks for others; leave it out, or "
                    "take scheme B"
                )
        if client.may_choose:
            raise ValueError(
                f"{begin} must know the steps of a whole task; leave client.may_choose "
                "out, and use overrides, or take scheme B"
            )
        if client.mixes_tasks:
            raise ValueError(
                f"{begin} weighs one task, and an update of {client.kind} with these "
                "settings holds those of earlier ones; take local_sgd with "
                "keep_momentum: false, or scheme B"
            )

    def coefficient(self, work: Work) -> float:
        """Returns that of the scheme."""
        match self.scheme:
            case "A":
                return float(work.share >= 1)
            case "B":
                return 1.0
            case "C":
                return min(1 / work.share, self.cap)

    def build(self) -> Aggregator:
        """Returns the aggregator."""
        carry = _keep_heard if self.boost else None
        return Aggregator(_begin, self._accumulate, _finalize, carry=carry)

    def _accumulate(self, counted: Counted, update: Contribution) -> Counted:
        counts = self.scheme != "A" or update.work >= 1
        samples = update.samples
        if counts and self.boost:
            heard, name = counted.heard, update.member
            heard[name] = heard.get(name, 0) + 1
            if len(heard) <= update.clients:
                samples *= 1 + self.boost / heard[name] ** 2
        payloads.add(update.payload, counted.sum_D, update.weight * samples)
        less = update.samples - (samples if counts else 0.0)
        return counted._replace(left_out=counted.left_out + less)


def _begin(dim: int) -> Counted:
    return Counted(np.zeros(dim, np.float32), 0.0, {})


def _keep_heard(counted: Counted) -> Counted:
    return _begin(len(counted.sum_D))._replace(heard=counted.heard)


def _finalize(counted: Counted, samples: float) -> Vector:
    # If nobody did the whole work, there are only parts of earlier tasks.
    return counted.sum_D / np.float32(samples - counted.left_out or samples)
