"""A simulated run begins with the model that ``model:`` names, as a deployed one."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import latecomer
from fedcore.errors import ModelError, SpecMismatchError
from fedcore.params import ParamSpec
from fedrun.config import parse_config
from fedrun.files import load_model, save_model
from fedstudies.cache import identity
from tests.fedsim import toys
from tests.fedsim.toys import DIM, linear, toy, write
from tests.integration.typed import desk, typed

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


@pytest.mark.parametrize("kind", ["exact", "stacked"])
def test_a_run_begins_with_a_plain_checkpoint_of_torch(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    file, workload = tmp_path / "plain.safetensors", cast(Any, linear())
    module = workload.model().half()  # its bias comes first in the file
    save_file(module.state_dict(), file)
    config = toys.settings(model=str(file), simulate={"engine": {"kind": kind}})
    results = latecomer.run(config, workload, folder=tmp_path / "run")
    begun = results.model("initial")
    for name, tensor in module.state_dict().items():
        assert begun[name].tolist() == tensor.to(torch.float32).tolist()
    assert f"{file}: float16 becomes float32" in caplog.messages


@pytest.mark.parametrize("is_link", [False, True])
def test_what_stands_in_the_place_of_the_model_and_is_none_is_refused(
    tmp_path: Path, is_link: bool
) -> None:
    place = tmp_path / "warm.safetensors"
    place.symlink_to("nowhere") if is_link else place.mkdir()
    with pytest.raises(ModelError, match=r"warm\.safetensors: "):
        begun(tmp_path, model=place)


def test_a_checkpoint_is_written_for_a_server_and_evaluated_whatever_its_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    with desk(tmp_path, monkeypatch):
        write("from tests.fedsim.toys import linear\nworkload = linear()\n")
        bias, weight = torch.ones(1), torch.arange(DIM, dtype=torch.float32)[None]
        save_file({"0.bias": bias, "0.weight": weight}, "plain")
        app = ("--app", "mine.py:workload")
        done = typed("fedclient", "model", *app, "--from", "plain", "-o", "out")
        assert (done.status, done.out) == (0, f"out: {DIM + 1} values in 2 tensors\n")
        assert load_model(Path("out"))[1].tolist() == [*range(DIM), 1]
        losses = typed("fedclient", "evaluate-file", *app, "plain", "out").out
        first, _, other = losses.partition("out:")
        assert first.removeprefix("plain:") == other
        save_file({"0.weight": weight}, "plain")
        done = typed("fedclient", "evaluate-file", *app, "plain")
        assert done.sentence(65).endswith("differ: tensor '0.bias' is missing")


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
