"""Claim 35: how batches are drawn, and what a run is looked at for."""

import numpy as np
import pytest

from benchmarks.claims import large_batches
from benchmarks.claims.large_batches import DIGITS, DIVERGED, batches, train
from fedcore.rng import Key


@pytest.mark.parametrize("size", [*DIGITS.batches.values(), 5000])
def test_an_epoch_of_batches_has_every_image_once(size: int) -> None:
    steps, count = DIGITS.steps(1, size), DIGITS.count
    drawn = batches(Key.root(0), count, size)
    for _ in range(2):
        rows = np.concatenate([next(drawn) for _ in range(steps)])
        assert sorted(rows) == [*range(count)]


def test_small_batches_take_all_steps_for_their_epochs() -> None:
    run = train(DIGITS, 8, 0.3, 0, 1)
    assert run.epochs == run.steps
    assert run.steps.loss < 0.5


def test_a_run_that_diverges_is_a_guess() -> None:
    run = train(DIGITS, 8, 1000.0, 0, 1)
    assert run.epochs == run.steps == DIVERGED
    assert run.loss == DIGITS.steps(1)


def test_the_model_that_reached_the_loss_is_kept() -> None:
    run = train(DIGITS, 32, 1.0, 0, 1)
    assert run.loss < DIGITS.steps(1)
    assert large_batches.look_at(DIGITS, run.reached_D).loss <= DIGITS.loss
