"""FLOPs and bytes of real modules, layer by layer."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from fedcore.errors import UserCodeError
from fedcore.planning.paleo import Layer
from fedtorch import models
from fedtorch.flops import Counted, count_layers

LOSS = nn.CrossEntropyLoss()


def counted(module: nn.Module, x: torch.Tensor, classes: int = 10) -> Counted:
    return count_layers(module, LOSS, x, torch.zeros(len(x), dtype=torch.long))


def layers(found: Counted) -> dict[str, Layer]:
    return {layer.name: layer for layer in found.layers}


def test_a_perceptron_by_hand() -> None:
    batch = 32
    found = counted(models.mlp(784, 300, 124, 60, 10), torch.zeros(batch, 784))
    rows = [row for row in found.layers if row.kind == "linear"]
    sizes = [(784, 300), (300, 124), (124, 60), (60, 10)]
    for place, (row, (ins, outs)) in enumerate(zip(rows, sizes, strict=True)):
        bias = batch * outs
        product = 2 * batch * ins * outs
        assert row.flops_forward == product + bias
        times = 1 if place == 0 else 2  # the input needs no gradient
        assert row.flops_backward == times * product + bias
        assert row.parameters == ins * outs + outs
    first = rows[0]
    x, w, y, b = 32 * 784 * 4, 784 * 300 * 4, 32 * 300 * 4, 300 * 4
    assert first.bytes_read == (x + w + b) + (x + y) + y
    assert first.bytes_written == y + w + b
    assert found.unknown == []


def test_a_convolutional_network_by_hand() -> None:
    found = layers(counted(models.fed_avg_cnn(), torch.zeros(2, 1, 28, 28)))
    one, two = 2 * 28 * 28 * 32, 2 * 14 * 14 * 64  # output values
    assert found["0"].flops_forward == one * (2 * 25 + 1)
    assert found["0"].flops_backward == one * (2 * 25 + 1)
    assert found["3"].flops_forward == two * (2 * 25 * 32 + 1)
    assert found["3"].flops_backward == two * (2 * 2 * 25 * 32 + 1)
    assert found["7"].flops_forward == 2 * 512 * (2 * 64 * 49 + 1)
    assert found["2"].kind == "pooling"
    assert sum(row.parameters for row in found.values()) == 1_663_370


def test_an_lstm_by_hand() -> None:
    x = torch.zeros(3, 5, dtype=torch.long)
    found = count_layers(models.char_lstm(90, 8, 16), LOSS, x, x)
    row = layers(found)["lstm"]
    products = 2 * 15 * 64 * (8 + 16) + 2 * 15 * 64 * (16 + 16)
    nodes = 20 * 15 * 16 * 2
    assert row.flops_forward == products + nodes
    assert row.flops_backward == 2 * products + nodes
    assert found.unknown == []


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (models.mlp(64, 32, 10), (4, 64)),
        (models.small_cnn(), (4, 1, 28, 28)),
        (models.res_net(), (2, 3, 32, 32)),
    ],
    ids=["mlp", "small_cnn", "res_net"],
)
def test_products_agree_with_torchs_own_counter(
    module: nn.Module, shape: tuple[int, ...]
) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    x = torch.zeros(shape)
    kinds = ("linear", "convolution", "product")
    found = counted(module, x)
    ours = sum(row.flops for row in found.layers if row.kind in kinds)
    with FlopCounterMode(display=False) as theirs:
        LOSS(module(x), torch.zeros(len(x), dtype=torch.long)).backward()
    # We count the bias too, which torch's counter leaves out.
    assert theirs.get_total_flops() <= ours <= 1.1 * theirs.get_total_flops()


def test_frozen_layers_have_no_gradients_of_their_own() -> None:
    x = torch.zeros(2, 6, dtype=torch.long)
    found = layers(count_layers(models.lora_transformer(), LOSS, x, x))
    assert found["blocks.0.key"].flops_backward == 0
    assert found["blocks.0.query.down"].flops_backward > 0
    assert sum(row.parameters for row in found.values()) == 2048


def test_attention_and_recurrence_have_rules() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.memory = nn.GRU(5, 8, batch_first=True)
            self.heads = nn.MultiheadAttention(8, 2, batch_first=True)
            self.scores = nn.Linear(8, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            states, _ = self.memory(x)
            mixed, _ = self.heads(states, states, states)
            found: torch.Tensor = self.scores(mixed[:, -1])
            return found

    found = counted(Mixed(), torch.zeros(3, 4, 5))
    kinds = {row.name: row.kind for row in found.layers}
    assert kinds["memory"] == "gru"
    assert kinds["heads"] == "attention"
    assert found.unknown == []
    heads = layers(found)["heads"]
    rows, width = 3 * 4, 8
    scores = rows * 4
    products = 8 * rows * width**2 + 4 * scores * width
    assert heads.flops_forward == products + 5 * 2 * scores


def test_an_operation_without_a_rule_is_named_and_counted_by_value() -> None:
    class Strange(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.special.erfcx(super().forward(x))

    found = counted(nn.Sequential(Strange(4, 10)), torch.zeros(2, 4))
    assert found.unknown == ["special_erfcx in 0"]
    plain = counted(nn.Sequential(nn.Linear(4, 10)), torch.zeros(2, 4))
    more = layers(found)["0"].flops_forward - layers(plain)["0"].flops_forward
    assert more == 2 * 10


def test_shapes_that_do_not_fit_name_the_layer() -> None:
    module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(9, 10))
    with pytest.raises(
        UserCodeError, match=r"layer '2' \(Linear\) raised RuntimeError"
    ):
        counted(module, torch.zeros(2, 4))
    assert not module[2]._forward_hooks  # none is left behind


def test_counting_leaves_the_weights_alone() -> None:
    module = models.mlp(4, 3, 10)
    before = [p.clone() for p in module.parameters()]
    counted(module, torch.ones(2, 4))
    for one, other in zip(before, module.parameters(), strict=True):
        assert torch.equal(one, other)
        assert other.grad is None


@pytest.mark.processes
def test_counting_does_not_import_the_compiler() -> None:
    code = "import sys, fedtorch.flops; print('torch._dynamo' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
