"""The FLOPs and bytes of a module's training step, counted while it runs."""

from fedtorch.flops.count import Counted as Counted
from fedtorch.flops.count import count_layers as count_layers
