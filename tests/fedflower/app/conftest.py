"""Imports flwr before the tests."""

from tests.flower import import_flwr

import_flwr()
