"""Very unequal clients: simulator, deployment and a plain loop come to the same.

FedAvg with full batches, so that nothing is left to chance: the models agree to 1e-6,
and every metric is that of a whole set, as scikit-learn has it.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score, recall_score

import latecomer
from fedcore.training import initial_model
from fedcore.workload import Client
from fedview.results import Results
from tools.local import LocalFederation

torch = pytest.importorskip("torch")

from tests.integration import unequal_app  # noqa: E402

APP = Path(unequal_app.__file__)
COUNT, ROUNDS, STEPS, LR = 4, 3, 2, 0.5
CLIENTS = [Client(f"client-{index}", index, COUNT) for index in range(COUNT)]
SITUATIONS = ["digits", "stdlib"]


def config() -> dict[str, Any]:
    client = {"kind": "local_sgd", "lr": LR, "steps": STEPS, "batch": 40_000}
    pace = {"buffer": COUNT, "min_clients": COUNT}
    return {
        "algorithm": {"kind": "fed_avg", "client": client, **pace},
        "evaluate": {"clients": True, "every_versions": 1},
        "stop": {"versions": ROUNDS},
        "simulate": {"clients": COUNT},
    }


def looped(workload: Any, start: dict[str, Any]) -> dict[str, Any]:
    """FedAvg as a torch loop: the mean of what clients end with, by their samples."""
    model = {name: torch.tensor(value) for name, value in start.items()}
    module = workload.model()
    for _ in range(ROUNDS):
        ended, samples = [], []
        for client in CLIENTS:
            module.load_state_dict(model)
            x, y = map(torch.as_tensor, workload.train_data(client))
            for _ in range(STEPS):
                module.zero_grad()
                workload.loss(module(x), y).backward()
                with torch.no_grad():
                    for weight in module.parameters():
                        weight -= LR * weight.grad
            ended.append({n: v.double() for n, v in module.state_dict().items()})
            samples.append(len(y))
        shares = [count / sum(samples) for count in samples]
        model = {
            name: sum(s * e[name] for s, e in zip(shares, ended, strict=True)).float()
            for name in model
        }
    return {name: value.numpy() for name, value in model.items()}


def truth(workload: Any, params: dict[str, Any], data: Any) -> dict[str, float]:
    """What scikit-learn says of a model on a whole set."""
    module = workload.model()
    module.load_state_dict({name: torch.tensor(v) for name, v in params.items()})
    x, y = map(torch.as_tensor, data)
    with torch.no_grad():
        output = module(x)
    said = output.argmax(1)
    macro = {"average": "macro", "zero_division": 0}
    found = {
        "f1": float(f1_score(y, said, **macro)),
        # A class that was said and is not there counts, as it does for F1.
        "recall": float(recall_score(y, said, **macro)),
        "accuracy": float(accuracy_score(y, said)),
    }
    if workload is unequal_app.digits:
        found["auc"] = unequal_app.area(output, y)
    return found


@pytest.mark.processes
@pytest.mark.parametrize("name", SITUATIONS)
def test_everybody_comes_to_the_model_and_the_metrics_of_a_plain_loop(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    workload = getattr(unequal_app, name)
    caplog.set_level("INFO", "fedsim")
    runs: dict[str, Results] = {}
    for kind in ("exact", "stacked"):
        told = config()
        told["simulate"]["engine"] = {"kind": kind}
        runs[kind] = latecomer.run(told, workload, folder=tmp_path / kind)
    assert "clients are trained together" in caplog.text
    runs["deployed"] = deployed(f"{APP}:{name}", tmp_path)
    flat = workload.flat()
    expected = looped(workload, flat.spec.unflatten(initial_model(flat, 0)))
    for results in runs.values():
        model = results.model("last")
        for tensor, values in expected.items():
            np.testing.assert_allclose(model[tensor], values, rtol=0, atol=1e-6)
        agrees(workload, model, results)
    for column in ("f1", "recall", "accuracy"):
        last = {r.central[column][-1] for r in runs.values()}
        assert len(last) == 1
        assert len({tuple(r.by_client[column]) for r in runs.values()}) == 1


def agrees(workload: Any, model: dict[str, Any], results: Results) -> None:
    """All that was measured of the last version is what scikit-learn says of it."""
    central = {name: column[-1] for name, column in results.central.items()}
    assert central["version"] == ROUNDS
    assert central["samples"] == len(workload.test_data()[1])
    for metric, value in truth(workload, model, workload.test_data()).items():
        assert central[metric] == pytest.approx(value, abs=1e-12)
        assert results.summary["metrics"][metric] == central[metric]
    own = results.by_client
    assert own["client"] == [client.name for client in CLIENTS]
    assert own["version"] == [ROUNDS] * COUNT
    merged = results.summary["federated"]
    for metric in truth(workload, model, workload.test_data()):
        values = []
        for place, client in enumerate(CLIENTS):
            data = workload.valid_data(client)
            value = truth(workload, model, data)[metric]
            assert own[metric][place] == pytest.approx(value, abs=1e-12)
            assert own["samples"][place] == len(data[1])
            values.append(value)
        mean = np.average(values, weights=own["samples"])
        assert merged[metric] == pytest.approx(mean, abs=1e-12)
        assert merged[f"{metric}_n"] == sum(own["samples"])


def deployed(app: str, tmp_path: Path) -> Results:
    """A server, its evaluator and the clients, as processes."""
    settings = config() | {
        "app": app,
        "server": {"listen": "127.0.0.1:0", "journal": "run"},
    }
    with LocalFederation(tmp_path / "deployed", settings, app=app) as real:
        server = real.server()
        clients = [real.client(index, COUNT) for index in range(COUNT)]
        assert server.wait() == 0, server.tail()
        assert [client.wait() for client in clients] == [0] * COUNT
        return Results(real.run)


@pytest.mark.parametrize("name", SITUATIONS)
def test_metrics_do_not_depend_on_the_order_of_the_rows(name: str) -> None:
    workload = getattr(unequal_app, name)
    flat = workload.flat()
    model_D = initial_model(flat, 0)
    x, y = workload.test_data()
    expected = truth(workload, flat.spec.unflatten(model_D), (x, y))
    for rows in (
        np.arange(len(y)),
        np.argsort(y),
        np.argsort(-y),
        np.arange(len(y))[::-1],
    ):
        values, count = flat.evaluate(model_D, (x[rows], y[rows]))
        assert count == len(y)
        for metric, value in expected.items():
            assert values[metric] == pytest.approx(value, abs=1e-12)
