"""Many clients at once: their events one by one, their training in stacks."""

from fedsim.engines.stacked.clients import StackedClients as StackedClients
from fedsim.engines.stacked.engine import make_stacked_clients as make_stacked_clients
from fedsim.engines.stacked.engine import make_stacked_model as make_stacked_model
