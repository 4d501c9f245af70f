"""Hugging Face data sets as samples."""

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from fedcore.errors import WorkloadError
from fedcore.samples import IndexedSamples, Subset, as_samples
from fedrun.data import hugging_face

needs_datasets = pytest.mark.needs("datasets")
PIXELS = np.arange(40, dtype=np.float32).reshape(5, 8)
LABELS = [0, 1, 2, 1, 0]


def real() -> Any:
    datasets = import_module("datasets")
    columns = {"image": PIXELS.tolist(), "label": LABELS, "who": list("abcde")}
    return datasets.Dataset.from_dict(columns)


@needs_datasets
def test_a_data_set_is_read_item_by_item() -> None:
    data = hugging_face(real(), inputs="image", target="label")
    samples = as_samples(data, "train_data")
    assert isinstance(samples, IndexedSamples)
    assert len(samples) == 5
    x, y = samples.batch(np.array([3, 0]))
    assert (x.tolist(), y.tolist()) == (PIXELS[[3, 0]].tolist(), [1, 0])
    counts = samples.label_counts(np.array([0, 1, 3]))
    assert counts is not None
    assert counts.tolist() == [1, 2]


@needs_datasets
def test_a_client_has_its_rows_of_it() -> None:
    data = hugging_face(
        real(), inputs="image", target="label", transform=lambda x: x / 10
    )
    mine = data.subset(np.array([4, 2]))
    assert mine.targets.tolist() == [0, 2]
    assert mine[1][0].tolist() == pytest.approx((PIXELS[2] / 10).tolist())


@needs_datasets
def test_all_of_it_as_arrays_can_be_shared() -> None:
    x, y = hugging_face(real(), inputs="image", target="label").arrays()
    assert (x.dtype.name, x.tolist(), y.tolist()) == (
        "float32",
        PIXELS.tolist(),
        LABELS,
    )
    assert len(Subset(x, y, np.array([1, 2]))) == 2


@needs_datasets
def test_inputs_may_be_several_columns() -> None:
    data = hugging_face(real(), inputs=["image", "label"], target="label")
    x, y = data[3]
    assert sorted(x) == ["image", "label"]
    assert y == 1
    arrays, _ = data.arrays()
    assert arrays["image"].shape == (5, 8)


@needs_datasets
def test_torch_workloads_take_it() -> None:
    torch = pytest.importorskip("torch")
    from fedtorch import TorchWorkload

    data = hugging_face(real(), inputs="image", target="label")
    workload = TorchWorkload(
        model=lambda: torch.nn.Linear(8, 3),
        loss=torch.nn.CrossEntropyLoss(),
        train_data=lambda client: data,
    )
    x, y = workload.samples(data, "train_data").batch(np.array([0, 1]))
    loss, gradient_D = workload.flat().gradient(np.zeros(27, np.float32), x, y)
    assert loss == pytest.approx(np.log(3))
    assert gradient_D.shape == (27,)


@pytest.mark.needs("datasets", "PIL")
def test_images_are_decoded() -> None:
    image = import_module("PIL.Image")
    datasets = import_module("datasets")
    pixels = np.arange(12, dtype=np.uint8).reshape(3, 4)
    columns = {"image": [image.fromarray(pixels)], "label": [1]}
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.Value("int64")}
    )
    source = datasets.Dataset.from_dict(columns, features=features)
    x, y = hugging_face(source, inputs="image", target="label")[0]
    assert (x.tolist(), int(y)) == (pixels.tolist(), 1)


@needs_datasets
def test_rows_of_unlike_length_cannot_become_arrays() -> None:
    datasets = import_module("datasets")
    source = datasets.Dataset.from_dict({"tokens": [[1], [2, 3]], "label": [0, 1]})
    data = hugging_face(source, inputs="tokens", target="label")
    with pytest.raises(WorkloadError, match=r"'tokens' is ragged.*\(1,\), \(2,\)"):
        data.arrays()


class Rows:
    """What a ``datasets.Dataset`` looks like from outside."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.column_names = ["image", "label"]

    def __len__(self) -> int:
        return self.count

    def select(self, rows: Any) -> "Rows":
        raise NotImplementedError


@pytest.mark.parametrize(
    ("source", "inputs", "sentence"),
    [
        ({"train": Rows(3), "test": Rows(1)}, "image", "a dict of train, test; choose"),
        ([1, 2], "image", "got list; load it without streaming=True"),
        (Rows(3), "pixels", "no column 'pixels'; it has image, label"),
        (Rows(3), ["image", "age"], "no column 'age'; it has image, label"),
        (Rows(0), "image", "the data set has no rows"),
    ],
)
def test_what_cannot_be_used_is_told_with_a_sentence(
    source: Any, inputs: Any, sentence: str
) -> None:
    with pytest.raises(WorkloadError, match=sentence):
        hugging_face(source, inputs=inputs, target="label")
