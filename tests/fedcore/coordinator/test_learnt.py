"""What roles are told of tasks, and what they keep when settings change."""

import math
from typing import Any

import pytest

from fedcore.algorithm import Algorithm
from fedcore.controllers import TaskReport
from fedcore.coordinator.state import Arrived, Decision, Learnt
from fedcore.protocol import Verdict
from fedcore.recipes import FedBuff
from fedcore.selection import Selection
from tests.fedcore.coordinator.desk import SPEC


def noting(reports: list[TaskReport]) -> Algorithm:
    """An algorithm whose selection notes the reports that it gets."""

    def observe(state: Any, report: TaskReport) -> Any:
        reports.append(report)
        return state

    algorithm = FedBuff(buffer=2).build(SPEC)
    selection = Selection(algorithm.selection.init, algorithm.selection.order, observe)
    return algorithm._replace(selection=selection)


def learn(learnt: Learnt, verdict: Verdict, loss: float | None) -> None:
    task = Arrived(None, 0, 5, None, 4, "ann", loss)
    learnt.learn(Decision(verdict, 1.0, 0), "ann", task, 2.0)


@pytest.mark.parametrize("loss", [None, math.nan, math.inf])
def test_a_loss_without_a_number_is_unknown(loss: float | None) -> None:
    reports: list[TaskReport] = []
    learn(Learnt(noting(reports)), Verdict.ACCEPTED, loss)
    assert [(each.loss, each.steps, each.samples) for each in reports] == [(None, 4, 5)]


def test_of_an_update_that_is_none_only_its_coming_is_told() -> None:
    reports: list[TaskReport] = []
    learn(Learnt(noting(reports)), Verdict.REJECTED_MALFORMED, 1.0)
    expected = TaskReport(at=2.0, client="ann", base=0, steps=0)
    assert reports == [expected]


def test_the_roles_of_newer_settings_are_told() -> None:
    old: list[TaskReport] = []
    new: list[TaskReport] = []
    learnt = Learnt(noting(old))
    learnt.amend(noting(new))
    learn(learnt, Verdict.ACCEPTED, 1.0)
    assert (len(old), len(new)) == (0, 1)
