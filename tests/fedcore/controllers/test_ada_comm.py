"""AdaComm: τ ← ⌈√(F/F_0) τ_0⌉, and γτ where that is no less."""

from typing import Any

import pytest
from pydantic import ValidationError

from fedcore.clients import LocalSGD
from fedcore.controllers import AdaComm, Request, ServerController, TaskReport
from fedcore.lr_schedules import Linear
from fedcore.recipes import FedAvg
from fedcore.typing import State

START = 32


def half(client: LocalSGD | None = None, **settings: object) -> ServerController:
    """The half at the server."""
    config = AdaComm.model_validate({"period": 10.0, "smooth": 1} | settings)
    client = client or LocalSGD(steps=START)
    rule = config.build_server(FedAvg(client=client, controllers=(config,)))
    assert rule is not None
    return rule


def taus(rule: ServerController, *losses: float | None, every: float = 10.0) -> Any:
    """τ after each loss, of one version each; the first one is at time 0."""
    state: State = rule.init()
    found = []
    for version, loss in enumerate(losses):
        report = TaskReport(every * version, "ann", version, 1, loss)
        state = rule.observe(state, report)
        found.append(START * rule.assign(state, Request("bob")).work)
    return found


def test_a_quarter_of_the_loss_halves_the_steps() -> None:
    assert taus(half(), 4.0, 1.0) == [32, 16]


def test_the_steps_are_rounded_up() -> None:
    assert taus(half(), 1.0, 0.5) == [32, 23]  # √.5 · 32 = 22.63


def test_a_loss_that_does_not_fall_halves_the_steps_all_the_same() -> None:
    assert taus(half(), 1.0, 1.0, 1.0, 2.0) == [32, 16, 8, 4]
    assert taus(half(decay=0.25), 1.0, 1.0) == [32, 8]


def test_there_is_always_a_step_and_never_more_than_before() -> None:
    found = taus(half(), *[1.0] * 9, 100.0)
    assert found == sorted(found, reverse=True)
    assert found[-1] == 1


def test_nothing_changes_within_an_interval() -> None:
    found = taus(half(), 4.0, 3.0, 2.0, 1.0, 1.0, every=2.5)
    assert found == [32, 32, 32, 32, 16]


def test_the_loss_is_smoothed_over_versions() -> None:
    # F = (1 + 1 + 4) / 3 = 2 and F_0 = 8: one half.
    assert taus(half(smooth=3), 8.0, 1.0, 1.0, 4.0, every=3.4)[-1] == 16


def test_reports_of_one_version_count_as_their_mean() -> None:
    rule = half()
    state = rule.init()
    for at, version, loss in [(0, 0, 6.0), (1, 0, 2.0), (11, 1, 1.0)]:
        state = rule.observe(state, TaskReport(at, "ann", version, 1, loss))
    assert START * rule.assign(state, Request("bob")).work == 16


def test_a_lower_learning_rate_allows_more_steps() -> None:
    schedule = Linear(until=1, to=0.25)
    client = LocalSGD(steps=START, schedule=schedule)
    assert taus(half(client), 16.0, 1.0) == [32, 16]  # √(1/16 · 4) = 1/2


def test_missing_losses_change_nothing() -> None:
    assert taus(half(), None, 4.0, None, 1.0, every=5.0) == [32, 32, 32, 16]


def test_where_epochs_are_counted_a_share_of_their_steps_is_given() -> None:
    rule = half(LocalSGD(epochs=2))
    found = taus(rule, 4.0, 1.0)
    assert [share / START for share in found] == [1.0, 0.5]


def test_one_step_cannot_become_fewer() -> None:
    with pytest.raises(ValidationError, match=r"client\.steps is 1"):
        FedAvg(client=LocalSGD(steps=1), controllers=(AdaComm(),))


def test_absurd_losses_stop_nobody() -> None:
    """A loss is a claim of the peer, and may be any finite number."""
    for losses in ([1e-300, 1e300], [5e-324, 1e30], [1e308] * 3, [1.0, 1e308, 1e308]):
        for smooth in (1, 3):
            rule, found = half(smooth=smooth), []
            state: State = rule.init()
            for version, loss in enumerate([*losses, 1.0, 1.0]):
                for cid in ("ann", "bob"):
                    told = TaskReport(10.0 * version, cid, version, 1, loss)
                    state = rule.observe(state, told)
                found.append(rule.assign(state, Request("bob")).work)
            assert all(0 < work <= 1 for work in found)
    assert taus(half(), 1.0, 1e308, 0.25) == [32, 32, 16]  # as if it were not told
