"""Metrics of a whole data set, whose outputs are computed a batch at a time.

A metric that is a function is given the outputs and targets of all samples at once,
since AUC, F1 or recall of a set are no mean over its batches. A metric with ``update``,
``compute`` and ``reset`` (those of torchmetrics and :mod:`fedcore.metrics`) is given
one batch after the other, and no outputs are kept for it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np

from fedcore.errors import WorkloadError
from fedcore.remembered import copy_object
from fedcore.text import wrong_metrics
from fedcore.typing import Indices

EVALUATION_BATCH = 1024
PIECE = 64 << 20  # bytes of outputs and targets that a streamed metric is given at once
NOT_JOINED = (TypeError, ValueError, RuntimeError, KeyError)  # raised by joining


@runtime_checkable
class StreamedMetric(Protocol):
    """A metric that is given one batch after the other."""

    def update(self, output: Any, target: Any) -> None:
        """Takes the outputs for a batch, and their targets, a row for each sample."""

    def compute(self) -> Any:
        """Returns the metric since :meth:`reset`: a number, or several by name."""

    def reset(self) -> None:
        """Forgets all batches."""


Function = Callable[[Any, Any], Any]
Join = Callable[[list[Any]], Any]
AnyMetric = Function | StreamedMetric
MetricsOf = AnyMetric | Mapping[str, AnyMetric] | None
Batches = Iterable[tuple[Any, Any]]


def evaluation_batches(
    samples: int, batch: int = EVALUATION_BATCH, start: int = 0
) -> Iterator[Indices]:
    """Yields all rows in order from ``start`` on, a batch at a time."""
    for at in range(start, samples, batch):
        yield np.arange(at, min(at + batch, samples))


def measure(metrics: MetricsOf, batches: Batches, join: Join) -> dict[str, float]:
    """Returns the values of metrics over all batches together.

    Args:
        metrics: a function of (output, target) that returns numbers by name, a metric
            with ``update`` and ``compute``, or several of them by name.
        batches: outputs and targets.
        join: joins the outputs, or the targets, of several batches.

    Raises:
        WorkloadError: a metric is no number, or the outputs cannot be joined.
    """
    streams, functions = _sort_metrics(metrics)
    for stream in streams.values():
        stream.reset()
    kept: list[tuple[Any, Any]] = []
    for output, target in _pieces(batches, join):
        for stream in streams.values():
            stream.update(output, target)
        if functions:
            kept.append((output, target))
    values: dict[str, float] = {}
    for name, stream in streams.items():
        values |= numbers(name, stream.compute())
        stream.reset()
    if functions:
        output, target = (
            _whole(list(parts), join) for parts in zip(*kept, strict=True)
        )
        for name, function in functions.items():
            values |= numbers(name, function(output, target))
    return values


def _pieces(batches: Batches, join: Join) -> Batches:
    """Joins consecutive batches, up to :data:`PIECE` bytes, where that is possible.

    A metric that is no sum over batches, such as a loss with class weights, is then
    exact on sets of a usual size although it is given batches.
    """
    kept: list[tuple[Any, Any]] = []
    nbytes = 0
    for batch in batches:
        kept.append(batch)
        nbytes += nbytes_of(batch)
        if nbytes >= PIECE:
            yield from _piece(kept, join)
            kept, nbytes = [], 0
    yield from _piece(kept, join)


def _piece(batches: list[tuple[Any, Any]], join: Join) -> Batches:
    if len(batches) < 2:
        return batches
    try:
        output, target = (join(list(parts)) for parts in zip(*batches, strict=True))
    except NOT_JOINED:
        return batches
    return [(output, target)]


def nbytes_of(tree: Any) -> int:
    """Returns the bytes of all arrays of a tree."""
    if isinstance(tree, Mapping):
        tree = tuple(tree.values())
    if isinstance(tree, tuple | list):
        return sum(map(nbytes_of, tree))
    return int(getattr(tree, "nbytes", 0))


def name_metrics(metrics: MetricsOf) -> Mapping[str, AnyMetric]:
    """Returns metrics by name; a function that names them itself has the name ""."""
    if metrics is None:
        return {}
    return metrics if isinstance(metrics, Mapping) else {"": metrics}


def _sort_metrics(
    metrics: MetricsOf,
) -> tuple[dict[str, StreamedMetric], dict[str, Function]]:
    """Splits metrics into those that take batches and those that take everything."""
    streams: dict[str, StreamedMetric] = {}
    functions: dict[str, Function] = {}
    for name, metric in name_metrics(metrics).items():
        if isinstance(metric, type):
            raise WorkloadError(
                f"metrics={{{name!r}: ...}} is a class; write {metric.__name__}(...)"
            )
        if isinstance(metric, StreamedMetric):
            streams[name] = metric
        elif callable(metric):
            functions[name] = _fresh(_check_function(name, metric))
        else:
            raise WorkloadError(
                f"metrics={{{name!r}: ...}} is {type(metric).__name__}; expected a "
                "function of (output, target), or a metric with update and compute"
            )
    return streams, functions


def _fresh(function: Function) -> Function:
    """Returns a copy of what is called, so that each evaluation is its first.

    What it remembers, a function in its closure, would depend on who evaluates. One
    that cannot be copied is used as it is.
    """
    fresh: Function = copy_object(function)
    return fresh


def _check_function(name: str, function: Function) -> Function:
    module = getattr(function, "__module__", None) or ""  # compiled ones may have None
    if module.startswith("sklearn."):
        raise WorkloadError(
            f"metrics={{{name!r}: ...}}: functions of scikit-learn take the targets "
            f"first; write lambda output, target: {function.__name__}(target, ...)"
        )
    return function


def _whole(parts: list[Any], join: Join) -> Any:
    if len(parts) == 1:
        return parts[0]
    try:
        return join(parts)
    except NOT_JOINED as error:
        raise WorkloadError(
            "a metric that is a function sees the outputs of all samples at once, and "
            f"those of several batches cannot be joined: {error}; use metrics with "
            "update and compute"
        ) from error


def numbers(name: str, value: Any) -> dict[str, float]:
    """Returns a metric's value as numbers by name.

    Args:
        name: of the metric; empty if the value names its numbers itself.
        value: a number, or a mapping of numbers by name.

    Raises:
        WorkloadError: these are no numbers, or have no names.
    """
    if isinstance(value, Mapping):
        return {key: number(f"the metric {key!r}", of) for key, of in value.items()}
    if not name:
        raise WorkloadError(
            f"an evaluation returned {type(value).__name__}; expected numbers by name, "
            'such as {"accuracy": 0.9}'
        )
    return {name: number(f"the metric {name!r}", value)}


def check_metrics(values: Mapping[str, float]) -> Mapping[str, float]:
    """Returns metrics that can be sent and recorded.

    Raises:
        WorkloadError: they are too many, or have impossible names.
    """
    if reason := wrong_metrics(values):
        raise WorkloadError(f"evaluate: {reason}")
    return values


def number(what: str, value: Any) -> float:
    """Returns a number of Python, of NumPy or torch, or of an array of one number.

    Args:
        what: names it, for the message.
        value: the number.

    Raises:
        WorkloadError: it is something else.
    """
    try:
        return float(value.item() if hasattr(value, "item") else value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        shape = getattr(value, "shape", None)
        found = f"an array of shape {tuple(shape)}" if shape else type(value).__name__
        raise WorkloadError(f"{what} is {found}; expected one number") from None
