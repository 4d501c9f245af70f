"""Partitioners: one file a method."""

from fedcore.partitions.base import Partition as Partition
from fedcore.partitions.by_column import by_column as by_column
from fedcore.partitions.dirichlet import dirichlet as dirichlet
from fedcore.partitions.iid import iid as iid
from fedcore.partitions.lone_class import lone_class as lone_class
from fedcore.partitions.shards import shards as shards
