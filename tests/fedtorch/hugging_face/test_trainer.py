"""A Trainer of transformers as a workload."""

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import latecomer
from fedcore.errors import ConfigError, ModelError, WorkloadError
from fedcore.rng import Key
from fedcore.workload import Client, TrainingTask
from tests.fedtorch.hugging_face.tiny import TEXT, gpt2, needs, with_adapter

pytestmark = [
    pytest.mark.needs(*needs, "accelerate", "datasets"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # of peft, to transformers
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


def dataset() -> Any:
    rows = TEXT.astype(np.int64).tolist()
    return import_module("datasets").Dataset.from_dict(
        {"input_ids": rows, "labels": rows}
    )


def trainer(folder: Path, model: Any, **more: Any) -> Any:
    transformers = import_module("transformers")
    args = transformers.TrainingArguments(
        str(folder / "out"),
        use_cpu=True,
        learning_rate=0.01,
        per_device_train_batch_size=8,
        report_to="none",
        save_steps=1,
        logging_steps=1,
    )
    data = dataset()
    return transformers.Trainer(
        model=model, args=args, train_dataset=data, eval_dataset=data, **more
    )


def config(**client: Any) -> dict[str, Any]:
    told = {"kind": "local_sgd", "lr": 0.1, "steps": 3, "batch": 8, **client}
    return {
        "algorithm": {"kind": "fed_avg", "buffer": 2, "client": told},
        "simulate": {"clients": 2},
        "stop": {"versions": 2},
    }


def test_a_trainer_joins_in_three_lines_and_its_folder_is_left_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    theirs = trainer(tmp_path, with_adapter())
    made = sorted(tmp_path.rglob("*"))
    workload = latecomer.patch(theirs)
    results = latecomer.run(config(), workload, folder=tmp_path / "run")
    names = [tensor.name for tensor in workload.flat().spec.tensors]
    assert all("lora_B" in name for name in names)
    assert results.metrics["loss"][-1] < results.metrics["loss"][0]
    assert set(results.metrics) >= {"loss", "samples"}
    assert not any("second" in name for name in results.metric_names)
    assert sorted(p for p in tmp_path.rglob("*") if "run" not in p.parts) == made
    assert "{'loss'" not in capfd.readouterr().out
    assert (theirs.args.max_steps, theirs.optimizer) == (-1, None)
    assert len(theirs.train_dataset) == len(TEXT)


def test_a_task_takes_its_steps_with_a_fresh_optimiser_and_its_own_seed(
    tmp_path: Path,
) -> None:
    theirs = trainer(tmp_path, gpt2())
    model = latecomer.patch(theirs).model
    params = model.spec.unflatten(model.initial(Key.root(0)))
    first, other, again = (
        model.train(params, dataset(), TrainingTask(seed, 3, 0.1, 8))
        for seed in (1, 2, 1)
    )
    name = "transformer.wte.weight"
    assert theirs.state.global_step == 3
    assert first.samples == len(TEXT)
    assert np.array_equal(first.params[name], again.params[name])
    assert not np.array_equal(first.params[name], other.params[name])


def test_an_optimiser_that_was_given_starts_each_task_anew(tmp_path: Path) -> None:
    net = gpt2()
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    theirs = trainer(tmp_path, net, optimizers=(optimizer, None))
    model = latecomer.patch(theirs).model
    params = model.spec.unflatten(model.initial(Key.root(0)))
    results = [
        model.train(params, dataset(), TrainingTask(1, 3, 0.1, 8)).params
        for _ in range(2)
    ]
    assert all(np.array_equal(results[0][n], results[1][n]) for n in results[0])
    assert theirs.optimizer is optimizer


def test_clients_share_the_trainers_data_out(tmp_path: Path) -> None:
    workload = latecomer.patch(trainer(tmp_path, gpt2()))
    parts = [workload.train_data(Client(str(n), n, 3))["input_ids"] for n in range(3)]
    assert [list(row) for row in parts[1]] == TEXT[1::3].tolist()
    assert sum(map(len, parts)) == len(TEXT)
    assert len(workload.train_data(Client("alone"))) == len(TEXT)


def test_the_steps_may_be_told_by_the_user(tmp_path: Path) -> None:
    theirs = trainer(tmp_path, with_adapter())
    workload = latecomer.patch(theirs, steps=2)
    latecomer.run(config(steps=7), workload, folder=tmp_path / "run")
    assert theirs.state.global_step == 2


def test_what_needs_gradients_is_refused(tmp_path: Path) -> None:
    workload = latecomer.patch(trainer(tmp_path, with_adapter()))
    with pytest.raises(ConfigError, match="needs gradients"):
        latecomer.run(config(momentum=0.9), workload, folder=tmp_path / "run")


def test_a_trainer_without_trainable_parameters_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no parameters with requires_grad"):
        latecomer.patch(trainer(tmp_path, gpt2().requires_grad_(False)))


def test_anything_else_is_no_trainer() -> None:
    with pytest.raises(WorkloadError, match=r"patch\(Linear\): expected a Trainer"):
        latecomer.patch(torch.nn.Linear(1, 1))


@pytest.mark.needs("trl")
def test_an_sft_trainer_is_a_trainer(tmp_path: Path) -> None:
    trl = import_module("trl")
    args = trl.SFTConfig(
        str(tmp_path / "out"),
        use_cpu=True,
        bf16=False,
        per_device_train_batch_size=8,
        report_to="none",
        dataset_kwargs={"skip_prepare_dataset": True},
    )
    tokenizer = _tokenizer()
    theirs = trl.SFTTrainer(
        model=with_adapter(),
        args=args,
        train_dataset=dataset(),
        eval_dataset=dataset(),
        processing_class=tokenizer,
    )
    workload = latecomer.patch(theirs)
    results = latecomer.run(config(), workload, folder=tmp_path / "run")
    assert results.metrics["loss"][-1] < results.metrics["loss"][0]


def _tokenizer() -> Any:
    """A tokenizer of words 0 to 31, made here."""
    tokenizers, transformers = map(import_module, ("tokenizers", "transformers"))
    words = {str(n): n for n in range(32)}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="0"))
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token="1", pad_token="0", unk_token="0"
    )
