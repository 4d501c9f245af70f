"""Torch trains as the perceptron in elementwise arithmetic does, but for rounding."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from fedtorch import TorchWorkload  # noqa: E402
from tests.golden import exact  # noqa: E402
from tests.golden.federations import FEDERATIONS  # noqa: E402
from tests.golden.runs import (  # noqa: E402
    ENGINES,
    OTHER_BITS,
    came_to,
    differences,
    saved,
)

SAVED = saved()


def model() -> nn.Module:
    module = nn.Sequential(nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))
    with torch.no_grad():
        for own, weights in zip(
            module.parameters(), exact.initial().values(), strict=True
        ):
            own.copy_(torch.tensor(weights.T))
    return module


def metrics(output: Any, target: Any) -> dict[str, float]:
    return {"place": exact.place(output.numpy())}


WORKLOAD = TorchWorkload(
    model=model,
    loss=nn.CrossEntropyLoss(),
    metrics=metrics,
    train_data=exact.train_data,
    test_data=exact.test_data,
)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["cohorts", "buffer", "adam", "fed_dyn", "scaffold"])
def test_torch_comes_to_what_exact_arithmetic_comes_to(name: str, engine: str) -> None:
    told = differences(SAVED[name], came_to(FEDERATIONS[name], engine, WORKLOAD))
    assert told in ([], [OTHER_BITS])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("setting", "value"), [("lr", 0.0202), ("momentum", 0.899)])
def test_torch_with_another_rule_comes_to_something_else(
    setting: str, value: float, engine: str
) -> None:
    federation = FEDERATIONS["cohorts"]
    client = {**federation["algorithm"]["client"], setting: value}
    wrong = {**federation, "algorithm": {**federation["algorithm"], "client": client}}
    told = differences(SAVED["cohorts"], came_to(wrong, engine, WORKLOAD))
    assert told not in ([], [OTHER_BITS])
