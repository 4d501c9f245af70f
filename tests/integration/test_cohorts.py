"""FedAvg with failures is the plain loop over the clients that are left."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import latecomer
from fedview.results import Results
from tests.integration.failing_app import (
    DIM,
    FAILS,
    gradient,
    points,
    train_data,
    workload,
)
from tools.local import LocalFederation

RATE = 0.05
ALGORITHM = {
    "kind": "fed_avg",
    "client": {"kind": "local_sgd", "lr": RATE, "steps": 1, "batch": 1000},
}


def rounds_of(results: Results) -> list[list[int]]:
    """The indices of the clients whose updates made each version."""
    rounds: list[list[int]] = [[] for _ in range(results.summary["versions"])]
    columns = (results.updates[name] for name in ("client", "base", "verdict"))
    for name, base, verdict in zip(*columns, strict=True):
        if verdict == "accepted":
            rounds[base].append(int(name.removeprefix("client-")))
    return rounds


def plain_loop(rounds: list[list[int]]) -> Any:
    """McMahan et al., Algorithm 1, over these clients: w = Σ n_i w_i / Σ n_i."""
    w: Any = np.zeros(DIM)
    for clients in rounds:
        data = [points(client) for client in clients]
        slopes: list[Any] = [
            np.asarray(gradient({"w": w}, x, y)[1]["w"]) for x, y in data
        ]
        ends = [w - RATE * slope for slope in slopes]
        w = np.average(ends, axis=0, weights=[len(y) for _, y in data])
    return w


def require_loop(results: Results) -> list[list[int]]:
    """Checks that the last model is that of the loop, and returns the rounds."""
    rounds = rounds_of(results)
    assert all(len({*clients}) == len(clients) > 0 for clients in rounds)
    assert not any(FAILS in clients for clients in rounds)
    [w] = results.model("last").values()
    np.testing.assert_allclose(np.ravel(w), plain_loop(rounds), rtol=1e-6, atol=1e-7)
    return rounds


def in_torch() -> Any:
    """The same app in torch, whose clients are computed in stacks."""
    nn = pytest.importorskip("torch").nn
    from fedtorch import TorchWorkload

    def model() -> Any:
        line = nn.Linear(DIM, 1, bias=False)
        nn.init.zeros_(line.weight)
        return nn.Sequential(line, nn.Flatten(0))

    return TorchWorkload(
        model=model, loss=nn.functional.mse_loss, train_data=train_data
    )


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("engine", ["exact", "stacked"])
def test_simulated_fed_avg_with_failures_is_the_loop_over_the_living(
    engine: str, dropout: float, tmp_path: Path
) -> None:
    config = {
        "algorithm": {**ALGORITHM, "buffer": 6},
        "stop": {"versions": 20},
        "simulate": {
            "clients": 6,
            "dropout": dropout,
            "step_seconds": 5.0,
            "engine": {"kind": engine},
        },
    }
    app = workload if engine == "exact" else in_torch()
    rounds = require_loop(latecomer.run(config, app, folder=tmp_path / "run"))
    sizes = {len(clients) for clients in rounds}
    assert sizes == {5} if not dropout else len(sizes) > 1


@pytest.mark.processes
def test_deployed_fed_avg_with_failures_is_the_loop_over_the_living(
    federation: Callable[..., LocalFederation],
) -> None:
    app = f"{Path(__file__).parent / 'failing_app.py'}:workload"
    real = federation(
        app=app,
        algorithm={**ALGORITHM, "buffer": 4, "min_clients": 4},
        stop={"versions": 6},
        timeouts={"linger": 1.0},
    )
    real.app = app
    server = real.server("--no-evaluator")
    clients = [real.client(index, 4) for index in range(4)]
    assert server.wait() == 0, server.tail()
    for client in clients:
        client.stop()
    assert max(map(len, require_loop(Results(real.run)))) == 3
