"""DynSGD: each update is applied at once, divided by its staleness.

Jiang, Cui, Zhang, Yu, "Heterogeneity-aware Distributed Parameter Servers", SIGMOD 2017:
λ = 1/(τ + 1) (:mod:`fedcore.staleness.inverse`). A client sends one minibatch gradient
here, as FLeet (Middleware 2020) compares with it. Of the paper only the abstract was
within reach: a learning rate that takes the delay of each update into account. The
formula is that of FLeet's and of dist-keras' code.
"""

from typing import ClassVar, Literal

from fedcore.algorithm import AlgorithmConfig
from fedcore.clients import AnyClientAlgorithm, LocalSGD
from fedcore.config import Count
from fedcore.staleness import AnyStaleness, Inverse


class DynSGD(AlgorithmConfig):
    """Asynchronous SGD, dampened by the inverse of the staleness."""

    paper: ClassVar[str] = "Jiang et al., SIGMOD 2017"
    kind: Literal["dyn_sgd"] = "dyn_sgd"
    buffer: Count = 1
    staleness: AnyStaleness = Inverse()
    client: AnyClientAlgorithm = LocalSGD(lr=0.05, steps=1)
