"""The files that the docs show, and the example that runs them."""

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from fedcore.workload import Client
from fedrun.app import load_app
from tests.docs.pages import ROOT
from tests.fedtorch.hugging_face.tiny import needs

pytestmark = [
    pytest.mark.needs(*needs, "accelerate"),
    pytest.mark.filterwarnings("ignore"),  # of three libraries, about each other
]
FOLDER = ROOT / "examples" / "hugging_face"


@pytest.mark.needs("lightning")
@pytest.mark.parametrize("name", ["trainer_app", "lightning_app"])
def test_the_trainers_that_the_docs_show_are_apps(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    workload = load_app(f"{FOLDER / name}.py:workload")
    assert workload.flat().spec.dim > 0
    assert len(workload.train_data(Client("ann", 0, 3))) > 10
    assert workload.test_data is not None


@pytest.mark.slow
def test_the_example_compares_three_ways_and_exports_the_adapter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    example: Any = import_module("examples.hugging_face.__main__")
    few = {**example.CLIENT, "steps": 1, "batch": 2}
    monkeypatch.setattr(example, "BASE_STEPS", 2)
    monkeypatch.setattr(example, "TASKS", 1)
    monkeypatch.setattr(example, "CLIENT", few)
    monkeypatch.setitem(example.FEDERATED, "client", few)
    monkeypatch.setattr(example.app, "BASE", tmp_path / "base")
    example.train_base(tmp_path / "base")
    found = example.measure(tmp_path, seed=0)
    assert found.adapter_bytes == 4 * 9216
    assert found.update_bytes < found.adapter_bytes
    assert sorted(found.texts) == [0, 2]
    assert all(text.startswith("def ") for text in found.texts.values())
    example.show(found, example.Console())
    assert "bits per byte" in capsys.readouterr().out
