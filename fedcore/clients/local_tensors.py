"""Tensors that never leave a client: they are trained behind the model's own.

Arivazhagan, Aggarwal, Singh, Choudhary, "Federated Learning with Personalization
Layers" (FedPer), 2019, arXiv 1912.00818, keeps the last layers; Li, Jiang, Zhang, Kamp,
Dou, "FedBN: Federated Learning on Non-IID Features via Local Batch Normalization", ICLR
2021, arXiv 2102.07623, the parameters and statistics of BatchNorm.

The rule of the client algorithm moves them as it moves the model, but for arrays that
it brings along (a drift, a velocity from the task before), which are zero for them. A
pull goes to where the task began. They do not depend on verdicts.
"""

from typing import Any

from fedcore.arrays import array_namespace, like, resize
from fedcore.clients.base import ClientAlgorithmConfig, Rule, Taken, TakeSteps
from fedcore.typing import Array, State, Vector

_METHOD, _LOCAL = "method", "local tensors"


class WithLocal:
    """Takes steps on models (D,) or (N, D) that local values (L,) or (N, L) follow."""

    def __init__(self, take: TakeSteps, local_L: Array) -> None:
        """``local_L`` are the values before the first step."""
        self._take, self.local_L = take, local_L

    def __call__(self, start_D: Array, rule: Rule) -> Taken:
        """Takes all steps; ``local_L`` are then the values after the last one."""
        xp, dim = array_namespace(start_D), start_D.shape[-1]
        whole_D = xp.concat([start_D, like(self.local_L, start_D)], axis=-1)
        taken = self._take(whole_D, _of_width(rule, whole_D.shape[-1]))
        self.local_L = whole_D[..., dim:] - taken.delta_D[..., dim:]
        delta_D = xp.asarray(taken.delta_D[..., :dim], copy=True)
        return Taken(delta_D, taken.loss, _of_width(taken.rule, dim))


def _of_width(rule: Any, width: int) -> Any:
    """Returns a rule for models of another width.

    Its arrays, fields that end in ``_D``, are cut or continued by zeros, and so are
    those of its parts.
    """
    parts = {name: getattr(rule, name) for name in getattr(rule, "_fields", ())}
    changed = {
        name: resize(part, width) if name.endswith("_D") else _of_width(part, width)
        for name, part in parts.items()
        if part is not None and (name.endswith("_D") or hasattr(part, "_fields"))
    }
    return rule._replace(**changed) if changed else rule


def join_kept(method: State, local_L: Vector) -> State:
    """Returns a client's kept state, made of its method's state and local values."""
    return {_METHOD: method, _LOCAL: local_L}


def split_kept(kept: State, initial_L: Vector | None) -> tuple[State, Vector | None]:
    """Returns the method's state and the local values of what a client keeps.

    Args:
        kept: None at first.
        initial_L: the local values at first; None: the model has none.
    """
    if initial_L is None:
        return kept, None
    return (None, initial_L) if kept is None else (kept[_METHOD], kept[_LOCAL])


def without_method(kept: State, *, has_local: bool) -> State:
    """Returns what is left of what a client keeps when its method is another one."""
    if not has_local or kept is None:
        return None
    return join_kept(None, kept[_LOCAL])


def fork_state(config: ClientAlgorithmConfig, kept: State, *, has_local: bool) -> State:
    """Returns the client's state once the server's history is another one."""
    if not has_local or kept is None:
        return config.fork_state(kept)
    return join_kept(config.fork_state(kept[_METHOD]), kept[_LOCAL])


def take_back(
    config: ClientAlgorithmConfig, kept: State, gone_D: Vector, *, has_local: bool
) -> State:
    """Returns the client's state as if an update that is gone for good had not been.

    The client has learned from it all the same, so its local values stay.

    Args:
        config: of the client algorithm.
        kept: what it keeps now.
        gone_D: the update.
        has_local: whether the model has local values.
    """
    if not has_local or kept is None:
        return config.take_back(kept, gone_D)
    return join_kept(config.take_back(kept[_METHOD], gone_D), kept[_LOCAL])
