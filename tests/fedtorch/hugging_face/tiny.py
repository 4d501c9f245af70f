"""A GPT-2 of a few thousand values, from its config, with and without LoRA."""

import os
from importlib import import_module
from typing import Any

import numpy as np
import torch

os.environ["HF_HUB_OFFLINE"] = "1"  # before the first import
needs = ("transformers", "peft")
TEXT = np.random.default_rng(0).integers(0, 32, (24, 16)).astype(np.uint8)


def gpt2(seed: int = 5) -> Any:
    """Two layers of width 16; its tokens are bytes."""
    transformers = import_module("transformers")
    torch.manual_seed(seed)
    shape = {"vocab_size": 32, "n_positions": 16, "n_embd": 16, "n_layer": 2}
    off = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    config = transformers.GPT2Config(
        **shape, **off, n_head=2, bos_token_id=0, eos_token_id=0
    )
    return transformers.GPT2LMHeadModel(config)


def with_adapter(seed: int = 5, **settings: Any) -> Any:
    """The same with LoRA of rank 2 at the attention's first layer."""
    peft = import_module("peft")
    config = peft.LoraConfig(
        r=2,
        target_modules=["c_attn"],
        fan_in_fan_out=True,
        task_type="CAUSAL_LM",
        **settings,
    )
    return peft.get_peft_model(gpt2(seed), config)
