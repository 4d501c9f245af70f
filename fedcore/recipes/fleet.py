"""FLeet: online federated learning, one minibatch gradient at a time.

Damaskinos, Guerraoui, Kermarrec, Nitu, Patra, Taïani, "FLeet: Online Federated
Learning via Staleness Awareness and Performance Prediction", Middleware 2020,
arXiv 2006.07273: AdaSGD with K = 1 and one local step; x ← x - γ·λ·g, where γ is
the client's learning rate. The paper's I-Prof needs an objective, so it is added by
hand: ``controllers: [{kind: i_prof, seconds: 3}]`` sets the size of the batch for each
device. Its controller, ``update_filter``, is off until a percentile is set; then it
refuses tasks before they are computed.
"""

from typing import ClassVar, Literal

from fedcore.algorithm import AlgorithmConfig
from fedcore.clients import AnyClientAlgorithm, LocalSGD
from fedcore.config import Count
from fedcore.staleness import AdaSGD, AnyStaleness
from fedcore.update_filters import AnyUpdateFilter, FleetController


class Fleet(AlgorithmConfig):
    """AdaSGD on single gradients."""

    paper: ClassVar[str] = "Damaskinos et al., Middleware 2020"
    kind: Literal["fleet"] = "fleet"
    buffer: Count = 1
    staleness: AnyStaleness = AdaSGD()
    update_filter: AnyUpdateFilter = FleetController()
    client: AnyClientAlgorithm = LocalSGD(lr=0.05, steps=1, batch=100)
