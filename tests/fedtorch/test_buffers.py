"""Models with buffers: averaged, local or frozen, alone and in stacks."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import latecomer
from fedcore.clients import batches_of_one
from fedcore.errors import ModelError
from fedcore.model import FlatModel
from fedcore.params import ParamSpec
from fedcore.recipes import FedAvg
from fedcore.rng import Key
from fedcore.training import Trainer
from fedtorch import TorchWorkload
from fedview.results import Results
from fedview.results.divergence import classes_of

RNG = np.random.default_rng(0)
X = RNG.normal(1.5, 2, (96, 1, 6, 6)).astype(np.float32)
Y = RNG.integers(0, 4, 96)
CLIENTS = 3
LR, MOMENTUM, DECAY = 0.1, 0.9, 0.01


def network(*, momentum: float | None = 0.1, seed: int | None = None) -> nn.Sequential:
    if seed is not None:
        torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4, momentum=momentum),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64, 4),
    )


def part(client: Any) -> tuple[Any, Any]:
    rows = slice(client.index * 24, client.index * 24 + 24 + 4 * client.index)
    return X[rows] + client.index, Y[rows]


def workload(model: Callable[[], nn.Module] = network, **options: Any) -> TorchWorkload:
    return TorchWorkload(
        model=model,
        loss=nn.CrossEntropyLoss(),
        metrics=lambda out, y: {"accuracy": float((out.argmax(1) == y).float().mean())},
        train_data=part,
        valid_data=part,
        test_data=lambda: (X, Y),
        **options,
    )


def run(
    folder: Path, given: TorchWorkload, engine: str = "exact", **algorithm: Any
) -> Results:
    client = {"kind": "local_sgd", "lr": 0.05, "steps": 4, "batch": 8}
    config = {
        "algorithm": {
            "kind": "fed_avg",
            "buffer": CLIENTS,
            "min_clients": CLIENTS,
            "client": client,
            **algorithm,
        },
        "simulate": {"clients": CLIENTS, "engine": {"kind": engine}},
        "evaluate": {"clients": True},
        "stop": {"versions": 3},
    }
    return latecomer.run(config, given, folder=folder / engine)


def train(given: TorchWorkload, steps: int, batch: int, **client: Any) -> Any:
    """Trains the first client from version 0; returns model, version 0 and the task."""
    model = given.flat()
    settings = {"kind": "local_sgd", "lr": LR, "steps": steps, "batch": batch, **client}
    algorithm = FedAvg.model_validate({"client": settings}).build(model.spec)
    start_D = model.initial(Key.root(1))
    trained = Trainer(given, algorithm, model=model).train(
        start_D, (X[:24], Y[:24]), Key.root(2)
    )
    return model, start_D, trained


# ------------------------------------------------------------------- one client


def test_a_step_of_one_client_is_that_of_plain_torch_and_so_are_its_buffers() -> None:
    model, start_D, trained = train(
        workload(), 1, 24, momentum=MOMENTUM, weight_decay=DECAY
    )
    plain = network()
    rest = {n: torch.from_numpy(v) for n, v in model.rest().frozen.items()}
    named = model.spec.unflatten(start_D)
    plain.load_state_dict({**rest, **{n: torch.tensor(v) for n, v in named.items()}})
    optimiser = torch.optim.SGD(
        plain.parameters(), LR, momentum=MOMENTUM, weight_decay=DECAY
    )
    nn.CrossEntropyLoss()(
        plain.train()(torch.from_numpy(X[:24])), torch.from_numpy(Y[:24])
    ).backward()
    optimiser.step()
    ours = model.spec.unflatten(start_D - trained.delta_D)
    for name, value in ours.items():
        theirs = plain.state_dict()[name].numpy()
        np.testing.assert_allclose(value, theirs, rtol=1e-6, atol=1e-6, err_msg=name)
    assert np.abs(ours["1.running_mean"]).max() > 0.01  # they have moved


def test_many_steps_with_weight_decay_move_buffers_as_torch_does() -> None:
    with_decay, start_D, trained = train(
        workload(), 6, 8, momentum=MOMENTUM, weight_decay=0.3
    )
    assert trained.delta_D.shape == start_D.shape
    plain = network()
    plain.load_state_dict(
        {n: torch.tensor(v) for n, v in with_decay.spec.unflatten(start_D).items()},
        strict=False,
    )
    optimiser = torch.optim.SGD(
        plain.parameters(), LR, momentum=MOMENTUM, weight_decay=0.3
    )
    algorithm = FedAvg.model_validate(
        {"client": {"kind": "local_sgd", "steps": 6, "batch": 8}}
    )
    plan = batches_of_one(algorithm.client.build(), 24, 6, Key.root(2))
    plain.train()
    for rows in plan:
        optimiser.zero_grad()
        nn.CrossEntropyLoss()(
            plain(torch.from_numpy(X[rows])), torch.from_numpy(Y[rows])
        ).backward()
        optimiser.step()
    ours = with_decay.spec.unflatten(start_D - trained.delta_D)
    for name in ("1.running_mean", "1.running_var"):
        theirs = plain.state_dict()[name].numpy()
        np.testing.assert_allclose(ours[name], theirs, rtol=2e-5, atol=1e-6)


# ------------------------------------------------------------------------ merging


def pooled(clients: list[Any]) -> tuple[Any, Any]:
    """The merged statistics of clients that each took in one batch, and the spec's."""
    given = workload(lambda: nn.Sequential(nn.BatchNorm1d(5, momentum=1.0), HEAD))
    model = given.flat()
    w_D = model.initial(Key.root(0))
    after = []
    for x in clients:
        _, g_D = model.gradient(w_D, x, np.zeros(len(x), np.int64))
        after.append(g_D[model.spec.buffers].copy())
    merged_D = w_D.copy()
    merged_D[model.spec.buffers] = np.mean(after, axis=0)
    return model.spec.unflatten(merged_D), after


HEAD = nn.Linear(5, 2)


def test_merged_variances_are_those_of_the_pooled_batch() -> None:
    rng = np.random.default_rng(3)
    parts = [rng.normal(mean, 1 + mean, (40, 5)).astype(np.float32) for mean in (0, 2)]
    merged, _ = pooled(parts)
    whole = np.concatenate(parts)
    np.testing.assert_allclose(merged["0.running_mean"], whole.mean(0), rtol=1e-5)
    # BatchNorm keeps n / (n - 1) times a batch's variance, of n = 40 samples here.
    spread = np.var([part.mean(0) for part in parts], axis=0)
    biased = (merged["0.running_var"] - spread) * 39 / 40 + spread
    np.testing.assert_allclose(biased, whole.var(0), rtol=1e-5)


def test_the_mean_of_variances_alone_would_miss_the_spread_of_the_means() -> None:
    """The wrong rule, which the one above must not pass for."""
    parts = [np.zeros((40, 5), np.float32) - 3, np.zeros((40, 5), np.float32) + 3]
    for part_ in parts:
        part_[::2] += 1
    merged, _ = pooled(parts)
    assert np.mean([part_.var(0) for part_ in parts]) < 0.3
    np.testing.assert_allclose(merged["0.running_var"], 9.25, rtol=0.01)


def test_a_moment_below_its_squared_mean_is_a_variance_of_zero() -> None:
    model = workload().flat()
    w_D = model.initial(Key.root(0))
    tensors = {tensor.name: tensor for tensor in model.spec.tensors}
    w_D[tensors["1.running_mean"].slice] = 5.0  # as a lossy codec may leave it
    assert not model.spec.unflatten(w_D)["1.running_var"].any()
    assert np.isfinite(model.evaluate(w_D, (X, Y))[0]["loss"])


@pytest.mark.parametrize(
    "server",
    [{"kind": "adam"}, {"kind": "momentum", "lr": 0.5}, {"kind": "sgd", "lr": 0.5}],
)
def test_no_server_optimiser_moves_averaged_buffers_but_by_their_mean(
    server: Any, tmp_path: Path
) -> None:
    given = workload(buffers="average")
    models = [
        run(tmp_path / str(number), given, server=which).model(version=1)
        for number, which in enumerate((server, {"kind": "sgd"}))
    ]
    for name in ("1.running_mean", "1.running_var"):
        np.testing.assert_array_equal(models[0][name], models[1][name])
    assert not np.allclose(models[0]["4.weight"], models[1]["4.weight"])


# ------------------------------------------------------------------------ engines

LOCAL: Mapping[str, Any] = {
    "average": {"buffers": "average"},
    "local": {"buffers": "local"},
    "frozen": {"buffers": "frozen"},
    "fed_bn": {"local": ["1.*"]},
    "fed_per": {"buffers": "average", "local": ["4.*"]},
    "mixed": {"buffers": {"*mean": "average", "*": "local"}, "local": "4.weight"},
}


@pytest.mark.parametrize("options", LOCAL.values(), ids=LOCAL)
def test_stacks_give_what_clients_give_one_by_one(options: Any, tmp_path: Path) -> None:
    given = workload(**options)
    client = {"kind": "local_sgd", "lr": 0.05, "steps": 4, "batch": 8, "momentum": 0.5}
    exact, stacked = (
        run(tmp_path, given, engine, client=client) for engine in ("exact", "stacked")
    )
    for name, value in exact.model().items():
        theirs = stacked.model()[name]
        np.testing.assert_allclose(value, theirs, rtol=1e-3, atol=1e-5, err_msg=name)
    assert exact.by_client["client"] == stacked.by_client["client"]
    for name in ("loss", "accuracy"):
        np.testing.assert_allclose(
            exact.by_client[name], stacked.by_client[name], rtol=1e-4
        )


@pytest.mark.parametrize("client", [{"kind": "scaffold"}, {"kind": "fed_prox"}])
def test_methods_with_arrays_of_their_own_train_local_layers_as_well(
    client: Any, tmp_path: Path
) -> None:
    given = workload(local=["1.*", "4.bias"])
    client |= {"lr": 0.05, "steps": 3, "batch": 8}
    extra = {"weigh_by": "updates"}
    exact, stacked = (
        run(tmp_path, given, kind, client=client, **extra)
        for kind in ("exact", "stacked")
    )
    ours, theirs = exact.by_client["loss"], stacked.by_client["loss"]
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)


def test_local_layers_of_a_small_network_are_trained_in_the_compiled_loop() -> None:
    def mlp() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.ReLU(), nn.Linear(8, 4))

    model = workload(mlp, local=["3.*"]).flat()
    assert "compiled loop" in model.stack().how
    assert [tensor.name for tensor in model.spec.tensors] == ["1.weight", "1.bias"]


def test_a_layer_that_weighs_all_batches_alike_is_computed_one_by_one(
    tmp_path: Path,
) -> None:
    given = workload(lambda: network(momentum=None), buffers="average")
    exact, asked = run(tmp_path, given), run(tmp_path, given, "stacked")
    for name, value in exact.model().items():
        np.testing.assert_array_equal(value, asked.model()[name])


# ------------------------------------------------------------------ what is asked


def test_a_pattern_that_matches_nothing_is_refused_with_the_tensors() -> None:
    names = r"0\.weight, 0\.bias, 1\.weight, .*1\.running_mean"
    with pytest.raises(ModelError, match=rf"local: 'head\.\*' matches no .*{names}"):
        workload(local=["head.*"]).flat()
    with pytest.raises(
        ModelError, match=r"'bn\*' matches no tensor; .*1\.running_mean"
    ):
        workload(buffers={"bn*": "local"}).flat()
    with pytest.raises(ModelError, match="'mean' is none of average, local, frozen"):
        workload(buffers="mean").flat()
    with pytest.raises(ModelError, match="keeps no batch statistics"):
        workload(lambda: nn.Linear(4, 4), buffers="local").flat()
    with pytest.raises(ModelError, match="nothing would be sent"):
        workload(local=["*"]).flat()


def test_averaging_unasked_is_advised_against_and_named() -> None:
    model = workload().flat()
    assert "layer '1' (BatchNorm2d) keeps batch statistics" in model.advice
    assert workload(buffers="average").flat().advice == ""
    assert "'1.running_mean'" in workload(buffers="local").flat().advice


def test_a_spec_with_buffers_and_local_tensors_survives_its_description() -> None:
    spec = workload(buffers="average", local=["4.*"]).flat().spec
    assert ParamSpec.from_json(spec.to_json()) == spec
    other = workload(buffers="average").flat().spec
    difference = "expected tensor '1.running_mean', found '4.weight'"
    assert spec.first_difference(other) == difference
    frozen = workload(buffers="frozen", local=["4.*"]).flat().spec
    assert "'1.running_mean' is not in" in str(frozen.first_difference(spec))
    here = workload(buffers="local").flat().spec
    there = workload(buffers="frozen").flat().spec
    assert "1.running_mean, 1.running_var, 1.num_batches_tracked should stay on" in str(
        here.first_difference(there)
    )


class Counting(nn.Module):
    """It counts its own batches in a buffer that nobody was told of."""

    seen: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(36, 4)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Any) -> Any:
        if self.training:
            self.seen += 1
        return self.body(x.flatten(1))


def test_a_frozen_buffer_that_training_changes_is_named() -> None:
    with pytest.raises(ModelError, match=r"buffer 'seen' changes in training"):
        gradient(workload(Counting).flat())
    model = workload(Counting, buffers={"seen": "average"}).flat()
    gradient(model)
    assert model.spec.buffers == slice(148, 149)


def gradient(model: FlatModel) -> Any:
    return model.gradient(model.initial(Key.root(0)), X[:8], Y[:8])


def test_frozen_statistics_are_used_in_training_as_well() -> None:
    model = workload(buffers="frozen").flat()
    assert model.spec.buffers is None
    loss, _ = gradient(model)
    w_D = model.initial(Key.root(0))
    assert loss == pytest.approx(model.evaluate(w_D, (X[:8], Y[:8]))[0]["loss"])


def test_the_number_of_classes_is_told_by_a_parameter_alone() -> None:
    assert classes_of(workload(buffers="average").flat().spec) == 4
    assert classes_of(workload(buffers="average", local=["4.*"]).flat().spec) == 0


@pytest.mark.parametrize("options", LOCAL.values(), ids=LOCAL)
def test_a_checkpoint_loads_strictly_and_has_the_measured_loss(
    options: Any, tmp_path: Path
) -> None:
    results = run(tmp_path, workload(**options))
    module = network()
    tensors = {name: torch.from_numpy(v) for name, v in results.model().items()}
    module.load_state_dict(tensors, strict=True)
    with torch.no_grad():
        out = module.eval()(torch.from_numpy(X))
        loss = float(nn.CrossEntropyLoss()(out, torch.from_numpy(Y)))
    assert loss == pytest.approx(results.central["loss"][-1], rel=1e-6)


@pytest.mark.parametrize("engine", ["exact", "stacked"])
def test_a_batch_of_one_sample_is_named(
    engine: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def flat_network() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(36, 4), nn.BatchNorm1d(4))

    given = workload(flat_network, buffers="average")
    client = {"kind": "local_sgd", "epochs": 1, "batch": 23}  # 24 samples and more
    run(tmp_path, given, engine, client=client)
    assert (
        "client-0: layer '2' (BatchNorm1d) cannot normalise a batch of 1 sample: "
        "choose client.batch so that no client's last batch has 1 sample, or use "
        "nn.GroupNorm"
    ) in caplog.text
