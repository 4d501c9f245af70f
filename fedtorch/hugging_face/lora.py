"""LoRA whose A is frozen: an update is linear in B, so updates of B add up.

Youbang Sun, Zitao Li, Yaliang Li, Bolin Ding, "Improving LoRA in Privacy-preserving
Federated Learning", ICLR 2024 (FFA-LoRA). A layer's weight is W + s·B A. Where clients
train both, the mean of B_i A is not the mean of B_i times that of A_i; with one A for
all it is, so weights of staleness, error memories and sums mean what they say, and half
of the bytes travel. Training both is the usual baseline (FedIT: Zhang et al., ICASSP
2024, arXiv 2305.05644).

Here A is drawn by NumPy, for all clients alike, and is part of the frozen weights'
fingerprint. An adapter that has been trained before keeps its A.
"""

import json
import math
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import nn

from fedcore.errors import ModelError
from fedcore.params import ADAPTER, ParamSpec, Rest
from fedcore.rng import Key
from fedtorch.tensors import to_array
from fedtorch.whole import rest_of

Lora = Literal["b", "both"]
TRAINED: tuple[Lora, ...] = get_args(Lora)
_PAIRS = {"lora_A": "lora_B", "lora_embedding_A": "lora_embedding_B"}


def with_lora(module: nn.Module, lora: Lora, seed: int) -> nn.Module:
    """Freezes A of all LoRA layers, if B alone is trained; returns the module.

    Args:
        module: a model; without LoRA layers, nothing happens.
        lora: ``b`` or ``both``.
        seed: A is drawn from it in layers that nobody has trained, where A or B is 0.

    Raises:
        ModelError: ``lora`` is something else.
    """
    if lora not in TRAINED:
        raise ModelError(f"lora: {lora!r} is none of {', '.join(TRAINED)}")
    if lora == "both":
        return module
    for name, a, b in list(_layers(module)):
        if not (a.any() and b.any()):
            b.data.zero_()
            a.data.copy_(_draw(name, a.shape, seed))
        a.requires_grad_(False)
    return module


def _layers(module: nn.Module) -> Iterator[tuple[str, nn.Parameter, nn.Parameter]]:
    """Yields A and B of each LoRA layer whose adapter is trained."""
    known = dict(module.named_parameters())
    for name, parameter in known.items():
        for own, other in _PAIRS.items():
            if f".{own}." in name and parameter.requires_grad:
                yield name, parameter, known[name.replace(f".{own}.", f".{other}.")]


def _draw(name: str, shape: torch.Size, seed: int) -> torch.Tensor:
    """Returns A: uniform as PEFT draws it, normal for an embedding, whose A is 0."""
    rng = Key.root(seed).fold_in("lora", name).generator()
    if ".lora_embedding_A." in name:
        return torch.from_numpy(rng.standard_normal(shape) / shape[0]).float()
    bound = 1 / math.sqrt(math.prod(shape[1:]))
    return torch.from_numpy(rng.uniform(-bound, bound, shape)).float()


def rest_of_adapter(module: nn.Module, spec: ParamSpec) -> Rest:
    """Returns what checkpoints hold beside the trained tensors.

    Those of a PeftModel hold the adapter alone, with its config and the names that
    PEFT gives to its tensors; the base is known by its digest. Any other model's are
    whole.
    """
    peft = sys.modules.get("peft")
    if peft is None or not isinstance(module, peft.PeftModel):
        return rest_of(module, spec)
    names = _names(peft, module)
    trained = {tensor.name for tensor in spec.tensors}
    tensors = module.state_dict(keep_vars=True)
    about = {"config": _config(module), "names": names}
    return Rest(
        frozen={n: to_array(tensors[n]) for n in names if n not in trained},
        tied={},
        about={ADAPTER: json.dumps(about, sort_keys=True)},
    )


def _names(peft: Any, module: Any) -> dict[str, str]:
    """Returns the names of the adapter's tensors here, and those in PEFT's files."""
    tensors = module.state_dict(keep_vars=True)
    here = {id(tensor): name for name, tensor in reversed(tensors.items())}
    saved = peft.get_peft_model_state_dict(
        module, tensors, module.active_adapter, save_embedding_layers=False
    )
    return {
        here[id(tensor)]: name for name, tensor in saved.items() if id(tensor) in here
    }


def _config(module: Any) -> dict[str, Any]:
    """Returns the adapter's config, as PEFT writes it."""
    with tempfile.TemporaryDirectory() as folder:
        module.peft_config[module.active_adapter].save_pretrained(folder)
        config = json.loads(Path(folder, "adapter_config.json").read_text("utf-8"))
    return {**config, "inference_mode": True}  # as PEFT says in a file
