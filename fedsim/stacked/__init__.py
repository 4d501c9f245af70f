"""Many clients at once: their fates one by one, their training in stacks."""

from fedsim.stacked.clients import StackedClients as StackedClients
from fedsim.stacked.engine import stacked_clients as stacked_clients
from fedsim.stacked.engine import stacked_model as stacked_model
