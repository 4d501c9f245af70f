"""Flower Datasets' partitioners."""

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from fedcore.errors import ConfigError, WorkloadError
from fedflower.datasets import flower_partition

needs_flower = pytest.mark.needs("flwr_datasets", "datasets")
Y = np.arange(200) % 5
PARTITIONERS = [
    ("IidPartitioner", {"num_partitions": 7}),
    ("ShardPartitioner", {"num_partitions": 5, "num_shards_per_partition": 2}),
    (
        "DirichletPartitioner",
        {"num_partitions": 5, "alpha": 0.5, "min_partition_size": 2},
    ),
    (
        "PathologicalPartitioner",
        {
            "num_partitions": 5,
            "num_classes_per_partition": 2,
            "class_assignment_mode": "first-deterministic",
        },
    ),
    ("NaturalIdPartitioner", {}),
    ("LinearPartitioner", {"num_partitions": 4}),
]


def partitioner(name: str, **settings: Any) -> Any:
    module = import_module("flwr_datasets.partitioner")
    if name not in ("IidPartitioner", "LinearPartitioner"):
        settings["partition_by"] = "label"
    return getattr(module, name)(**settings)


@needs_flower
@pytest.mark.filterwarnings("ignore::FutureWarning")  # of pyarrow, to datasets
@pytest.mark.parametrize(("name", "settings"), PARTITIONERS)
def test_clients_have_the_rows_that_flower_gives_them(
    name: str, settings: dict[str, Any]
) -> None:
    parts = flower_partition(partitioner(name, **settings), {"label": Y})
    assert len(parts) == settings.get("num_partitions", 5)
    rows = np.concatenate(parts)
    assert rows.dtype == np.int64
    assert len(set(rows.tolist())) == len(rows) <= len(Y)
    assert all((np.diff(part) > 0).all() for part in parts)
    theirs = partitioner(name, **settings)
    datasets = import_module("datasets")
    theirs.dataset = datasets.Dataset.from_dict({"label": Y})
    for client, part in enumerate(parts):
        labels = theirs.load_partition(client)["label"][:]
        assert sorted(labels) == sorted(Y[part].tolist())


@needs_flower
def test_a_data_set_of_the_users_is_left_as_it_is() -> None:
    datasets = import_module("datasets")
    source = datasets.Dataset.from_dict({"label": Y})
    parts = flower_partition(partitioner("IidPartitioner", num_partitions=2), source)
    assert sorted(np.concatenate(parts).tolist()) == list(range(200))
    assert source.column_names == ["label"]


@needs_flower
def test_a_partitioner_is_used_once() -> None:
    used = partitioner("IidPartitioner", num_partitions=2)
    flower_partition(used, {"label": Y})
    with pytest.raises(WorkloadError, match="IidPartitioner has a data set already"):
        flower_partition(used, {"label": Y})


@needs_flower
def test_a_partitioner_of_columns_is_refused() -> None:
    module = import_module("flwr_datasets.partitioner")
    vertical = module.VerticalEvenPartitioner(num_partitions=2)
    with pytest.raises(WorkloadError, match="splits columns; clients here share rows"):
        flower_partition(vertical, {"a": Y, "b": Y, "c": Y, "label": Y})


def test_something_else_is_refused() -> None:
    class Rows:
        column_names = ("label",)

    with pytest.raises(WorkloadError, match="got list, which has no dataset"):
        flower_partition([1], Rows())


def test_without_the_package_a_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fedrun.optional.is_installed", lambda module: False)
    with pytest.raises(ConfigError, match=r"needs the package datasets.*\[flower"):
        flower_partition(object(), {"label": Y})
