"""Advice about models whose buffers are averaged or stay on clients."""

from collections.abc import Iterable, Mapping

from torch import nn

from fedtorch.modules import COUNTER, MEAN_NAME


def advice(
    module: nn.Module,
    statistics: Iterable[str],
    kinds: Mapping[str, str],
    local: Iterable[str],
) -> str:
    """Returns what to know, as a sentence; empty if there is nothing.

    Args:
        module: the model.
        statistics: the batch statistics of which the user has said nothing.
        kinds: what becomes of tensors.
        local: which of them stay on the clients.
    """
    means = [n for n in statistics if kinds[n] == "average" and n.endswith(MEAN_NAME)]
    sentences = [_of_statistics(module, means[0])] if means else []
    names = [name for name in local if not name.endswith(COUNTER)]
    if names:
        sentences.append(_of_local(names))
    return "; ".join(sentences)


def _of_statistics(module: nn.Module, mean: str) -> str:
    layer = mean.rpartition(".")[0]
    return (
        f"layer {layer!r} ({type(module.get_submodule(layer)).__name__}) keeps batch "
        "statistics; they are averaged, which fails where clients have other classes: "
        "use nn.GroupNorm, or say buffers='local', or buffers='average' if it is meant"
    )


def _of_local(names: list[str]) -> str:
    more = f" and {len(names) - 1} more never leave" if names[1:] else " never leaves"
    return (
        f"tensor {names[0]!r}{more} the clients: the evaluator and every checkpoint "
        "hold first values in that place, so look at what the clients measure "
        "(evaluate.clients)"
    )
