"""Flower apps as workloads: their folders, their records and their first message.

The functions here make it a :class:`fedrun.app.Framework`.
"""

from fedflower.app.federation import federation_of as federation_of
from fedflower.app.folder import FlowerFolder as FlowerFolder
from fedflower.app.folder import app_name as app_name
from fedflower.app.folder import code_hash as code_hash
from fedflower.app.folder import node_items as node_items
from fedflower.app.folder import parse_name as parse_name
from fedflower.app.workload import FlowerWorkload as FlowerWorkload
from fedflower.app.workload import load_app as load_app
