"""The user file: a tiny GPT-2 whose tokens are bytes, and LoRA above it.

`python -m examples.hugging_face` trains the base that BASE names, and runs all of it.
"""

import math
import os
from pathlib import Path

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from torch.nn.functional import cross_entropy
from transformers import GPT2Config, GPT2LMHeadModel

from examples.hugging_face.text import CLIENTS, LENGTH, split
from latecomer import HuggingFaceWorkload

BASE = Path(os.environ.get("LATECOMER_BASE", "runs/hugging_face/base"))
LORA = LoraConfig(
    r=8,
    lora_alpha=32,
    target_modules=["c_attn", "c_proj", "c_fc"],
    fan_in_fan_out=True,
    task_type="CAUSAL_LM",
)
PROMPT = b"def "


def fresh():
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=256,
            n_positions=LENGTH,
            n_embd=64,
            n_layer=2,
            n_head=4,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=0,
            eos_token_id=0,
        )
    )


def model():
    return get_peft_model(GPT2LMHeadModel.from_pretrained(BASE), LORA)


def train_data(client):
    """One package a client; all of them where the run says --data package=all."""
    package = client.args.get("package", CLIENTS[client.index % len(CLIENTS)])
    chosen = CLIENTS if package == "all" else [package]
    return np.concatenate([split(each)[0] for each in chosen])


def test_data():
    return np.concatenate([split(each)[1] for each in CLIENTS])


def bits_per_byte(logits, rows):
    loss = cross_entropy(logits[:, :-1].flatten(0, 1), rows[:, 1:].flatten())
    return {"bits_per_byte": loss / math.log(2)}


def write(model):
    """What the model writes after PROMPT, byte by byte."""
    text = torch.tensor([[*PROMPT]])
    draws = torch.Generator().manual_seed(0)
    for _ in range(100):
        chances = (model(input_ids=text).logits[0, -1] / 0.7).softmax(0)
        text = torch.cat(
            [text, torch.multinomial(chances, 1, generator=draws)[None]], 1
        )
    return bytes(text[0].tolist()).decode("utf-8", "replace")


workload = HuggingFaceWorkload(
    model=model,
    metrics=bits_per_byte,
    train_data=train_data,
    test_data=test_data,
    write=write,
    eval_rows=64,
)
