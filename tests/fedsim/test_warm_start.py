"""A simulated run begins with the model that ``model:`` names, as a deployed one."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import latecomer
from fedcore.errors import ModelError, SpecMismatchError
from fedcore.params import ParamSpec
from fedrun.config import parse_config
from fedrun.files import load_model, save_model
from fedsim.experiments.identity import identity
from tests.fedsim import toys
from tests.fedsim.toys import DIM, toy

WARM = np.linspace(1, 2, DIM, dtype=np.float32)
SPEC = ParamSpec.of({"w": WARM})


def begun(folder: Path, **changes: Any) -> Any:
    """The weights with which a run begins."""
    results = latecomer.run(toys.settings(**changes), toy(), folder=folder / "run")
    return load_model(results.folder / "models" / "initial.safetensors")[1]


@pytest.mark.parametrize("kind", ["exact", "stacked"])
def test_a_run_begins_with_the_model_that_is_named(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "warm.safetensors"
    save_model(file, SPEC, WARM)
    engine = {"engine": {"kind": kind}}
    assert begun(tmp_path, model=file, simulate=engine).tolist() == WARM.tolist()


def test_a_model_that_is_not_there_is_drawn(tmp_path: Path) -> None:
    assert begun(tmp_path, model=tmp_path / "none.safetensors").tolist() == [0.0] * DIM


def test_a_file_that_nobody_named_is_none_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    save_model(Path("model.safetensors"), SPEC, WARM)
    assert begun(tmp_path).tolist() == [0.0] * DIM


def test_another_model_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "other.safetensors"
    save_model(file, ParamSpec.of({"b": WARM}), WARM)
    with pytest.raises(SpecMismatchError, match="expected tensor 'w', found 'b'"):
        begun(tmp_path, model=file)
    file.write_bytes(b"no model")
    with pytest.raises(ModelError, match=r"other\.safetensors: not a safetensors"):
        begun(tmp_path, model=file)


def test_a_sweep_computes_again_when_the_model_is_another(tmp_path: Path) -> None:
    file = tmp_path / "warm.safetensors"
    config = parse_config(toys.settings(model=str(file)))
    found = []
    for weights_D in (None, WARM, np.ones(2 * DIM, np.float32)):
        if weights_D is not None:
            save_model(file, ParamSpec.of({"w": weights_D}), weights_D)
        found.append(identity(config, "code", "program"))
    assert len(set(found)) == 3
