"""A small residual network with group normalisation.

He et al., "Deep Residual Learning for Image Recognition", CVPR 2016, section 4.2, with
one block a stage. GroupNorm (Wu & He, ECCV 2018) takes the place of BatchNorm, whose
statistics fail on non-IID clients: Hsieh et al., "The Non-IID Data Quagmire of
Decentralized Machine Learning", ICML 2020, section 5.
"""

import torch
from torch import nn

GROUPS = 8


class Block(nn.Module):
    """Two 3x3 convolutions around a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.first_norm = nn.GroupNorm(GROUPS, outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.second_norm = nn.GroupNorm(GROUPS, outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, inputs, H, W) to (B, outputs, H / stride, W / stride)."""
        y = torch.relu(self.first_norm(self.first(x)))
        y = self.second_norm(self.second(y))
        return torch.relu(y + self.shortcut(x))


def res_net(channels: int = 3, classes: int = 10, width: int = 16) -> nn.Module:
    """Scores (B, classes) of images (B, channels, H, W) of any size.

    A first convolution and three blocks of ``width``, twice and four times as many
    channels: 77,850 parameters for colour images and ten classes.
    """
    return nn.Sequential(
        nn.Conv2d(channels, width, 3, padding=1, bias=False),
        nn.GroupNorm(GROUPS, width),
        nn.ReLU(),
        Block(width, width, 1),
        Block(width, 2 * width, 2),
        Block(2 * width, 4 * width, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4 * width, classes),
    )
