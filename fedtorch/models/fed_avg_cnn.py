"""The CNN of the FedAvg paper.

McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized
Data", AISTATS 2017, section 3: two 5x5 convolutions of 32 and 64 channels, each with
2x2 max pooling, and a layer of 512; 1,663,370 parameters for 28x28 images.
"""

from torch import nn


def fed_avg_cnn(channels: int = 1, classes: int = 10, size: int = 28) -> nn.Module:
    """Scores (B, classes) of images (B, channels, size, size)."""
    return nn.Sequential(
        nn.Conv2d(channels, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * (size // 4) ** 2, 512),
        nn.ReLU(),
        nn.Linear(512, classes),
    )
