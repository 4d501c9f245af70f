"""The same Flower app by Flower's simulation and by ours."""

from pathlib import Path

import pytest

from benchmarks.flower import simulated
from benchmarks.flower.processes import APPS
from fedflower.app import FlowerFolder
from fedview.results import Results
from tests.flower import import_flwr

SAID = """INFO: Global evaluation
INFO:   └──> MetricRecord: {'loss': 2.1, 'accuracy': 0.5}
INFO: aggregate_evaluate: Received 5 results and 0 failures
INFO:   └──> Aggregated MetricRecord: {'eval_loss': 2.0, 'accuracy': 0.25}
INFO: Global evaluation
INFO:   └──> MetricRecord: {'loss': 1.1, 'accuracy': 0.75}
"""
HISTORY = """INFO:   History (metrics, distributed, evaluate):
INFO:   {'accuracy': [(1, 0.5),
INFO:                 (2, 0.625)]}
"""
NAMES = sorted(simulated.APPS)


def test_rounds_are_read_from_what_flower_prints() -> None:
    assert simulated.rounds_of(SAID, "accuracy", is_central=True) == [0.5, 0.75]
    assert simulated.rounds_of(SAID, "accuracy", is_central=False) == [0.25]
    assert simulated.rounds_of(HISTORY, "accuracy", is_central=False) == [0.5, 0.625]


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_an_app_of_flower(name: str) -> None:
    folder = FlowerFolder.read(APPS / name)
    assert folder.name == name
    assert folder.nodes == simulated.NODES


@pytest.mark.timeout(400)
@pytest.mark.needs("flwr", "torch")
@pytest.mark.parametrize("name", NAMES)
def test_an_example_learns(name: str, tmp_path: Path) -> None:
    import latecomer

    import_flwr()
    results: Results = latecomer.run(
        {
            "app": f"flower:{APPS / name}",
            "algorithm": {"kind": "fed_avg", "buffer": 4},
            "evaluate": {"every_versions": 1, "clients": True},
            "stop": {"versions": 4},
            "simulate": {"clients": 4},
            "server": {"journal": str(tmp_path / "run")},
        }
    )
    metric = "eval_acc" if name == "quickstart-torch" else "accuracy"
    accuracies = results.federated[metric]
    assert accuracies[0] < 0.3
    assert accuracies[-1] > 0.7


@pytest.mark.heavy
@pytest.mark.processes
@pytest.mark.timeout(900)
@pytest.mark.needs("flwr", "ray", "torch")
@pytest.mark.parametrize("name", NAMES)
def test_both_simulations_learn_the_same(name: str, tmp_path: Path) -> None:
    found = simulated.both(name, 1, tmp_path)
    assert found["rounds"] == 10
    assert found["apart"]["most"] < 0.01
