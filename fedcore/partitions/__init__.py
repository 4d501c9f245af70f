"""Partitioners: one file a method."""

from fedcore.partitions.balanced_dirichlet import (
    balanced_dirichlet as balanced_dirichlet,
)
from fedcore.partitions.base import Partition as Partition
from fedcore.partitions.by_column import by_column as by_column
from fedcore.partitions.dirichlet import dirichlet as dirichlet
from fedcore.partitions.feature_noise import feature_noise as feature_noise
from fedcore.partitions.iid import iid as iid
from fedcore.partitions.k_classes import k_classes as k_classes
from fedcore.partitions.lone_class import lone_class as lone_class
from fedcore.partitions.quantity_skew import quantity_skew as quantity_skew
from fedcore.partitions.shards import shards as shards
