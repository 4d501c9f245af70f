"""A tiny transformer that trains low-rank adapters alone.

Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", ICLR 2022, section 4.1:
h = W x + (alpha / r) B A x, with W frozen, A drawn at random and B zero. The decoder is
that of Radford et al., "Language Models are Unsupervised Multitask Learners", 2019.
"""

import torch
from torch import nn
from torch.nn import functional


class LoRALinear(nn.Module):
    """A frozen layer, and a trained one of low rank beside it."""

    def __init__(self, inputs: int, outputs: int, rank: int, alpha: float) -> None:
        super().__init__()
        self.base = nn.Linear(inputs, outputs)
        self.down = nn.Linear(inputs, rank, bias=False)
        self.up = nn.Linear(rank, outputs, bias=False)
        nn.init.zeros_(self.up.weight)
        self.scale = alpha / rank

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Maps (..., inputs) to (..., outputs)."""
        found: torch.Tensor = self.base(x) + self.scale * self.up(self.down(x))
        return found


class DecoderBlock(nn.Module):
    """Causal attention with adapters on queries and values, and two layers."""

    def __init__(self, width: int, heads: int, rank: int, alpha: float) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query = LoRALinear(width, width, rank, alpha)
        self.key = nn.Linear(width, width)
        self.value = LoRALinear(width, width, rank, alpha)
        self.mix = nn.Linear(width, width)
        self.wide = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Maps (B, T, width) to the same shape."""
        batch, length, width = x.shape
        heads = (batch, length, self.heads, width // self.heads)
        y = self.before(x)
        query, key, value = (
            layer(y).view(heads).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        y = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.mix(y.transpose(1, 2).reshape(batch, length, width))
        y = functional.gelu(self.wide(self.after(x)))
        found: torch.Tensor = x + self.narrow(y)
        return found


class Decoder(nn.Module):
    """Scores of the next token, after each."""

    def __init__(self, tokens: int, width: int, blocks: nn.Module, most: int) -> None:
        super().__init__()
        self.table = nn.Embedding(tokens, width)
        self.places = nn.Parameter(0.02 * torch.randn(most, width))
        self.blocks = blocks
        self.norm = nn.LayerNorm(width)
        self.scores = nn.Linear(width, tokens, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Maps tokens (B, T) to scores (B, tokens, T)."""
        y = self.table(x) + self.places[: x.shape[1]]
        scores: torch.Tensor = self.scores(self.norm(self.blocks(y)))
        return scores.transpose(1, 2)


def lora_transformer(
    tokens: int = 90,
    *,
    width: int = 64,
    heads: int = 4,
    blocks: int = 2,
    length: int = 128,
    rank: int = 4,
    alpha: float = 8.0,
    seed: int = 0,
) -> nn.Module:
    """Returns a decoder with trained adapters alone: 2,048 of 121,856 parameters.

    The frozen weights follow from ``seed``: all clients need the same. Where there are
    trained weights, load them into the returned module.

    Args:
        tokens: the size of the vocabulary.
        width: the dimensions of a token's vector.
        heads: the number of attention heads.
        blocks: the number of blocks.
        length: the longest text, in tokens.
        rank: the rank of the adapters.
        alpha: the factor of the adapters' output, times ``rank``.
        seed: the seed of the frozen weights.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        inner = [DecoderBlock(width, heads, rank, alpha) for _ in range(blocks)]
        model = Decoder(tokens, width, nn.Sequential(*inner), length)
    model.requires_grad_(False)
    for layer in model.modules():
        if isinstance(layer, LoRALinear):
            layer.down.reset_parameters()  # from the caller's seed
            layer.down.requires_grad_(True)
            layer.up.requires_grad_(True)
    return model
