"""Where a module computes: what is chosen, what is refused, and what crosses."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fedcore.errors import ConfigError
from fedcore.recipes import FedAvg
from fedcore.rng import Key
from fedcore.training import Trainer
from fedrun.config import parse_config
from fedtorch import flat, whole
from fedtorch.devices import find_device
from fedtorch.tensors import across
from tests.fedcore.workloads import line
from tests.fedtorch.modules import X, Y, with_dropout, workload

absent = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA GPU")
KEY = Key.root(3)


def has(monkeypatch: pytest.MonkeyPatch, cuda: int, mps: bool) -> None:
    """Has torch find these accelerators."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: cuda > 0)
    monkeypatch.setattr("torch.cuda.device_count", lambda: cuda)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: mps)


@pytest.mark.parametrize(
    ("cuda", "mps", "best"),
    [(2, True, "cuda"), (0, True, "mps"), (0, False, "cpu")],
)
def test_auto_is_the_best_that_is_here(
    cuda: int, mps: bool, best: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    has(monkeypatch, cuda, mps)
    assert find_device("auto") == torch.device(best)


def test_a_device_may_be_one_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    has(monkeypatch, 2, False)
    assert find_device("cuda:1") == torch.device("cuda:1")
    with pytest.raises(ConfigError, match="cuda:2: this machine has cuda:0 to cuda:1"):
        find_device("cuda:2")


@absent
@pytest.mark.parametrize("name", ["cuda", "cuda:0"])
def test_a_device_that_is_not_here_is_refused_in_a_sentence(name: str) -> None:
    words = rf"device {name}: torch .* finds none on this machine; it finds .*cpu"
    with pytest.raises(ConfigError, match=words):
        workload().on(name).flat()
    with pytest.raises(ConfigError, match=words):
        workload().flat().stack(name)


@pytest.mark.parametrize("name", ["gpu", "", "cuda:", "cuda:x", "CPU", "meta"])
def test_a_name_that_no_device_has_is_refused(name: str) -> None:
    words = "expected cpu, cuda, cuda:1, mps, or auto"
    with pytest.raises(ConfigError, match=words):
        workload(device=name).flat()
    told = {"device": name}
    for section in ({"evaluate": told}, {"simulate": {"engine": told}}):
        with pytest.raises(ConfigError, match=words):
            parse_config(section)


def test_another_device_leaves_the_workload_as_it_is() -> None:
    ours = workload()
    assert (ours.on("auto").device, ours.device) == ("auto", "cpu")
    assert ours.on("auto").train_data is ours.train_data
    plain = line()
    assert plain.on("auto") is plain.on("cpu") is plain
    with pytest.raises(ConfigError, match="device cuda: this workload's own functions"):
        plain.on("cuda")


# ---------------------------------------------------- what an accelerator is told


@pytest.fixture
def crossings(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Has the module live in other memory than NumPy's, as on an accelerator."""
    seen: list[Any] = []

    def counted(tree: Any, device: torch.device) -> Any:
        seen.append(tree)
        return across(tree, device)

    def elsewhere(device: torch.device, room: Any) -> torch.Tensor:
        return torch.full_like(room.tensor_D, torch.nan)

    monkeypatch.setattr(whole, "on", elsewhere)
    monkeypatch.setattr(flat, "across", counted)
    return seen


def updates(model: Any) -> Any:
    """Two tasks of a client, with momentum."""
    client = {"kind": "local_sgd", "steps": 3, "batch": 4, "momentum": 0.9}
    config = FedAvg.model_validate({"client": client})
    ours = workload(model)
    trainer = Trainer(ours, config.build(ours.flat().spec))
    public_D = trainer.model.initial(KEY)
    found = [trainer.train(public_D, (X, Y), KEY.fold_in(i)) for i in "ab"]
    return found, trainer.model.evaluate(public_D, (X, Y))


def test_updates_are_the_same_and_a_batch_crosses_once(
    request: pytest.FixtureRequest,
) -> None:
    expected, measured = updates(with_dropout)
    crossings = request.getfixturevalue("crossings")
    found, again = updates(with_dropout)
    for mine, theirs in zip(found, expected, strict=True):
        assert type(mine.delta_D) is np.ndarray
        assert mine.delta_D.dtype == np.float32
        assert mine.delta_D.any()
        np.testing.assert_array_equal(mine.delta_D, theirs.delta_D)
        assert mine.loss == theirs.loss
    assert again == measured
    # x and y of each of 2 x 3 steps; x of the evaluation, and its outputs back.
    assert len(crossings) == 2 * 2 * 3 + 2


def test_a_loss_with_weights_goes_where_the_module_is() -> None:
    loss = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0]))
    there: Any = flat.move_loss(loss, torch.device("meta"))
    assert there.weight.device.type == "meta"
    assert loss.weight is not None
    assert loss.weight.device.type == "cpu"  # for evaluation, which is here
    assert flat.move_loss(loss, torch.device("cpu")) is loss
    assert flat.move_loss(nn.functional.cross_entropy, torch.device("meta")) is not None


def test_metrics_and_losses_of_an_evaluation_are_given_what_is_here() -> None:
    def looking(out: Any, y: Any) -> dict[str, Any]:
        return {"out": out.device.type == "cpu", "y": y.device.type == "cpu"}

    model = workload(metrics=looking, device="auto").flat()
    found, _ = model.evaluate(model.initial(KEY), (X, Y))
    assert (found["out"], found["y"]) == (1, 1)


def test_autocast_leaves_weights_and_gradients_in_float32() -> None:
    class Mixed(nn.Sequential):
        def forward(self, x: Any) -> Any:
            with torch.autocast(x.device.type, dtype=torch.bfloat16):
                out = super().forward(x)  # type: ignore[no-untyped-call]
            assert out.dtype == torch.bfloat16
            return out.float()

    model = workload(lambda: Mixed(nn.Linear(4, 3))).flat()
    exact = workload(lambda: nn.Sequential(nn.Linear(4, 3))).flat()
    w_D = model.initial(KEY)
    _, g_D = model.gradient(w_D, X, Y)
    _, expected_D = exact.gradient(w_D, X, Y)
    assert g_D.dtype == np.float32
    np.testing.assert_allclose(g_D, expected_D, atol=0.01)
    assert (g_D != expected_D).any()
