"""A learning rate that falls along half a cosine.

Loshchilov, Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", ICLR 2017,
arXiv 1608.03983, equation 5, without restarts: the share at a part p of the way is
to + (1 - to)·(1 + cos(π·p))/2.
"""

import math
from typing import Literal

from fedcore.lr_schedules._span import Span


class Cosine(Span):
    """Falls along half a cosine from one version to another."""

    kind: Literal["cosine"] = "cosine"

    def share(self, version: int) -> float:
        """Returns the factor of the rate at a version."""
        falls = (1 + math.cos(math.pi * self.progress(version))) / 2
        return self.to + (1 - self.to) * falls
