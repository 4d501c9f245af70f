"""Uses partitioners of Flower Datasets (``flwr-datasets``) for our clients.

Only their documented methods are called, so any partitioner with these methods works.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedcore.errors import WorkloadError
from fedcore.partitions import Partition
from fedrun.optional import require

_ROW = "latecomer row"  # the column by which rows are identified


def flower_partition(partitioner: Any, data: Any) -> Partition:
    """Returns the rows of each client, as a Flower partitioner divides them.

    Call it once, at the top of a file: it asks for one partition after the other.

    Args:
        partitioner: a partitioner of ``flwr_datasets.partitioner``, without a data set
            so far.
        data: a ``datasets.Dataset``, or the columns that the partitioner reads, by
            name, such as ``{"label": y}``.

    Returns:
        The rows of each client, ascending.

    Raises:
        WorkloadError: the partitioner has a data set already, splits columns instead of
            rows, or leaves a client without rows.
        ConfigError: ``data`` are columns, and ``datasets`` is not installed.
    """
    if isinstance(data, Mapping) and not hasattr(data, "column_names"):
        datasets = require("datasets", "flower-datasets", "a Flower partitioner")
        data = datasets.Dataset.from_dict(dict(data))
    for name in ("dataset", "load_partition", "num_partitions"):
        if not hasattr(type(partitioner), name):
            raise WorkloadError(
                "expected a partitioner of flwr_datasets.partitioner, got "
                f"{type(partitioner).__name__}, which has no {name}"
            )
    if partitioner.is_dataset_assigned():
        raise WorkloadError(
            f"this {type(partitioner).__name__} has a data set already; make a new one"
        )
    partitioner.dataset = data.add_column(_ROW, np.arange(len(data)))
    parts = []
    for client in range(partitioner.num_partitions):
        part = partitioner.load_partition(client)
        if _ROW not in part.column_names or len(part.column_names) < len(
            partitioner.dataset.column_names
        ):
            raise WorkloadError(
                f"{type(partitioner).__name__} splits columns; clients here share rows"
            )
        if not len(part):
            raise WorkloadError(
                f"{type(partitioner).__name__} leaves client {client} without rows"
            )
        rows = part.select_columns([_ROW]).with_format("numpy")[:][_ROW]
        parts.append(np.sort(np.asarray(rows, np.int64)))
    return parts
