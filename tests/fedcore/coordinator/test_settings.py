"""When a run ends, and which way a metric points."""

import pytest
from pydantic import ValidationError

from fedcore.coordinator.rounds import end_of, why_ended
from fedcore.coordinator.settings import (
    EvaluateConfig,
    StopConfig,
    TimeoutsConfig,
    find_unreported,
    lower_is_better,
    reaches,
)


def test_the_server_is_as_patient_as_the_docs_say() -> None:
    assert TimeoutsConfig().model_dump() == {
        "hold": 20.0,
        "lease": 600.0,
        "heartbeat": 2.0,
        "lost": 5.0,
        "stall": 30.0,
        "drain": 10.0,
        "linger": 10.0,
    }
    assert EvaluateConfig().model_dump() == {
        "every_versions": 5,
        "clients": False,
        "evaluators": (),
        "device": None,
    }


@pytest.mark.parametrize(
    ("field", "good", "bad"), [("hold", 60.0, 60.1), ("linger", 0.0, -0.1)]
)
def test_patience_has_its_bounds(field: str, good: float, bad: float) -> None:
    assert getattr(TimeoutsConfig.model_validate({field: good}), field) == good
    with pytest.raises(ValidationError):
        TimeoutsConfig.model_validate({field: bad})


@pytest.mark.parametrize(
    ("settings", "versions", "updates", "now", "reason"),
    [
        ({}, 10**6, 10**6, 1e9, None),
        ({"versions": 5}, 4, 99, 99.0, None),
        ({"versions": 5}, 5, 0, 0.0, "5 versions"),
        ({"versions": 5}, 6, 0, 0.0, "5 versions"),
        ({"updates": 5}, 99, 4, 99.0, None),
        ({"updates": 5}, 0, 5, 0.0, "5 updates"),
        ({"updates": 5}, 0, 7, 0.0, "5 updates"),
        ({"seconds": 10}, 99, 99, 12.9, None),
        ({"seconds": 10}, 0, 0, 13.0, "10 seconds"),
        ({"seconds": 10}, 0, 0, 14.0, "10 seconds"),
        ({"versions": 5, "updates": 5, "seconds": 10}, 5, 5, 99.0, "5 versions"),
        ({"versions": 5, "updates": 5, "seconds": 10}, 4, 5, 99.0, "5 updates"),
    ],
)
def test_a_run_ends_at_the_first_of_its_limits(
    settings: dict[str, float],
    versions: int,
    updates: int,
    now: float,
    reason: str | None,
) -> None:
    stop = StopConfig.model_validate(settings)
    assert why_ended(stop, versions, updates, 3.0, now) == reason


def test_seconds_are_counted_from_the_start_of_the_run_and_not_before() -> None:
    assert end_of(StopConfig(seconds=10.0), None) is None
    assert end_of(StopConfig(seconds=10.0), 2.5) == 12.5
    assert end_of(StopConfig(), 2.5) is None
    assert why_ended(StopConfig(seconds=10.0), 0, 0, None, 1e9) is None


@pytest.mark.parametrize(
    "metric",
    ["loss", "val_loss", "Error rate", "Perplexity", "MSE", "test_rmse", "wer@10"],
)
def test_losses_errors_and_perplexities_should_fall(metric: str) -> None:
    assert lower_is_better(metric)


@pytest.mark.parametrize("metric", ["accuracy", "f1", "auc", "answered", "msework"])
def test_other_metrics_should_rise(metric: str) -> None:
    assert not lower_is_better(metric)


@pytest.mark.parametrize(
    ("target", "values", "is_reached"),
    [
        ({}, {"accuracy": 1.0}, False),  # without a target a run does not end by one
        ({"accuracy": 0.9}, {}, False),
        ({"accuracy": 0.9}, {"accuracy": 0.9}, True),
        ({"loss": 0.5}, {"loss": 0.5}, True),
        ({"loss": 0.5}, {"loss": 0.6}, False),
        ({"accuracy": 0.9, "loss": 0.5}, {"accuracy": 0.95, "loss": 0.4}, True),
        ({"accuracy": 0.9, "loss": 0.5}, {"accuracy": 0.85, "loss": 0.4}, False),
        ({"accuracy": 0.9, "loss": 0.5}, {"accuracy": 0.95}, False),
    ],
)
def test_a_target_is_reached_when_all_of_it_is(
    target: dict[str, float], values: dict[str, float], is_reached: bool
) -> None:
    assert reaches(target, values) is is_reached


@pytest.mark.parametrize(
    ("values", "others"),
    [
        ({}, "and for nothing else"),
        ({"loss": 0.5}, "but for loss"),
        ({"accuracy": float("nan"), "loss": 0.5}, "but for accuracy, loss"),
    ],
)
def test_a_target_for_which_no_number_is_reported_is_named(
    values: dict[str, float], others: str
) -> None:
    assert find_unreported({"accuracy": 0.9}, values) == [
        f"stop.target: the evaluator reports no number for accuracy, {others}"
    ]


def test_a_target_that_is_reported_needs_no_word() -> None:
    assert find_unreported({"loss": 0.1}, {"accuracy": 0.5, "loss": 0.5}) == []
