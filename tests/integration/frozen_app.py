"""A network of which a part is trained: frozen weights, buffers, and tied weights."""

from typing import Any

import torch
from torch import nn

from fedtorch import TorchWorkload

X = torch.linspace(-1, 1, 40).reshape(10, 4)
Y = torch.tensor([0, 1, 2, 3, 0, 1, 2, 3, 0, 1])


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 4).requires_grad_(False)
        self.register_buffer("scale", torch.rand(4).to(torch.bfloat16))
        self.register_buffer("places", torch.randint(9, (4,)))
        self.register_buffer("spare", torch.rand(4), persistent=False)
        self.inner = nn.Linear(4, 4, bias=False)
        self.outer = nn.Linear(4, 4)
        self.outer.weight = self.inner.weight

    def forward(self, x: Any) -> Any:
        x = self.body(x) * self.scale + self.places
        return self.outer(torch.tanh(self.inner(torch.tanh(x))))


workload = TorchWorkload(
    model=Network,
    loss=nn.CrossEntropyLoss(),
    train_data=lambda client: (X, Y),
    test_data=lambda: (X, Y),
)
