"""Warns of a run that diverges: its loss exceeds that of a guess, or its first loss.

Two losses are checked: that of evaluators, and the training loss of updates. A model
that guesses among C classes has a cross entropy of ln C. A loss counts as a cross
entropy if it begins near ln C, as that of a fresh model does. A single loss that is too
high is no divergence: a run may overshoot in its first versions and recover.
"""

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

from fedcore.coordinator.events import Decided, Enrolled, Evaluated
from fedcore.merging import PARAMETER
from fedcore.params import ParamSpec
from fedcore.protocol import Verdict

LOSS = "loss"
FAR = 3.0  # a loss above this many times the first one diverges
NOISE = 1.2  # times the first one, which may itself be above ln C
NEAR = 2.0  # the first loss is ln C up to this factor, if it is a cross entropy
UPDATES = 20  # their median is judged: losses of few samples are noisy
ADVICE = "try a lower rate (algorithm.client.lr), or fewer local steps"


@dataclass(slots=True)
class _Losses:
    """One kind of loss, and the sentence that is due."""

    what: str
    first: float | None = None
    is_high: bool = False  # as the last one was
    said: str = ""

    def judge(self, loss: float, version: int, classes: int) -> None:
        """Compares a loss with the first one, and notes the second high one in a row.

        A loss that is not a number is noted at once.
        """
        if self.first is None:
            self.first = loss if math.isfinite(loss) else None
        if self.first is None or self.said:
            return
        guess = math.log(classes) if classes > 1 else math.inf
        is_entropy = guess / NEAR <= self.first <= guess * NEAR
        shown = f"the {self.what} {loss:.4g} at version {version:,}"
        said = ""
        if not math.isfinite(loss):
            self.said = f"{shown} is not a number: {ADVICE}"
        elif is_entropy and loss > max(guess, NOISE * self.first):
            said = (
                f"{shown} is above ln {classes} = {guess:.2f}, the loss of a model "
                f"that guesses: {ADVICE}"
            )
        elif self.first > 0 and loss > FAR * self.first:
            times = loss / self.first
            said = (
                f"{shown} is {times:.1f} times the first one "
                f"({self.first:.4g}): {ADVICE}"
            )
        if said and self.is_high:
            self.said = said
        self.is_high = bool(said)


@dataclass(slots=True)
class Divergence:
    """The warnings about losses; ``observe`` takes each record in the journal's order.

    Args:
        classes: the number of the model's classes; 0 if it is unknown.
    """

    classes: int
    evaluators: set[str] = field(default_factory=set)
    _tested: _Losses = field(default_factory=lambda: _Losses("loss"))
    _trained: _Losses = field(default_factory=lambda: _Losses("training loss"))
    _recent: deque[float] = field(default_factory=lambda: deque(maxlen=UPDATES))
    _since: int = 0  # updates since their median was judged
    _said: list[str] = field(default_factory=list)
    _told: int = 0  # how many of them `news` has returned

    def observe(self, record: object) -> None:
        """Takes note of a record."""
        if isinstance(record, Enrolled) and record.role == "evaluator":
            self.evaluators.add(record.cid)
        elif isinstance(record, Evaluated) and record.cid in self.evaluators:
            self.observe_evaluation(record.values, record.version)
        elif isinstance(record, Decided) and record.verdict is Verdict.ACCEPTED:
            self._update(record)

    def observe_evaluation(self, values: Mapping[str, float], version: int) -> None:
        """Takes note of an evaluation by an evaluator."""
        if LOSS in values:
            self._judge(self._tested, values[LOSS], version)

    def _update(self, record: Decided) -> None:
        if record.loss is None:
            return
        self._recent.append(record.loss)
        self._since += 1
        if self._since >= UPDATES:
            self._since = 0
            self._judge(self._trained, median(self._recent), record.base)

    def _judge(self, losses: _Losses, loss: float, version: int) -> None:
        if not losses.said:
            losses.judge(loss, version, self.classes)
            self._said += [losses.said] * bool(losses.said)

    def news(self) -> list[str]:
        """Returns the warnings that this method has not returned before."""
        news = self.warnings[self._told :]
        self._told += len(news)
        return news

    @property
    def warnings(self) -> list[str]:
        """A sentence for each kind of loss, written when it was too high first."""
        return list(self._said)


def classes_of(spec: ParamSpec) -> int:
    """Returns a model's number of classes, from its last bias; 0 if it is unknown."""
    parameters = [each for each in spec.tensors if each.merge == PARAMETER]
    if spec.local or not parameters:  # the last layer may be the clients' own
        return 0
    last = parameters[-1]
    return last.shape[0] if len(last.shape) == 1 and last.shape[0] > 1 else 0
