"""Clients with workers inside: how long their steps take, and that nothing else is."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import latecomer
from fedcore.coding import coded_gradient_seconds, uncoded_seconds, usual_kind
from fedcore.errors import ConfigError
from fedrun.config import SimulateConfig, parse_config
from fedsim.population.population import Population
from tests.fedsim import toys


def population(**silo: Any) -> Population:
    config = SimulateConfig.model_validate(
        {"clients": 3, "step_seconds": 2.0, "silo": silo}
    )
    return Population(config, 0)


def mean_step(made: Population, steps: int = 20_000) -> float:
    return made.compute(1, 1, steps) / steps / 2.0


@pytest.mark.parametrize(("workers", "stragglers"), [(5, 1), (6, 2), (4, 3)])
@pytest.mark.parametrize("delay", [0.5, 2.0])
def test_steps_take_as_long_as_the_formula_of_gradient_coding(
    workers: int, stragglers: int, delay: float
) -> None:
    made = population(workers=workers, stragglers=stragglers, delay=delay)
    kind = usual_kind(workers, stragglers)
    expected = coded_gradient_seconds(workers, stragglers, kind, 1 / delay)
    assert mean_step(made) == pytest.approx(expected, rel=0.03)


def test_without_stragglers_all_workers_are_waited_for() -> None:
    made = population(workers=10)
    assert mean_step(made) == pytest.approx(uncoded_seconds(10, 1.0), rel=0.03)


def test_workers_that_are_never_late_divide_the_time() -> None:
    made = population(workers=4, delay=0.0)
    assert made.compute(0, 1, 10) == pytest.approx(10 * 2.0 / 4)


def test_a_part_of_a_step_takes_that_part_of_its_time() -> None:
    made = population(workers=3, stragglers=1)
    two, three = made.compute(0, 5, 2), made.compute(0, 5, 3)
    assert made.compute(0, 5, 2.25) == pytest.approx(two + 0.25 * (three - two))


def test_each_client_and_task_has_delays_of_its_own_that_the_seed_gives() -> None:
    made, again = population(workers=3), population(workers=3)
    times = {made.compute(who, task, 4) for who in range(3) for task in range(1, 4)}
    assert len(times) == 9
    assert made.compute(2, 3, 4) == again.compute(2, 3, 4)


@pytest.mark.parametrize("engine", ["exact", "stacked"])
def test_a_coded_silo_learns_the_same_in_less_time(tmp_path: Path, engine: str) -> None:
    models, seconds = {}, {}
    silos: dict[str, Any] = {
        "alone": None,
        "uncoded": {"workers": 8, "delay": 4.0},
        "coded": {"workers": 8, "stragglers": 3, "delay": 4.0},
    }
    for name, silo in silos.items():
        simulate = {
            "clients": 2,
            "step_seconds": 10.0,
            "silo": silo,
            "engine": {"kind": engine},
        }
        config = toys.settings(
            algorithm={
                "kind": "fed_avg",
                "client": {"kind": "local_sgd", "batch": 8},
            },
            stop={"versions": 6},
            simulate=simulate,
        )
        run = latecomer.run(config, toys.toy(), folder=tmp_path / name)
        models[name] = [tensor.copy() for tensor in run.model("last").values()]
        seconds[name] = float(run.central["seconds"][-1])
    for name in ("uncoded", "coded"):
        for found, alone in zip(models[name], models["alone"], strict=True):
            np.testing.assert_array_equal(found, alone)
    assert seconds["coded"] < 0.9 * seconds["uncoded"]


@pytest.mark.parametrize(
    ("silo", "words"),
    [
        ({"workers": 3, "stragglers": 3}, "3 stragglers among 3 workers: expected 0"),
        ({"workers": 0}, "simulate.silo.workers"),
        ({"workers": 3, "straglers": 1}, "straglers"),
    ],
)
def test_a_wrong_silo_is_one_sentence(silo: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_config({"simulate": {"silo": silo}})
