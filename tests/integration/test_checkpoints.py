"""A model that is taken out of a run is whole: elsewhere it computes the same."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import latecomer
from fedcore.rng import Key
from fedrun.files import load_model, load_rest, save_model
from fedtorch import TorchWorkload
from fedtorch.models import lora_transformer
from fedview.results import Results
from tests.integration.conftest import Make
from tests.integration.frozen_app import Network, X, Y, workload
from tests.integration.typed import typed

VERSIONS = 3
SETTINGS: dict[str, Any] = {
    "algorithm": {
        "kind": "fed_avg",
        "buffer": 2,
        "client": {"kind": "local_sgd", "lr": 0.1, "steps": 3, "batch": 10},
    },
    "evaluate": {"every_versions": 1},
    "stop": {"versions": VERSIONS},
}
APP = Path(__file__).parent / "frozen_app.py"


def elsewhere(path: Path) -> Network:
    """The model of a file in a module that was drawn otherwise."""
    torch.manual_seed(len(path.name) + 99)
    module = Network()
    module.load_state_dict(load_file(path))  # strict: nothing is missing or too much
    return module


def loss_of(module: nn.Module) -> float:
    with torch.no_grad():
        return nn.functional.cross_entropy(module(X), Y).item()


def check(run: Path, folder: Path, *, replayable: bool = True) -> None:
    """Every file of a run, and every version that is exported."""
    table = Results(run).central
    # An evaluator that is slower than the clients leaves versions out.
    losses = dict(zip(table["version"], table["loss"], strict=True))
    first, best, last = (
        loss_of(elsewhere(run / "models" / f"{which}.safetensors"))
        for which in ("initial", "best", "last")
    )
    assert first == pytest.approx(losses.get(0, first), rel=1e-6)
    assert best == pytest.approx(min(losses.values()), rel=1e-6)
    assert last == pytest.approx(losses.get(VERSIONS, last), rel=1e-6)
    assert last < first
    for version, loss in losses.items() if replayable else ():
        out = folder / f"{version}.safetensors"
        words = ("export", str(run), "--which", str(version), "-o", str(out))
        assert typed("fedserver", *words).status == 0
        assert loss_of(elsewhere(out)) == pytest.approx(loss, rel=1e-6)
    assert set(Results(run).model()) == set(Network().state_dict())


@pytest.mark.parametrize("kind", ["exact", "stacked"])
def test_a_simulated_model_is_whole(kind: str, tmp_path: Path) -> None:
    simulate = {"clients": 3, "engine": {"kind": kind}}
    settings = {**SETTINGS, "simulate": simulate}
    run = latecomer.run(settings, workload, folder=tmp_path / "run").folder
    check(run, tmp_path, replayable=kind == "exact")
    words = (
        "evaluate-file",
        "--app",
        f"{APP}:workload",
        str(run / "models" / "last.safetensors"),
    )
    assert "10 samples" in typed("fedclient", *words).out
    # What begins with a whole checkpoint has the whole of it again.
    settings |= {"model": str(run / "models" / "last.safetensors")}
    again = latecomer.run(settings, workload, folder=tmp_path / "again").folder
    first = load_model(again / "models" / "initial.safetensors")[1]
    assert first.tolist() == load_model(run / "models" / "last.safetensors")[1].tolist()
    check(again, tmp_path, replayable=kind == "exact")


@pytest.mark.processes
def test_a_deployed_model_is_whole(federation: Make) -> None:
    one = {"algorithm": {**SETTINGS["algorithm"], "buffer": 1}}
    fed = federation(app=f"{APP}:workload", **{**SETTINGS, **one})
    fed.app = f"{APP}:workload"
    server = fed.server()
    client = fed.client(0, 1)
    assert (server.wait(), client.wait()) == (0, 0)
    check(fed.run, fed.run.parent)


def test_adapters_come_with_the_weights_that_they_adapt(tmp_path: Path) -> None:
    def model() -> nn.Module:
        return lora_transformer(tokens=9, width=8, heads=2, blocks=1, length=6)

    adapted = TorchWorkload(
        model=model, loss=nn.CrossEntropyLoss(), train_data=lambda client: (X, Y)
    ).flat()
    path = tmp_path / "model.safetensors"
    save_model(path, adapted.spec, adapted.initial(Key.root(0)), rest=adapted.rest())
    assert set(load_file(path)) == set(model().state_dict())
    assert load_rest(path).frozen.keys() == adapted.rest().frozen.keys()
