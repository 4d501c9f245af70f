"""A multilayer perceptron.

McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized
Data", AISTATS 2017, section 3: their 2NN is ``mlp(784, 200, 200, 10)``, with 199,210
parameters.
"""

from itertools import pairwise

from torch import nn


def mlp(*sizes: int) -> nn.Module:
    """Returns fully connected layers with ReLU between them.

    Args:
        sizes: the numbers of features, of nodes in each hidden layer, and of classes.

    Example:
        >>> sum(p.numel() for p in mlp(64, 32, 10).parameters())
        2410
    """
    layers: list[nn.Module] = [nn.Flatten()]
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])
