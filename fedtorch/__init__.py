"""A PyTorch module as a workload."""

from fedtorch.workload import TorchWorkload as TorchWorkload
