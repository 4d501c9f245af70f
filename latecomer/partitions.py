"""Functions that split a data set among clients."""

from fedcore.partitions import Partition as Partition
from fedcore.partitions import balanced_dirichlet as balanced_dirichlet
from fedcore.partitions import by_column as by_column
from fedcore.partitions import dirichlet as dirichlet
from fedcore.partitions import feature_noise as feature_noise
from fedcore.partitions import iid as iid
from fedcore.partitions import k_classes as k_classes
from fedcore.partitions import lone_class as lone_class
from fedcore.partitions import quantity_skew as quantity_skew
from fedcore.partitions import shards as shards
