"""Trees of tensors: a tensor, or a dict or tuple of trees."""

from collections.abc import Callable, Iterable, Sequence
from copy import copy
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
    return torch.from_numpy(np.asarray(array, order="C"))


def to_targets(data: Any) -> Any:
    """Returns targets as tensors; whole numbers and truth values become int64."""
    return map_tensors(to_tensor(data), _long)


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


def map_tensors(tree: Any, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Returns the tree with a function applied to every tensor.

    Its dicts, tuples and lists stay of their kinds, and all else stays as it is.
    """
    if isinstance(tree, torch.Tensor):
        return function(tree)
    if isinstance(tree, dict):
        parts = {name: map_tensors(part, function) for name, part in tree.items()}
        return _alike(tree, parts)
    if isinstance(tree, tuple | list) and not hasattr(tree, "to"):
        return _row_of(tree, (map_tensors(part, function) for part in tree))
    return function(tree) if hasattr(tree, "to") else tree


def _alike(tree: Any, parts: dict[Any, Any]) -> Any:
    """Returns a dict of these parts, of the same kind."""
    if type(tree) is dict:
        return parts
    alike = copy(tree)
    for name, part in parts.items():
        alike[name] = part
    return alike


def _row_of(tree: Any, parts: Iterable[Any]) -> Any:
    """Returns a tuple or list of these parts, of the same kind."""
    return tree._make(parts) if hasattr(tree, "_make") else type(tree)(parts)


def across(tree: Any, device: torch.device) -> Any:
    """Returns the tree on a device; tensors that are there already are not copied."""
    return map_tensors(tree, lambda tensor: tensor.to(device))


def join_tensors(trees: Sequence[Any]) -> Any:
    """Concatenates the rows of several trees."""
    one = trees[0]
    if isinstance(one, dict):
        parts = {name: join_tensors([tree[name] for tree in trees]) for name in one}
        return _alike(one, parts)
    if isinstance(one, tuple | list):
        return _row_of(one, map(join_tensors, zip(*trees, strict=True)))
    return None if one is None else torch.cat(list(trees))


def first(tree: Any) -> torch.Tensor:
    """Returns the first tensor of a tree."""
    while not isinstance(tree, torch.Tensor):
        tree = next(iter(tree.values())) if isinstance(tree, dict) else tree[0]
    return tree
