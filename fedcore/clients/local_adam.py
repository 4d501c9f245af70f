"""Local Adam: a few steps of Adam on each client.

Kingma, Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015, arXiv 1412.6980,
Algorithm 1, with ``weight_decay`` added to the gradient as torch.optim.Adam adds it.
With each task the moments start at zero, and the count of the bias correction with
them; or all three stay with the client (``keep_moments``). They are never sent.
"""

from typing import Literal

from fedcore.clients._adam import AdamConfig


class LocalAdam(AdamConfig):
    """Adam for a number of steps or of passes over the data."""

    kind: Literal["local_adam"] = "local_adam"
