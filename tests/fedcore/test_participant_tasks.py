"""What a client's next task begins with, and the rights that it has been given."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedcore.compressors import ErrorFeedback, Identity, TopK
from fedcore.participant import (
    Trained,
    encode,
    fold,
    may_use,
    start_ahead,
    start_of,
)
from fedcore.payloads import dense_payload
from fedcore.protocol import HISTORY, ModelName, Plan
from fedcore.recipes import OverlapLocalSgd
from fedcore.rng import Key
from tests.fedcore.test_participant_rules import (
    EPOCH,
    RAMP_D,
    ZEROS_D,
    client,
    trains,
)

KEPT = np.ones(3, np.float32)


# ------------------------------------------------------ where the steps of a task begin


def test_a_task_begins_at_the_public_model_or_at_the_clients_own_view() -> None:
    public_D, memory_D = np.full(4, 5.0), np.array([0.0, 1.0, 2.0, 3.0])
    plain = ErrorFeedback(inner=TopK(ratio=0.5))
    own = ErrorFeedback(inner=TopK(ratio=0.5), own_view=True)
    assert start_of(plain, public_D, memory_D) is public_D
    assert start_of(own, public_D, None) is public_D
    assert start_of(own, public_D, memory_D).tolist() == [5.0, 4.0, 3.0, 2.0]


@pytest.mark.parametrize("shape", [(4,), (3, 4)])
def test_without_a_memory_nothing_is_capped_in_any_row(shape: tuple[int, ...]) -> None:
    delta = np.ones(shape, np.float32)
    uplink = Identity().build((4,))
    key: Any = Key.root(0) if len(shape) == 1 else [Key.root(n) for n in range(3)]
    made = encode(uplink, delta, None, key)
    assert made.capped.shape == made.memory_norm.shape == shape[:-1]


def test_a_message_that_comes_back_is_added_to_the_memory() -> None:
    message = dense_payload(RAMP_D)
    assert np.array_equal(fold(ZEROS_D, None, message), RAMP_D)
    assert np.array_equal(fold(RAMP_D, None, message, -1), ZEROS_D)
    assert np.array_equal(fold(RAMP_D, RAMP_D, None), 2 * RAMP_D)


# ----------------------------------------------------------- steps that are taken ahead


def test_steps_ahead_begin_with_what_the_client_keeps_and_its_next_message() -> None:
    one = client(OverlapLocalSgd())
    algorithm, state = one.algorithm, one.state
    assert start_ahead(algorithm, state) is None  # it has no model of its own yet
    state = replace(state, kept=KEPT, seq=4)
    start = start_ahead(algorithm, state)
    assert start is not None
    assert start.kept is KEPT
    assert (start.seq, start.work, start.samples) == (5, 1.0, None)


@pytest.mark.parametrize(
    ("changes", "usable"),
    [
        ({}, True),
        ({"kept": KEPT.copy()}, False),
        ({"seq": 3}, False),
        ({"seq": 5}, False),
        ({"work": 0.5}, False),
        ({"work": 2.0}, False),
        ({"kept": None}, False),
    ],
)
def test_steps_ahead_are_used_if_nothing_has_changed_that_they_depend_on(
    changes: dict[str, Any], usable: bool
) -> None:
    one = client(OverlapLocalSgd())
    state = replace(one.state, kept=KEPT, seq=4)
    start = start_ahead(one.algorithm, state)
    assert start is not None
    assert may_use(one.algorithm, replace(state, **changes), start) is usable


def test_other_clients_take_no_steps_ahead() -> None:
    one = client()
    assert start_ahead(one.algorithm, replace(one.state, kept=KEPT)) is None


# ---------------------------------------------------------------------- pulls and tasks


def test_a_pull_tells_the_plan_and_no_other() -> None:
    plan = Plan(samples=3, counts=None)
    assert client().pull(1, plan=plan).plan is plan
    assert client().pull(1).plan is None


def test_an_update_without_a_task_has_no_proof() -> None:
    one = client()
    assert trains(one)
    assert one.push().task == 0


def test_a_client_keeps_its_newest_rights() -> None:
    one = client()
    for version in range(HISTORY + 3):
        held = one.state.held
        assert held is not None
        one.state = replace(one.state, held=held._replace(version=version))
        one._keep_task(version + 1, one.state.settled.seq)
    assert len(one._tasks) == HISTORY
    assert ModelName(EPOCH, 2) not in one._tasks
    assert one._tasks[ModelName(EPOCH, HISTORY + 2)] == HISTORY + 3


def test_nothing_is_skipped_used_or_downloaded_unless_that_is_told() -> None:
    trained = Trained(RAMP_D, samples=1)
    assert (trained.skipped, trained.used) == (0, 0)
    assert client().state.patch == 0
