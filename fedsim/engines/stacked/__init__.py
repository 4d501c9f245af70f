"""Many clients at once: their fates one by one, their training in stacks."""

from fedsim.engines.stacked.clients import StackedClients as StackedClients
from fedsim.engines.stacked.engine import stacked_clients as stacked_clients
from fedsim.engines.stacked.engine import stacked_model as stacked_model
