"""The model, the data, and how it is trained and tested."""

import sysconfig
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import BertConfig, BertForSequenceClassification

PACKAGES = ("asyncio", "email", "encodings", "pydoc_data")
LENGTH, MOST = 64, 400  # bytes of a sample; samples of a package


def get_model():
    """A BERT of two layers whose tokens are bytes."""
    return BertForSequenceClassification(
        BertConfig(
            vocab_size=256,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
            max_position_embeddings=LENGTH,
            num_labels=len(PACKAGES),
        )
    )


def load_data(partition_id, num_partitions, batch_size):
    """The loaders of one partition: four samples of five train, the fifth tests."""
    folder = Path(sysconfig.get_path("stdlib"))
    x, y = [], []
    for label, package in enumerate(PACKAGES):
        files = sorted((folder / package).rglob("*.py"))
        text = np.frombuffer(b"".join(file.read_bytes() for file in files), np.uint8)
        rows = text[: len(text) // LENGTH * LENGTH].reshape(-1, LENGTH)
        drawn = np.random.default_rng(0).permutation(len(rows))[:MOST]
        x.append(rows[drawn])
        y.append(np.full(len(drawn), label))
    whole = np.concatenate(x), np.concatenate(y)
    order = np.random.default_rng(1).permutation(len(whole[1]))
    own = order[partition_id::num_partitions]
    held = np.arange(len(own)) % 5 == 0
    train, test = (
        TensorDataset(
            *(torch.from_numpy(part[rows].astype(np.int64)) for part in whole)
        )
        for rows in (own[~held], own[held])
    )
    return (
        DataLoader(train, batch_size=batch_size, shuffle=True),
        DataLoader(test, batch_size=batch_size),
    )


def train(net, loader, epochs, lr, device):
    """Trains with AdamW; returns the mean loss."""
    net.to(device).train()
    optimizer = torch.optim.AdamW(net.parameters(), lr=lr)
    losses = []
    for _ in range(epochs):
        for tokens, labels in loader:
            out = net(input_ids=tokens.to(device), labels=labels.to(device))
            out.loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(out.loss.item())
    return sum(losses) / max(1, len(losses))


def test(net, loader, device):
    """Returns the loss and the accuracy."""
    net.to(device).eval()
    loss, right, count = 0.0, 0, 0
    with torch.no_grad():
        for tokens, labels in loader:
            out = net(input_ids=tokens.to(device), labels=labels.to(device))
            loss += out.loss.item() * len(labels)
            right += (out.logits.argmax(1).cpu() == labels).sum().item()
            count += len(labels)
    return loss / max(1, count), right / max(1, count)
