"""Update filters. Each method is one file; importing it here registers it."""

from fedcore.update_filters.accept_all import AcceptAll as AcceptAll
from fedcore.update_filters.base import AnyUpdateFilter as AnyUpdateFilter
from fedcore.update_filters.base import UpdateFilter as UpdateFilter
from fedcore.update_filters.base import UpdateFilterConfig as UpdateFilterConfig
from fedcore.update_filters.fleet_controller import FleetController as FleetController
