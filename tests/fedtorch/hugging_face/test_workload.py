"""Models of transformers as workloads."""

from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch

import latecomer
from fedcore.errors import ModelError, WorkloadError
from fedcore.rng import Key
from fedtorch.hugging_face import HuggingFaceWorkload
from fedtorch.hugging_face.samples import pad, read_samples
from tests.fedtorch.hugging_face.tiny import TEXT, gpt2, needs, with_adapter

pytestmark = [
    pytest.mark.needs(*needs),
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # of peft, to transformers
]


def workload(model: Any = gpt2, **more: Any) -> HuggingFaceWorkload:
    return HuggingFaceWorkload(model=model, train_data=lambda client: TEXT, **more)


def test_exactly_what_requires_a_gradient_is_federated_and_the_base_is_not_kept() -> (
    None
):
    whole, adapter = workload().flat(), workload(with_adapter).flat()
    names = [tensor.name for tensor in adapter.spec.tensors]
    assert whole.spec.dim == sum(p.numel() for p in gpt2().parameters())
    assert len(names) == 2
    assert all("lora_B" in name for name in names)
    assert all("lora_A" in name for name in adapter.rest().frozen)
    assert "lm_head.weight" in whole.rest().tied


def test_the_gradient_is_that_of_the_models_own_loss_bit_for_bit() -> None:
    model = workload().flat()
    x, y = workload().samples(TEXT, "train_data").batch(np.arange(4))
    loss, g_D = model.gradient(model.initial(Key.root(0)), x, y)
    plain = gpt2().train()
    tokens = torch.from_numpy(TEXT[:4].astype(np.int64))
    expected = plain(input_ids=tokens, labels=tokens).loss
    expected.backward()
    named = {name: p.grad.numpy() for name, p in plain.named_parameters()}
    assert loss == expected.item()
    assert g_D.tobytes() == model.spec.flatten(named).tobytes()


def test_rows_of_a_dataset_are_padded_and_padding_changes_no_loss() -> None:
    datasets = import_module("datasets")
    rows = [TEXT[0, :9].tolist(), TEXT[1].tolist()]
    data = datasets.Dataset.from_dict({"input_ids": rows, "text": ["a", "b"]})
    model = workload().flat()
    w_D = model.initial(Key.root(0))
    alone = [model.evaluate(w_D, {"input_ids": np.array([row])})[0] for row in rows]
    labels = np.array([8, 15])
    expected = (np.array([each["loss"] for each in alone]) @ labels) / labels.sum()
    values, samples = model.evaluate(w_D, data)
    assert samples == 2
    assert values["loss"] == pytest.approx(expected, rel=1e-5)


def test_the_loss_is_over_all_labels_however_few_rows_are_evaluated_at_a_time() -> None:
    labels = TEXT.astype(np.int64)
    labels[3:, 4:] = -100
    data = ({"input_ids": TEXT}, labels)
    small, large = (workload(eval_rows=rows).flat() for rows in (5, 24))
    w_D = small.initial(Key.root(0))
    found = [model.evaluate(w_D, data)[0]["loss"] for model in (small, large)]
    assert found[0] == pytest.approx(found[1], rel=1e-5)


def test_a_classifier_reports_its_labels_and_takes_metrics_of_logits() -> None:
    transformers = import_module("transformers")

    def model() -> Any:
        config = gpt2().config
        config.num_labels, config.pad_token_id = 3, 0
        return transformers.GPT2ForSequenceClassification(config)

    labels = np.arange(24) % 3
    own = workload(model, metrics=lambda logits, y: {"right": logits.argmax(1) == y})
    own = workload(
        model,
        metrics=lambda logits, y: {"accuracy": (logits.argmax(1) == y).float().mean()},
    )
    samples = own.samples((TEXT, labels), "train_data")
    assert samples.label_counts(np.arange(6)).tolist() == [2, 2, 2]  # type: ignore[union-attr]
    flat = own.flat()
    values, _ = flat.evaluate(flat.initial(Key.root(0)), (TEXT, labels))
    assert 0 <= values["accuracy"] <= 1
    rows = [
        {"input_ids": t.tolist(), "label": int(n)}
        for t, n in zip(TEXT, labels, strict=True)
    ]
    same = own.samples(rows, "train_data")
    assert same.label_counts(np.arange(6)).tolist() == [2, 2, 2]  # type: ignore[union-attr]
    assert same.batch(np.arange(3))[0]["labels"].tolist() == [0, 1, 2]


def test_a_collator_of_transformers_makes_the_batches() -> None:
    collator = import_module("transformers").default_data_collator
    rows = [{"input_ids": row.tolist()} for row in TEXT]
    samples = workload(collator=collator).samples(rows, "train_data")
    x, y = samples.batch(np.array([2, 0]))
    assert x["input_ids"].tolist() == TEXT[[2, 0]].tolist()
    assert y is x["input_ids"]


def test_a_federation_learns_and_its_report_shows_what_the_model_writes(
    tmp_path: Any,
) -> None:
    from fedview.report import write_report

    own = workload(test_data=lambda: TEXT, write=lambda model: "def <f>:\n\x1b[0m")
    algorithm = {
        "kind": "fed_avg",
        "buffer": 2,
        "client": {"kind": "local_adam", "lr": 0.01, "steps": 4, "batch": 8},
    }
    config = {
        "algorithm": algorithm,
        "simulate": {"clients": 2},
        "stop": {"versions": 3},
    }
    results = latecomer.run(config, own, folder=tmp_path / "run")
    assert results.metrics["loss"][-1] < results.metrics["loss"][0]
    page = write_report(tmp_path / "run").read_text("utf-8")
    assert "def &lt;f&gt;:\n\\x1b[0m" in page


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"text": np.zeros((2, 3))}, "with text and without input_ids"),
        ([{"text": "a"}], "with text and without input_ids"),
        ([3, 4], "whose rows are int"),
        (iter([1]), "streaming=True"),
        ([], "returned no samples"),
        (({"input_ids": TEXT}, np.zeros(3)), "24 inputs and 3 targets"),
    ],
)
def test_data_that_are_none_are_refused_by_a_sentence(data: Any, said: str) -> None:
    with pytest.raises(WorkloadError, match=said) as caught:
        read_samples(data, "train_data", None)
    assert "\n" not in str(caught.value)


def test_ragged_images_are_refused_by_a_sentence() -> None:
    images = [{"pixel_values": np.zeros((1, n, 2))} for n in (2, 3)]
    with pytest.raises(WorkloadError, match="column 'pixel_values' has rows of shapes"):
        pad(images)


def test_a_model_without_a_head_or_without_parameters_is_refused() -> None:
    headless = workload(lambda: gpt2().transformer).flat()
    x, y = workload().samples(TEXT, "train_data").batch(np.arange(2))
    with pytest.raises(ModelError, match="computes no loss"):
        headless.gradient(headless.initial(Key.root(0)), x, y)
    with pytest.raises(ModelError, match="no parameters with requires_grad"):
        workload(lambda: gpt2().requires_grad_(False)).flat()


def test_another_base_is_refused_and_its_tensor_is_named() -> None:
    ours = workload(with_adapter).flat().spec
    theirs = workload(lambda: with_adapter(seed=6)).flat().spec
    said = ours.first_difference(theirs)
    assert said is not None
    assert "transformer.wte.weight' differs, and" in said
    assert ours.first_difference(workload(with_adapter).flat().spec) is None


def test_a_batch_without_labels_leaves_the_loss_of_the_others() -> None:
    tokens = TEXT[:4].astype(np.int64)
    labels = np.where(np.arange(4)[:, np.newaxis] < 2, -100, tokens)
    model = workload(eval_rows=2).flat()
    w_D = model.initial(Key.root(0))
    found, _ = model.evaluate(w_D, {"input_ids": tokens, "labels": labels})
    assert found == model.evaluate(w_D, {"input_ids": tokens[2:]})[0]
    none = {"input_ids": tokens[:2], "labels": labels[:2]}
    assert np.isnan(model.evaluate(w_D, none)[0]["loss"])


def test_unsigned_labels_are_padded_with_no_label() -> None:
    known = [np.arange(2, dtype=np.uint8), np.arange(3, dtype=np.uint8)]
    rows = [{"input_ids": tokens, "labels": tokens} for tokens in known]
    assert pad(rows)["labels"].tolist() == [[0, 1, -100], [0, 1, 2]]


def test_a_column_that_some_rows_lack_is_named() -> None:
    rows = [{"input_ids": [1, 2], "labels": [1, 2]}, {"input_ids": [1, 2]}]
    with pytest.raises(WorkloadError, match="column 'labels' is in some rows"):
        pad(rows)
