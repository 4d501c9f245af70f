"""A simulation says once that its versions have become smaller."""

from pathlib import Path
from typing import Any

import pytest

import latecomer
from fedcore.params import Tensors
from fedcore.workload import Client
from tests.fedsim import toys


def test_versions_of_the_client_that_is_left_are_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    calls = 0

    def gradient(params: Tensors, x: Any, y: Any) -> tuple[float, Tensors]:
        nonlocal calls
        calls += len(y) == 9
        if calls > 4 and len(y) == 9:
            raise ArithmeticError("it breaks down")
        return toys.gradient(params, x, y)

    def train_data(client: Client) -> tuple[Any, Any]:
        return toys.points(client.index + 1, 8 + client.index)

    results = latecomer.run(
        {
            "algorithm": {
                "kind": "fed_avg",
                "buffer": 2,
                "client": {"kind": "local_sgd", "steps": 1},
            },
            "stop": {"versions": 40},
            "simulate": {"clients": 2, "engine": {"kind": "exact"}},
        },
        toys.toy(gradient=gradient, train_data=train_data),
        folder=tmp_path / "run",
    )
    said = [line for line in caplog.messages if "algorithm.minimum" in line]
    assert len(said) == 1
    assert said[0].startswith("versions hold 1 update of the 2 that algorithm.buffer")
    assert any(said[0][1:] in each for each in results.summary["warnings"])
