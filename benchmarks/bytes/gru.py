"""A small recurrent network that reads characters, in torch."""

import torch
from torch import nn

from benchmarks.bytes.cnn import accuracy
from benchmarks.bytes.data import SYMBOLS, library_texts, shares
from fedtorch import TorchWorkload


class Reader(nn.Module):
    """23,601 parameters: an embedding, a gated recurrent unit and a linear layer."""

    def __init__(self, width: int = 16, hidden: int = 64) -> None:
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS, width)
        self.gru = nn.GRU(width, hidden, batch_first=True)
        self.output = nn.Linear(hidden, SYMBOLS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores (N, symbols, T) of the character that follows each of (N, T)."""
        states: torch.Tensor = self.gru(self.embedding(x))[0]
        scores: torch.Tensor = self.output(states)
        return scores.transpose(1, 2)


texts = TorchWorkload(
    model=Reader,
    loss=nn.CrossEntropyLoss(),
    metrics=accuracy,
    train_data=shares(library_texts),
)
