"""Flower apps as workloads: their folders, their records and their first message."""

from fedrun.flower.federation import federation_of as federation_of
from fedrun.flower.folder import FlowerFolder as FlowerFolder
from fedrun.flower.folder import flower_name as flower_name
from fedrun.flower.folder import is_flower as is_flower
from fedrun.flower.folder import node_items as node_items
from fedrun.flower.folder import parse_name as parse_name
from fedrun.flower.workload import FlowerWorkload as FlowerWorkload
from fedrun.flower.workload import load_flower as load_flower
