"""A small residual network with group normalisation.

He et al., "Deep Residual Learning for Image Recognition", CVPR 2016, section 4.2, with
one block a stage. GroupNorm (Wu & He, ECCV 2018) takes the place of BatchNorm, whose
statistics fail on non-IID clients: Hsieh et al., "The Non-IID Data Quagmire of
Decentralized Machine Learning", ICML 2020, section 5.
"""

from collections.abc import Callable

import torch
from torch import nn

GROUPS = 8
Norm = Callable[[int], nn.Module]


def group_norm(channels: int) -> nn.Module:
    """Returns eight groups of channels."""
    return nn.GroupNorm(GROUPS, channels)


class Block(nn.Module):
    """Two 3x3 convolutions around a shortcut."""

    def __init__(
        self, inputs: int, outputs: int, stride: int, norm: Norm = group_norm
    ) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.first_norm = norm(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.second_norm = norm(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Maps (B, inputs, H, W) to (B, outputs, H / stride, W / stride)."""
        y = torch.relu(self.first_norm(self.first(x)))
        y = self.second_norm(self.second(y))
        return torch.relu(y + self.shortcut(x))


def res_net(
    channels: int = 3, classes: int = 10, width: int = 16, norm: Norm = group_norm
) -> nn.Module:
    """Scores (B, classes) of images (B, channels, H, W) of any size.

    A first convolution and three blocks of ``width``, twice and four times as many
    channels: 77,850 parameters for colour images and ten classes.
    ``norm`` makes the normalisation of so many channels, such as ``nn.BatchNorm2d``.
    """
    return nn.Sequential(
        nn.Conv2d(channels, width, 3, padding=1, bias=False),
        norm(width),
        nn.ReLU(),
        Block(width, width, 1, norm),
        Block(width, 2 * width, 2, norm),
        Block(2 * width, 4 * width, 2, norm),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4 * width, classes),
    )
