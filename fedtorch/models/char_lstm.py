"""The character LSTM of the FedAvg paper.

McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized
Data", AISTATS 2017, section 3: characters embedded in 8 dimensions, two layers of 256
nodes, and the next character at every place.
"""

import torch
from torch import nn


class CharLSTM(nn.Module):
    """Scores of the next character, after each."""

    def __init__(self, characters: int, embedding: int, hidden: int) -> None:
        super().__init__()
        self.table = nn.Embedding(characters, embedding)
        self.lstm = nn.LSTM(embedding, hidden, num_layers=2, batch_first=True)
        self.scores = nn.Linear(hidden, characters)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Maps indices (B, T) to scores (B, characters, T)."""
        outputs, _ = self.lstm(self.table(x))
        scores: torch.Tensor = self.scores(outputs)
        return scores.transpose(1, 2)


def char_lstm(characters: int = 90, embedding: int = 8, hidden: int = 256) -> nn.Module:
    """Returns a model of the next character; targets (B, T) are later by one place.

    It has 822,570 parameters for 90 characters: torch gives each gate two biases.

    Args:
        characters: the size of the alphabet.
        embedding: the dimensions of a character's vector.
        hidden: the nodes of each layer.
    """
    return CharLSTM(characters, embedding, hidden)
