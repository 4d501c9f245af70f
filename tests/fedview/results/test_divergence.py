"""A loss that rises is told once, with what it is compared with."""

import math
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import latecomer
from fedcore.params import ParamSpec
from fedview.report.summary import summary_table
from fedview.report.write import write_report
from fedview.results import Results
from fedview.results.divergence import Divergence, classes_of
from tests.fedsim.toys import linear, settings, toy
from tests.fedview.report.story import Story


def said(*losses: float, classes: int = 10) -> list[str]:
    """What is told of losses of versions 0, 1, ..."""
    divergence = Divergence(classes)
    for version, loss in enumerate(losses):
        divergence.observe_evaluation({"loss": loss}, version)
    assert divergence.news() == divergence.warnings
    assert divergence.news() == []
    return divergence.warnings


def test_a_cross_entropy_above_that_of_a_guess_is_told_once() -> None:
    (told,) = said(2.35, 2.1, 9.1, 12.0)
    assert told == (
        "the loss 12 at version 3 is above ln 10 = 2.30, the loss of a model that "
        "guesses: try a lower rate (algorithm.client.lr), or fewer local steps"
    )


@pytest.mark.parametrize(
    "losses",
    [
        (2.4, 2.5, 2.45, 2.0),  # a fresh model knows less than nothing
        (2.3, 1.2, 1.5, 0.9),
        (2.3, 3.9, 1.5, 3.5, 0.9),  # overshoots, and recovers
        (40.0, 30.0, 20.0),  # no cross entropy
        (0.0, 5.0),
    ],
)
def test_a_loss_that_is_fine_is_not_told(losses: tuple[float, ...]) -> None:
    assert said(*losses) == []


def test_any_loss_far_above_its_first_value_is_told() -> None:
    (told,) = said(40.0, 30.0, 130.0, 160.0, 20.0)
    assert told.startswith("the loss 160 at version 3 is 4.0 times the first one")
    (told,) = said(0.5, math.nan)
    assert told.startswith("the loss nan at version 1 is not a number")


def test_classes_are_those_of_the_last_bias() -> None:
    spec = ParamSpec.of({"w": np.zeros((4, 3)), "b": np.zeros(3)})
    assert classes_of(spec) == 3
    assert classes_of(ParamSpec.of({"w": np.zeros((4, 3))})) == 0


def test_training_losses_are_judged_by_the_median_of_many(tmp_path: Path) -> None:
    story = Story()
    story.enrol("ann")
    for number in range(80):
        loss = 90.0 if number % 3 == 0 or number > 50 else 1.0
        story.decide("ann", float(number), number, loss=loss)
    (told,) = Results(story.write(tmp_path / "run")).diverged
    assert told.startswith("the training loss 90 at version ")


@pytest.mark.parametrize("kind", ["exact", "stacked"])
def test_a_run_that_diverges_says_so_everywhere(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    workload: Any = toy()
    if kind == "stacked":
        workload = linear()
    engine = {"engine": {"kind": kind}}
    config = settings(
        algorithm={"client": {"kind": "local_sgd", "lr": 0.6, "steps": 9}},
        simulate=engine,
        stop={"versions": 3},
        evaluate={"every_versions": 1},
    )
    results = latecomer.run(config, workload, folder=tmp_path / "run")
    (told,) = [text for text in caplog.messages if "times the first one" in text]
    assert told.startswith("the loss ")
    assert results.diverged == [told]
    assert results.summary["warnings"][0] == told
    console = Console(width=400, record=True, file=StringIO())
    console.print(summary_table(results))
    assert told in console.export_text()
    assert told[1:].partition(":")[0] in write_report(results.folder).read_text()


def test_a_run_that_learns_says_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    results = latecomer.run(settings(), toy(), folder=tmp_path / "run")
    assert results.diverged == []
    assert not [text for text in caplog.messages if "lower rate" in text]
