"""Trees of tensors: a tensor, or a dict or tuple of trees."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from fedcore.errors import WorkloadError

CPU = torch.device("cpu")


def to_tensor(data: Any) -> Any:
    """Returns arrays as tensors that share their memory; float64 becomes float32.

    What can be moved between devices as tensors can, such as a packed sequence or a
    graph that a ``collate`` has made, stays as it is.
    """
    if hasattr(data, "to") and callable(data.to):
        return data
    if isinstance(data, dict):
        return {name: to_tensor(part) for name, part in data.items()}
    if isinstance(data, tuple):
        return tuple(to_tensor(part) for part in data)
    array = np.asarray(data)
    if array.dtype == np.float64:
        array = array.astype(np.float32)
    if array.dtype.kind not in "biufc":
        raise WorkloadError(
            f"a tensor holds numbers, the data are {_kind(array)}; make numbers of "
            "them, such as np.unique(words, return_inverse=True)[1]"
        )
    return torch.from_numpy(np.ascontiguousarray(array))


def to_targets(data: Any) -> Any:
    """Returns targets as tensors; whole numbers and truth values become int64."""
    return mapped(to_tensor(data), _long)


def _long(tensor: torch.Tensor) -> torch.Tensor:
    if not isinstance(tensor, torch.Tensor):
        return tensor
    is_whole = not tensor.is_floating_point() and not tensor.is_complex()
    return tensor.long() if is_whole else tensor


def _kind(array: npt.NDArray[Any]) -> str:
    first = array.ravel()[:1].tolist()
    words = "words" if array.dtype.kind in "US" else f"of type {array.dtype}"
    return f"{words} such as {first[0]!r}" if first else words


def to_array(tensor: torch.Tensor) -> npt.NDArray[Any]:
    """Copies a tensor to NumPy; types that NumPy lacks, as bfloat16, become float32."""
    whole = tensor.detach().cpu()
    try:
        return np.array(whole.numpy())
    except TypeError:
        return np.array(whole.float().numpy())


def mapped(tree: Any, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Returns the tree with a function applied to every tensor."""
    if isinstance(tree, dict):
        return {name: mapped(part, function) for name, part in tree.items()}
    if isinstance(tree, tuple) and not hasattr(tree, "to"):
        return tuple(mapped(part, function) for part in tree)
    return function(tree)


def across(tree: Any, device: torch.device) -> Any:
    """Returns the tree on a device; tensors that are there already are not copied."""
    return mapped(tree, lambda tensor: tensor.to(device))


def join_tensors(trees: Sequence[Any]) -> Any:
    """Concatenates the rows of several trees."""
    if isinstance(trees[0], dict):
        return {name: join_tensors([tree[name] for tree in trees]) for name in trees[0]}
    if isinstance(trees[0], tuple):
        return tuple(join_tensors(parts) for parts in zip(*trees, strict=True))
    return torch.cat(list(trees))


def first(tree: Any) -> torch.Tensor:
    """Returns the first tensor of a tree."""
    while not isinstance(tree, torch.Tensor):
        tree = next(iter(tree.values())) if isinstance(tree, dict) else tree[0]
    return tree
