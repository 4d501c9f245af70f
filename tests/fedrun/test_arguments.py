"""Wrong arguments of the functions for scripts are refused in one sentence."""

from pathlib import Path
from typing import Any

import pytest

import latecomer
from fedcore.errors import ConfigError
from tests.integration.typed import typed


@pytest.mark.parametrize(
    "wrong",
    [
        {"config": 3},
        {"config": None},
        {"prices": 3},
        {"prices": None},
        {"deadline": [1]},
        {"budget": "5"},
        {"workers": "4"},
        {"local_steps": 5},
        {"local_steps": [None]},
        {"pilots": 3},
        {"pilots": "a_run"},
        {"pilots": [3]},
        {"changes": ["server.seed=1"]},
        {"app": 3},
        {"out": 3},
        {"jobs": "2"},
    ],
)
def test_plan_names_a_wrong_argument(wrong: dict[str, Any]) -> None:
    given: dict[str, Any] = {
        "config": "none.yaml",
        "prices": "aws_v100_2023",
        "target": {"accuracy": 0.9},
        "deadline": "1h",
    }
    with pytest.raises(ConfigError, match=rf"^{next(iter(wrong))}: expected "):
        latecomer.plan(**{**given, **wrong})


@pytest.mark.parametrize(
    "wrong",
    [
        {"workers": 3},
        {"device": 3},
        {"link": 3},
        {"link": {"up": 1}},
        {"runs": [3]},
        {"changes": 3},
        {"app": 3},
        {"out": 3},
    ],
)
def test_scale_names_a_wrong_argument(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=rf"^{next(iter(wrong))}: expected "):
        latecomer.scale("none.yaml", **wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"workers": 3},
        {"client": 3},
        {"buffer": "4"},
        {"synchronous": "yes"},
        {"server_up_mbit": "x"},
        {"server_down_mbit": [1]},
        {"server_ms": "x"},
        {"seed": -1},
        {"out": 3},
    ],
)
def test_predict_names_a_wrong_argument(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=rf"^{next(iter(wrong))}: expected "):
        latecomer.predict("none.jsonl", **wrong)


def test_a_buffer_of_no_update_is_refused(tmp_path: Path) -> None:
    (tmp_path / "phases.jsonl").write_text("")
    with pytest.raises(ConfigError, match="buffer: expected 1 or more, got 0"):
        latecomer.predict(tmp_path / "phases.jsonl", buffer=0)


@pytest.mark.parametrize("text", ["0", "x", "1000000", "9" * 5000])
@pytest.mark.parametrize(
    ("study", "expected"),
    [
        ("scale", "whole numbers from 1 to 999,999, such as 1,2,4,8"),
        ("predict", "numbers of clients from 1 to 10,000, such as 2,4,8"),
    ],
)
def test_numbers_of_workers_that_nobody_has_are_refused(
    text: str, study: str, expected: str
) -> None:
    done = typed("fedsim", study, "none", "--workers", text)
    (sentence,) = done.errors
    assert sentence.endswith(f": expected {expected}")
